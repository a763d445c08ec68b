import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Extractor, ExtractorConfig, ExtractorLogLevel, type ExtractorMessage } from "@microsoft/api-extractor";
import ts from "typescript";

import { entries, root } from "../support/repository.js";

/** Where the reports are committed. */
export const reportFolder: string = join(root, "docs/api");

/** Entries that name only what the index has, so that a list of names is all there is to say about them. */
const subpaths = entries.filter((entry) => entry !== "index" && entry !== "testing");

export interface Reports {
  /** Text by file name. */
  readonly files: Readonly<Record<string, string>>;
  /** What is wrong with the surface: a type that somebody needs and cannot name. */
  readonly problems: readonly string[];
}

/** The public surface as it was built: the index and the test servers with all signatures, the subpaths by name. */
export function makeReports(): Reports {
  const problems: string[] = [];
  const files = {
    "index.api.md": extract("index", problems),
    "testing.api.md": extract("testing", problems),
    "subpaths.md": listSubpaths(problems),
  };
  return { files, problems };
}

function extract(entry: string, problems: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), "api-"));
  try {
    const config = ExtractorConfig.prepare({
      configObject: {
        projectFolder: root,
        mainEntryPointFilePath: join(root, `dist/${entry}.d.ts`),
        compiler: { tsconfigFilePath: join(root, "tsconfig.build.json") },
        apiReport: { enabled: true, reportFileName: `${entry}.api.md`, reportFolder: folder, reportTempFolder: join(folder, "temp") },
        newlineKind: "lf",
        messages: {
          extractorMessageReporting: {
            default: { logLevel: ExtractorLogLevel.Warning },
            // All that is exported is public, and members whose name says it all need no comment.
            "ae-missing-release-tag": { logLevel: ExtractorLogLevel.None },
            "ae-undocumented": { logLevel: ExtractorLogLevel.None },
            // TypeDoc checks the links, and understands more of them.
            "ae-unresolved-link": { logLevel: ExtractorLogLevel.None },
          },
        },
      },
      configObjectFullPath: undefined,
      packageJsonFullPath: join(root, "package.json"),
    });
    const note = (message: ExtractorMessage): void => {
      const isProblem = message.logLevel === ExtractorLogLevel.Warning || message.logLevel === ExtractorLogLevel.Error;
      // The folder is empty each time: that the report is new is no news.
      if (isProblem && message.messageId !== "console-api-report-created") problems.push(message.formatMessageWithLocation(root));
      message.handled = true;
    };
    Extractor.invoke(config, { localBuild: true, messageCallback: note });
    return readFileSync(join(folder, `${entry}.api.md`), "utf8");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function listSubpaths(problems: string[]): string {
  const file = (entry: string): string => join(root, `dist/${entry}.d.ts`);
  const program = ts.createProgram([file("index"), ...subpaths.map(file)], { module: ts.ModuleKind.NodeNext });
  const checker = program.getTypeChecker();
  const namesOf = (entry: string): string[] => {
    const symbol = checker.getSymbolAtLocation(program.getSourceFile(file(entry))!);
    return checker
      .getExportsOfModule(symbol!)
      .map(({ name }) => name)
      .toSorted();
  };

  const index = new Set(namesOf("index"));
  const sections = subpaths.map((entry) => {
    const names = namesOf(entry);
    problems.push(...names.filter((name) => !index.has(name)).map((name) => `${entry} exports ${name}, which the index does not have`));
    return `## azure-storage-concurrency/${entry}\n\n${names.map((name) => `- \`${name}\`\n`).join("")}`;
  });
  return `# What the subpaths export\n\nWritten by \`npm run api\`. The signatures stand in [index.api.md](index.api.md).\n\n${sections.join("\n")}`;
}
