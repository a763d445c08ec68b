import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Extractor, ExtractorConfig, ExtractorLogLevel, type ExtractorMessage } from "@microsoft/api-extractor";

import { entries, root } from "../support/repository.js";
import { exportsOf } from "./surface.js";

/** Where the reports are committed. */
export const reportFolder: string = join(root, "docs/api");

export interface Reports {
  /** Text by file name. */
  readonly files: Readonly<Record<string, string>>;
  /** What is wrong with the surface: a type that a user needs and cannot name. */
  readonly problems: readonly string[];
}

/** The public API as it was built: one report with all signatures for each entry. */
export function makeReports(): Reports {
  const problems: string[] = [];
  const files = Object.fromEntries(entries.map((entry) => [`${entry}.api.md`, extract(entry, problems)]));
  return { files, problems };
}

function extract(entry: string, problems: string[]): string {
  // The index uses parts of client types that only ./clients names, and ./testing uses types of the index. Both can be imported.
  const elsewhere = new Set(entries.filter((other) => other !== entry).flatMap(exportsOf));
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
            // All that is exported is public. `npm run lint:docs` checks the comments.
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
      message.handled = true;
      if (message.logLevel !== ExtractorLogLevel.Warning && message.logLevel !== ExtractorLogLevel.Error) return;
      // The folder is empty each time: that the report is new is no news.
      if (message.messageId === "console-api-report-created") return;
      if (message.messageId === "ae-forgotten-export" && elsewhere.has(/^The symbol "(\w+)"/.exec(message.text)?.[1] ?? "")) return;
      problems.push(`${entry}: ${message.formatMessageWithLocation(root)}`);
    };
    Extractor.invoke(config, { localBuild: true, messageCallback: note });
    return readFileSync(join(folder, `${entry}.api.md`), "utf8");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
