/* `npm run lint:docs`: fails with the gaps in the comments of the public API. */
import { join, relative } from "node:path";

import ts from "typescript";

import { checkApiDocs, type Finding } from "./rule.js";

const root = join(import.meta.dirname, "../../..");
const config = ts.getParsedCommandLineOfConfigFile(join(root, "tsconfig.build.json"), {}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail });
if (!config) throw new Error("tsconfig.build.json cannot be read");

const entries = ["index", "clients", "testing"].map((entry) => join(root, `src/${entry}.ts`));
const findings = checkApiDocs(ts.createProgram(entries, config.options), {
  entries,
  mirrors: (file) => file.startsWith(join(root, "src/clients/")),
});

const places = findings.map(({ file, line, name, problem }) => `${relative(root, file)}:${line} ${name}: ${problem}`);
if (process.argv.includes("--summary")) print(summarize(findings));
else print(places);
if (findings.length > 0) {
  console.error(`${findings.length} findings in the comments of the public API`);
  process.exitCode = 1;
}

function summarize(all: readonly Finding[]): string[] {
  const counts = new Map<string, number>();
  for (const { file } of all) counts.set(file, (counts.get(file) ?? 0) + 1);
  return [...counts].toSorted(([, a], [, b]) => b - a).map(([file, count]) => `${count} ${relative(root, file)}`);
}

function print(lines: readonly string[]): void {
  for (const line of lines) console.log(line);
}

function fail(diagnostic: ts.Diagnostic): never {
  throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"));
}
