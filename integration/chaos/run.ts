/* `npm run chaos -- --minutes N --seed S`: all helpers at once while everything goes wrong, and then the count. */
import { parseArgs } from "node:util";

import { breakable } from "./broken-build.js";
import type { Breakable } from "./broken-build.js";
import { runChaos } from "./supervisor.js";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string" },
    /** How many processes. */
    workers: { type: "string", default: "4" },
    /** Takes a guarantee out of the library, to see that the run notices. */
    break: { type: "string" },
  },
});
const minutes = numberFrom("minutes", values.minutes, 0.1, 600);
const seed = values.seed === undefined ? Math.floor(Math.random() * 1e6) : numberFrom("seed", values.seed, 0, 2 ** 32 - 1);
const workers = numberFrom("workers", values.workers, 2, 32);
const broken = values.break;
if (broken !== undefined && !(broken in breakable)) fail(`--break must be one of ${Object.keys(breakable).join(", ")}`);

console.log(`Chaos for ${minutes} min with ${workers} processes, seed ${seed}${broken ? `, without the ${broken}` : ""}`);
const result = await runChaos({ durationInMs: minutes * 60_000, seed, workers, broken: broken as Breakable | undefined, progress: (line) => console.log(`  ${line}`) });

const rows = result.scenarios.map(({ name, done, problems, invariant }) => [name, String(done), problems.length === 0 ? "holds" : `BROKEN ${problems.length}x`, invariant]);
printTable([["scenario", "done", "result", "invariant"], ...rows]);
console.log(`survived: ${Object.entries(result.survived).map(([what, n]) => `${n} ${what}`).join(", ")}`);
console.log(`told to callers: ${[...result.errors].map(([error, n]) => `${n} ${error}`).join(", ") || "no errors"}`);
const problems = [...result.problems, ...result.scenarios.flatMap((scenario) => scenario.problems.map((problem) => `${scenario.name}: ${problem}`))];
for (const problem of problems.slice(0, 20)) console.log(`  ! ${problem}`);
if (problems.length > 0) console.log(`${problems.length} problems. The same plan again: npm run chaos -- --minutes ${minutes} --seed ${seed} --workers ${workers}`);
// A scenario in which nothing was done proves nothing.
const idle = result.scenarios.filter(({ done }) => done === 0);
for (const { name } of idle) console.log(`  ! ${name}: nothing was done`);
process.exitCode = problems.length + idle.length > 0 ? 1 : 0;

function printTable(lines: readonly (readonly string[])[]): void {
  const widths = (lines[0] ?? []).map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  for (const line of lines) console.log(line.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd());
}

function numberFrom(name: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (!(number >= min && number <= max)) fail(`--${name} must be ${min} to ${max}; got ${text}`);
  return number;
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
