import { setTimeout as sleep } from "node:timers/promises";

import { isCertain, isExpected, labelOf } from "./expected-errors.js";
import type { Gate } from "./gate.js";
import type { Report } from "./messages.js";
import type { Scenario, Task } from "./scenario.js";

/** Ends a task whose last operation has no outcome. */
export class Uncertain extends Error {}

/** Leases in the run last 15 s. A task whose resource belonged to a dead process has to have it after one, and some more for its work. */
export const recoveryLimitInMs = 30_000;

/** The workers tell so often that they run. */
export const beatInMs = 250;

interface Surroundings {
  readonly tell: (report: Report) => Promise<void>;
  /** Aborts when the storm is over. */
  readonly calm: AbortSignal;
  readonly stop: AbortSignal;
  readonly mayFaint: () => Promise<void>;
  readonly gate: Gate;
}

/** One of the tasks that a worker has at a time, and those that take its place. After the storm it has to do something once more. */
export class TaskPlace {
  readonly scenario: Scenario;
  readonly index: number;
  readonly #surroundings: Surroundings;
  readonly #finish = new AbortController();
  #current = "";
  #waiting = "no operation";

  constructor(scenario: Scenario, index: number, surroundings: Surroundings) {
    this.scenario = scenario;
    this.index = index;
    this.#surroundings = surroundings;
    const { calm, stop } = surroundings;
    // Consumers go on until they are stopped.
    const finishOn = scenario.unhurried?.includes(index) ? calm : stop;
    finishOn.addEventListener("abort", () => this.#finish.abort(), { once: true });
  }

  get finish(): AbortSignal {
    return this.#finish.signal;
  }

  get hasRecovered(): boolean {
    return this.#finish.signal.aborted;
  }

  /** It has had all the time of {@link recoveryLimitInMs}. */
  async giveUp(): Promise<void> {
    if (this.hasRecovered) return;
    this.#finish.abort();
    await this.#surroundings.tell({ kind: "stuck", scenario: this.scenario.name, task: this.#current, waiting: this.#waiting });
  }

  /** The next task of this place. */
  task(id: string, given: Pick<Task, "library" | "storage" | "random">): Task {
    const { tell, calm, stop, mayFaint, gate } = this.#surroundings;
    const of = { scenario: this.scenario.name, task: id } as const;
    this.#current = id;
    let op = 0;
    const unexpected = (error: unknown): Promise<void> =>
      tell({ kind: "unexpected", ...of, error: labelOf(error), stack: error instanceof Error ? stackOf(error) : String(error) });
    return {
      id,
      ...given,
      finish: this.finish,
      calm,
      stop,
      operation: (run, lane = "operations") => gate.pass(async () => {
        const report = { ...of, op: op++ };
        const isAfterStorm = calm.aborted;
        const begun = Date.now();
        this.#waiting = `operation ${report.op} was waiting`;
        await tell({ kind: "begin", ...report });
        try {
          await run(report.op);
        } catch (error) {
          const label = labelOf(error);
          this.#waiting = `operation ${report.op} ended with ${label} after ${Date.now() - begun} ms`;
          if (!isExpected(label, this.scenario.expects)) await unexpected(error);
          if (isCertain(error)) {
            await tell({ kind: "refused", ...report, error: label });
            return false;
          }
          await tell({ kind: "uncertain", ...report, error: label });
          throw new Uncertain();
        }
        await tell({ kind: "done", ...report, lane });
        if (isAfterStorm) this.#finish.abort();
        return true;
      }),
      progress: (lane) => {
        void tell({ kind: "progress", ...of, lane }).catch(() => undefined);
        if (calm.aborted) this.#finish.abort();
      },
      holding: async (resource, run) => {
        await tell({ kind: "hold", ...of, resource, held: true });
        try {
          return await run();
        } finally {
          await tell({ kind: "hold", ...of, resource, held: false });
        }
      },
      reportError: (error) => {
        if (!isExpected(labelOf(error), this.scenario.expects)) void unexpected(error).catch(() => undefined);
      },
      note: (note) => void tell({ kind: "note", ...of, note }).catch(() => undefined),
      pause: async (from, to) => {
        await sleep(given.random.between(from, to));
      },
      mayFaint,
    };
  }
}

/** With the errors that caused it. */
function stackOf(error: Error): string {
  const { stack = String(error), cause } = error;
  return cause instanceof Error ? `${stack}\n  caused by ${stackOf(cause)}` : stack;
}
