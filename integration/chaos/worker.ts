/* One process of a chaos run: works on all scenarios at once until it is told to finish, or killed. */
import { setTimeout as sleep } from "node:timers/promises";

import { machineTime } from "./claims.js";
import type { Assignment, Order, Report } from "./messages.js";
import { randomFrom } from "./random.js";
import type { Random } from "./random.js";
import type { Library, Scenario, Task } from "./scenario.js";
import { scenarios } from "./scenarios/index.js";
import { openStorage } from "./storage.js";

const assignment = JSON.parse(process.argv[2] ?? "") as Assignment;
const library = (await import(assignment.library)) as Library;
const storage = openStorage(assignment.connectionString, assignment.storage);
const random = randomFrom(assignment.seed).fork(assignment.worker);

const finish = new AbortController();
const stop = new AbortController();
process.on("message", (order: Order) => {
  finish.abort();
  if (order === "stop") stop.abort();
});
// Nobody waits for this process any more.
process.once("disconnect", () => process.exit(1));

/** Resolves when it is on its way to the supervisor, so that a kill after that cannot take it back. */
function tell(report: Report): Promise<void> {
  return new Promise((resolve, reject) => {
    if (process.send) process.send(report, undefined, {}, (error) => (error ? reject(error) : resolve()));
    else resolve();
  });
}

/** What the library says about an operation that was not done, and never will be. */
const certain = new Set(["ConflictError", "ContentChangedError", "OperationTimeoutError", "LeaseUnavailableError", "FencedError", "TargetNotFoundError"]);

/** Not at once, not all workers at the same time, and not always in the scenario that comes along most often. */
const fainting = ["locks", "table lock", "table lock", "settings file"] as const;
let nextFaint = { from: machineTime() + random.between(1_000, 8_000), in: random.pick(fainting) };

class Uncertain extends Error {}

function taskOf(scenario: Scenario, id: string, taskRandom: Random): Task {
  let op = 0;
  return {
    id,
    library,
    storage,
    random: taskRandom,
    finish: finish.signal,
    stop: stop.signal,
    async operation(run) {
      const report = { scenario: scenario.name, task: id, op: op++ };
      await tell({ kind: "begin", ...report });
      try {
        await run(report.op);
      } catch (error) {
        const name = error instanceof Error ? error.name : String(error);
        if (certain.has(name)) {
          await tell({ kind: "refused", ...report, error: name });
          return false;
        }
        await tell({ kind: "uncertain", ...report, error: name === "RestError" ? `RestError ${(error as { statusCode?: number }).statusCode ?? "without answer"}` : name });
        throw new Uncertain();
      }
      await tell({ kind: "done", ...report });
      return true;
    },
    note: (note) => void tell({ kind: "note", scenario: scenario.name, task: id, note }).catch(() => undefined),
    pause: async (from, to) => {
      await sleep(taskRandom.between(from, to));
    },
    mayFaint: async () => {
      if (finish.signal.aborted || scenario.name !== nextFaint.in || machineTime() < nextFaint.from) return;
      nextFaint = { from: machineTime() + random.between(20_000, 30_000), in: random.pick(fainting) };
      await tell({ kind: "faint", forInMs: taskRandom.between(16_000, 18_000) });
      process.kill(process.pid, "SIGSTOP");
    },
  };
}

/** An operation without an outcome ends a task, since its count is not certain any more; another one takes its place. */
async function keepWorking(scenario: Scenario, index: number): Promise<void> {
  for (let generation = 0; !finish.signal.aborted; generation++) {
    const id = `${assignment.worker}.${generation}/${index}`;
    try {
      await scenario.work(taskOf(scenario, id, random.fork(`${scenario.name} ${id}`)));
    } catch (error) {
      if (!(error instanceof Uncertain)) throw error;
      await sleep(20);
    }
  }
}

await Promise.all(scenarios.flatMap((scenario) => Array.from({ length: scenario.tasks }, (_, i) => keepWorking(scenario, i))));
process.exit(0);
