/*
 * `npm run mutation [-- --quick | names of files] [--fresh]`: changes the code in small ways, and demands that a unit test fails for each change.
 * See CONTRIBUTING.md. What has not changed since the last run is not run again (`node_modules/.cache/mutation`); `--fresh` forgets that.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { Stryker } from "@stryker-mutator/core";

import { root } from "../architecture/source.js";
import { mutatedFiles } from "./files.js";
import type { MutatedFile } from "./files.js";
import { bound, readScores, scoreOf, writeScores } from "./scores.js";
import { isSame, keyOf, readSurvivors } from "./survivors.js";
import type { MutantKey, MutantResult } from "./survivors.js";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { quick: { type: "boolean", default: false }, fresh: { type: "boolean", default: false } } });
const chosen = mutatedFiles.filter(({ file, quick }) => (values.quick ? quick : positionals.length === 0 || positionals.some((name) => file.includes(name))));
if (chosen.length === 0) throw new Error(`No such file in test/mutation/files.ts: ${positionals.join(", ")}`);

const cache = join(root, "node_modules/.cache/mutation");
const survivors = readSurvivors();
const problems: string[] = [];
const started = performance.now();

for (const each of chosen) {
  const begun = performance.now();
  const results = await mutantsOf(each);
  const source = readFileSync(join(root, each.file), "utf8");
  const alive = results.filter(({ status }) => status === "Survived" || status === "NoCoverage").map((mutant) => ({ mutant, key: keyOf(mutant, each.file, source) }));
  const listed = survivors.filter(({ file }) => file === each.file);
  for (const entry of listed) {
    if (!alive.some(({ key }) => isSame(key, entry))) problems.push(`${each.file}: a survivor of survivors.json does not exist any more: ${describe(entry)}`);
  }
  const equivalent = alive.filter(({ key }) => listed.some((entry) => entry.equivalent && isSame(key, entry))).length;
  const score = scoreOf(results.map(({ status }) => status), equivalent);
  for (const { mutant, key } of alive) {
    if (!listed.some((entry) => isSame(key, entry))) console.log(`  ${mutant.status} ${each.file}:${mutant.location.start.line}: ${describe(key)}`);
  }
  if (score.score < bound) problems.push(`${each.file}: ${score.score} %, and ${bound} % are demanded`);
  writeScores({ ...readScores(), [each.file]: score });
  console.log(`${each.file}: ${score.score} % of ${score.mutants} mutants, ${equivalent} equivalent, ${Math.round((performance.now() - begun) / 1_000)} s`);
}

console.log(`${chosen.length} files in ${Math.round((performance.now() - started) / 1_000)} s`);
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;

async function mutantsOf({ file, tests }: MutatedFile): Promise<readonly MutantResult[]> {
  const incrementalFile = join(cache, `${file.replaceAll("/", "-")}.json`);
  mkdirSync(cache, { recursive: true });
  if (values.fresh && existsSync(incrementalFile)) rmSync(incrementalFile);
  // Read by vitest.config.ts, in the process of the tests.
  process.env["MUTATION_TESTS"] = tests.join(";");
  return new Stryker({
    mutate: [file],
    testRunner: "vitest",
    plugins: ["@stryker-mutator/vitest-runner", join(root, "test/mutation/ignore-messages.js")],
    ignorers: ["messages"],
    vitest: { configFile: "test/mutation/vitest.config.ts", related: false },
    concurrency: 1,
    incremental: true,
    incrementalFile,
    // A mutant that hangs is killed. Generous: the machine may be busy.
    timeoutMS: 15_000,
    timeoutFactor: 3,
    disableTypeChecks: false,
    ignorePatterns: ["/dist", "/docs", "/site", "/coverage", "/bench", "/samples", "/integration"],
    reporters: ["progress-append-only"],
    fileLogLevel: "off" as never,
    logLevel: "error" as never,
  }).runMutationTest();
}

function describe({ mutator, line, from, to }: MutantKey): string {
  return JSON.stringify({ mutator, line, from, to });
}
