/* `npm run chaos -- --minutes N --seed S`: all helpers at once while everything goes wrong, and then the count. */
import { parseArgs } from "node:util";

import { breakable, breakableTogether } from "./broken-build.js";
import type { Breakable } from "./broken-build.js";
import { scenarios } from "./scenarios/index.js";
import { runChaos } from "./supervisor.js";
import type { ChaosResult } from "./supervisor.js";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string" },
    /** How many processes. */
    workers: { type: "string", default: "4" },
    /** Names, separated by semicolons: all, if none is given. */
    scenarios: { type: "string" },
    /** Takes a guarantee out of the library, to see that the run notices. */
    break: { type: "string" },
    /** Takes these guarantees out of the library, one after the other (with a plus between them, at once), and demands that the run notices each. */
    broken: { type: "string" },
    /** With `--broken`: once for each. */
    seeds: { type: "string", default: "1" },
    /** Only tells of errors that no scenario expects, and does not fail for them: of what has been seen so far, nothing was lost or done twice. */
    "tell-errors": { type: "boolean", default: false },
  },
});
const minutes = numberFrom("minutes", values.minutes, 0.1, 600);
const seed = values.seed === undefined ? Math.floor(Math.random() * 1e6) : numberFrom("seed", values.seed, 0, 2 ** 32 - 1);
const workers = numberFrom("workers", values.workers, 2, 32);
const chosen = values.scenarios?.split(";").map((name) => name.trim());
for (const name of chosen ?? []) if (!scenarios.some((scenario) => scenario.name === name)) fail(`--scenarios: ${JSON.stringify(name)} is none of ${scenarios.map((scenario) => scenario.name).join("; ")}`);

if (values.broken === undefined) await runOnce();
else await runBroken(values.broken);

async function runOnce(): Promise<void> {
  const broken = values.break === undefined ? [] : guaranteesFrom("break", values.break);
  console.log(`Chaos for ${minutes} min with ${workers} processes, seed ${seed}${broken.length > 0 ? `, without ${broken.join(", ")}` : ""}`);
  const result = await run(broken, seed, chosen, (line) => console.log(`  ${line}`));
  const rows = result.scenarios.map(({ name, done, takeovers, longestWaitInMs, problems, invariant }) => [
    name, String(done), String(takeovers), `${(longestWaitInMs / 1000).toFixed(1)} s`, problems.length === 0 ? "holds" : `BROKEN ${problems.length}x`, invariant,
  ]); // prettier-ignore
  printTable([["scenario", "done", "takeovers", "longest wait", "result", "invariant"], ...rows]);
  console.log(`survived: ${Object.entries(result.survived).map(([what, n]) => `${n} ${what}`).join(", ")}`);
  console.log(`told to callers: ${[...result.errors].map(([error, n]) => `${n} ${error}`).join(", ") || "no errors"}`);
  const problems = problemsOf(result);
  for (const problem of problems.slice(0, 20)) console.log(`  ! ${problem}`);
  const failures = values["tell-errors"] ? problems.filter((problem) => !/^[^:]+: unexpected /.test(problem)) : problems;
  if (problems.length > 0) console.log(`${problems.length} problems. The same plan again: npm run chaos -- --minutes ${minutes} --seed ${seed} --workers ${workers}`);
  process.exitCode = failures.length > 0 ? 1 : 0;
}

/** Each broken build runs only the scenarios that depend on what is broken, so that they do enough in a short time. */
async function runBroken(text: string): Promise<void> {
  const builds = text === "all" ? (Object.keys(breakable) as Breakable[]).map((guarantee) => [guarantee]) : text.split(",").map((build) => guaranteesFrom("broken", build));
  const seeds = values.seeds.split(",").map((each) => numberFrom("seeds", each, 0, 2 ** 32 - 1));
  const missed: string[] = [];
  for (const build of builds) {
    for (const each of seeds) {
      const started = performance.now();
      const names = build.flatMap((guarantee): readonly string[] => breakable[guarantee].scenarios);
      const problems = problemsOf(await run(build, each, names, () => undefined));
      const took = `${((performance.now() - started) / 1000).toFixed(0)} s`;
      for (const guarantee of build) {
        // A worker that ended may have been ended by any of them.
        const own = problems.filter((problem) => build.length === 1 || breakable[guarantee].scenarios.some((name) => problem.startsWith(`${name}: `)));
        const [first] = own;
        console.log(`${guarantee}, seed ${each}: ${first === undefined ? "NOT NOTICED" : `noticed, ${own.length}x, ${first.slice(0, 160).replaceAll("\n", " ")}`} (${took})`);
        if (first === undefined) missed.push(`${guarantee}, seed ${each}`);
      }
    }
  }
  if (missed.length > 0) console.log(`  ! not noticed: ${missed.join("; ")}`);
  process.exitCode = missed.length > 0 ? 1 : 0;
}

function run(broken: readonly Breakable[], withSeed: number, names: readonly string[] | undefined, progress: (line: string) => void): Promise<ChaosResult> {
  const running = scenarios.filter(({ name }) => names?.includes(name) ?? true);
  return runChaos({ durationInMs: minutes * 60_000, seed: withSeed, workers, scenarios: running, broken, progress });
}

function problemsOf(result: ChaosResult): string[] {
  return [
    ...result.scenarios.flatMap((scenario) => scenario.problems.map((problem) => `${scenario.name}: ${problem}`)),
    ...result.problems,
    // A scenario in which nothing was done proves nothing.
    ...result.scenarios.filter(({ done }) => done === 0).map(({ name }) => `${name}: nothing was done`),
  ];
}

/** One guarantee, several with a plus between them, or `together`. */
function guaranteesFrom(option: string, text: string): readonly Breakable[] {
  if (text.trim() === "together") return breakableTogether;
  const names = text.split("+").map((name) => name.trim());
  for (const name of names) if (!(name in breakable)) fail(`--${option} must be one of ${Object.keys(breakable).join(", ")}; got ${JSON.stringify(name)}`);
  return names as Breakable[];
}

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
