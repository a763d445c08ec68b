import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { isConcurrencyError, Once } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;
const keys = ["k0", "k1"];
const claimDurationInMs = 5_000;

/** What the function does. `act`: has an effect at its end, if it is still held. `ignore`: ignores the loss, but then its result must not count. */
type Manner = "act" | "throw" | "storedError";

interface Drawn {
  readonly process: number;
  readonly key: string;
  readonly manner: Manner;
  readonly transaction: boolean;
  readonly durationInMs: number;
  readonly abortAfterInMs: number | undefined;
  readonly pauseInMs: number;
}

/** One run of a function that acted. */
interface Run {
  readonly key: string;
  readonly id: string;
  readonly startedAt: number;
  actedAt?: number;
}

/** What a caller was told. */
interface Told {
  readonly process: number;
  outcome: "done" | "unknown" | "other";
}

const counted = { calls: 0, done: 0, unknown: 0 };

/** The model: a key has one result, whoever asks; runs that act do not overlap; a transaction has its effect once. */
class Fleet implements Scenario {
  readonly world: World;
  readonly #processes: SimProcess[];
  readonly #onces: Once[];
  readonly #runs: Run[] = [];
  readonly #results = new Map<string, Set<string>>();
  readonly #running: Promise<void>[] = [];
  readonly #cut = new Set<number>();
  readonly #told: Told[] = [];
  #ids = 0;

  constructor(world: World) {
    this.world = world;
    this.#processes = Array.from({ length: processes }, () => world.newProcess());
    this.#onces = this.#processes.map((process) => new Once(process.table("once"), { claimDurationInMs }));
    this.#processes[0]!.table("once").put({ n: { type: "Int32", value: 0 } }, "p", "counter");
  }

  call({ process, key, manner, transaction, durationInMs, abortAfterInMs }: Drawn): void {
    const once = this.#onces[process]!;
    const stop = new AbortController();
    if (abortAfterInMs !== undefined) setTimeout(() => stop.abort(), abortAfterInMs);
    const options = { abortSignal: stop.signal, storeError: () => manner === "storedError" };
    const name = transaction ? `tx-${key}` : key;
    const outcome = transaction
      ? once.runTransaction(name, "p", async (tx) => {
          const { n } = (await tx.get<{ n: number }>("counter"))!;
          if (durationInMs > 0) await this.world.time.sleep(Math.min(durationInMs, 500));
          if (manner !== "act") throw new Error(`thrown ${n}`);
          tx.update({ rowKey: "counter", n: n + 1 });
          return String(n + 1);
        }, options)
      : once.run(name, async ({ assertHeld }) => {
          const run: Run = { key: name, id: `run-${++this.#ids}`, startedAt: this.world.time.now };
          this.#runs.push(run);
          if (durationInMs > 0) await this.world.time.sleep(durationInMs);
          assertHeld();
          if (manner !== "act") throw new Error(`thrown ${run.id}`);
          run.actedAt = this.world.time.now;
          return run.id;
        }, options);
    const told: Told = { process, outcome: "other" };
    this.#told.push(told);
    this.#running.push(
      outcome.then(
        ({ value }) => {
          told.outcome = "done";
          this.#add(name, value);
        },
        (error: unknown) => {
          if (isConcurrencyError(error)) told.outcome = error.committed === "unknown" ? "unknown" : "other";
          else if (error !== stop.signal.reason && !/^thrown /.test((error as Error).message)) expect(error).toHaveProperty("name", "RestError");
        },
      ),
    );
  }

  cutOff(process: number): void {
    this.#cut.add(process);
    this.#processes[process]!.cutOff();
  }

  async finish(): Promise<void> {
    await Promise.all(this.#running);
    // A process that is cut off can be told nothing.
    const alive = this.#told.filter(({ process }) => !this.#cut.has(process));
    counted.calls += alive.length;
    counted.done += alive.filter(({ outcome }) => outcome === "done").length;
    counted.unknown += alive.filter(({ outcome }) => outcome === "unknown").length;
    this.world.networkConditions = calm;
    await this.world.time.sleep(61_000); // for the last straggler
    // Whatever happened, a key can be used: by a process that is new, at the latest when a claim has expired.
    const fresh = new Once(this.world.newProcess().table("once"), { claimDurationInMs });
    for (const key of this.#results.keys()) {
      const { value } = await (key.startsWith("tx-")
        ? fresh.runTransaction(key, "p", () => "again")
        : fresh.run<string>(key, () => "again", { timeoutInMs: 60_000 }));
      this.#add(key, value);
    }
    for (const [key, results] of this.#results) expect([...results], `the results of ${key}`).toHaveLength(1);
    this.#checkRuns();
    const table = this.#processes[0]!.table("once");
    const committed = [...this.#results].filter(([key]) => key.startsWith("tx-")).length;
    const stored = table.rowKeys("p").filter((rowKey) => rowKey.startsWith("~asc~once!") && table.property("state", "p", rowKey)?.value === "succeeded").length;
    // A transaction whose caller was told nothing may be stored as well. None counts twice.
    expect(Number(table.property("n", "p", "counter")?.value), "the counter").toBe(stored);
    expect(stored).toBeGreaterThanOrEqual(committed);
  }

  #add(key: string, value: string): void {
    this.#results.set(key, (this.#results.get(key) ?? new Set()).add(value));
  }

  /** A run that acts has ended before another one of the key starts that acts. */
  #checkRuns(): void {
    const acted = this.#runs.filter((run): run is Run & { actedAt: number } => run.actedAt !== undefined);
    for (const a of acted) for (const b of acted) if (a !== b && a.key === b.key && b.startedAt > a.startedAt) expect(b.startedAt, `${b.id} and ${a.id} of ${a.key}`).toBeGreaterThanOrEqual(a.actedAt);
  }
}

class Call extends Step<Fleet> {
  readonly drawn: Drawn;
  readonly pauseInMs: number;

  constructor(drawn: Drawn) {
    super();
    this.drawn = drawn;
    this.pauseInMs = drawn.pauseInMs;
  }

  override act(fleet: Fleet): void {
    fleet.call(this.drawn);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const call = fc
  .record({
    process: process_,
    key: fc.constantFrom(...keys),
    manner: fc.constantFrom<Manner>("act", "act", "act", "throw", "storedError"),
    transaction: fc.constantFrom(false, false, true),
    durationInMs: fc.constantFrom(0, 10, 100, 3_000, 12_000),
    abortAfterInMs: fc.option(fc.integer({ min: 1, max: 5_000 }), { nil: undefined, freq: 5 }),
    pauseInMs: pauses(10_000),
  })
  .map((drawn) => new Call(drawn));

test("a key has one result in all processes, and functions that act do not overlap", { timeout: 300_000 }, async () => {
  await checkModel<Fleet>(
    1_000,
    [call, call, call, call, pauses(20_000).map((ms) => new Pause(ms)), process_.map((n) => new CutOff(n))],
    (world) => new Fleet(world),
  );
});

afterAll(() => {
  if (process.env["MODEL_RUNS"]) console.log(counted);
  // Else it would hold for a library that always gives up.
  expect(counted.done / counted.calls).toBeGreaterThan(0.3);
  expect(counted.unknown / counted.calls).toBeLessThan(0.2);
});
