import fc from "fast-check";
import { expect, test } from "vitest";
import { BlobLocks, isConcurrencyError, ReaderWriterLock } from "../../src/index.js";
import type { LockHandle, LockHandleLike } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;
const durationInSeconds = 15;

interface Holder {
  readonly process: number;
  readonly kind: "reads" | "writes";
}

/** The model: any number of readers, or one writer with a larger epoch than the one before. */
class ReadersAndWriters implements Scenario {
  readonly world: World;
  readonly #processes: SimProcess[];
  readonly #locks: ReaderWriterLock[];
  readonly #running: Promise<void>[] = [];
  #holders: Holder[] = [];
  #lastEpoch = 0;

  constructor(world: World) {
    this.world = world;
    this.#processes = Array.from({ length: processes }, () => world.newProcess());
    this.#locks = this.#processes.map((process, n) => new ReaderWriterLock(new BlobLocks(process.container, { holder: `p${n}`, prefix: "" }), "l"));
  }

  start(process: number, kind: Holder["kind"], heldForInMs: number, waitInMs: number): void {
    const lock = this.#locks[process]!;
    const options = { durationInSeconds, waitInMs };
    const acquired = kind === "reads" ? lock.acquireReadLock(options) : lock.acquireWriteLock(options);
    this.#running.push(
      acquired.then(
        (held) => this.#hold({ process, kind }, held, heldForInMs),
        (error: unknown) => {
          if (isConcurrencyError(error, "LEASE_UNAVAILABLE") || isConcurrencyError(error, "LEASE_LOST")) return;
          expect(error).toHaveProperty("name", expect.stringMatching(/^(RestError|OperationTimeoutError)$/));
        },
      ),
    );
  }

  cutOff(process: number): void {
    this.#processes[process]!.cutOff();
  }

  async finish(): Promise<void> {
    this.world.networkConditions = calm;
    await Promise.all(this.#running);
    // Stragglers included, nobody is left behind who blocks others for longer than a lease takes.
    await this.world.time.sleep(61_000 + durationInSeconds * 1_000);
    const last = this.world.newProcess();
    const lock = new ReaderWriterLock(new BlobLocks(last.container, { prefix: "" }), "l");
    const writer = await lock.acquireWriteLock({ waitInMs: 10_000 });
    expect(writer.epoch).toBeGreaterThan(this.#lastEpoch);
    await writer.release();
    await (await lock.acquireReadLock({ waitInMs: 1_000 })).release();
    expect(await lock.inspect()).toEqual({ writer: undefined, readers: [] });
    await this.world.time.sleep(1_000);
    const left: string[] = [];
    for await (const { name } of last.container.listBlobsFlat({ prefix: "l~2Fread" })) left.push(name);
    expect(left, "blobs of readers that are gone").toEqual([]);
  }

  async #hold(holder: Holder, lock: LockHandleLike, heldForInMs: number): Promise<void> {
    if (!lock.signal.aborted) {
      this.#enter(holder, lock);
      lock.signal.addEventListener("abort", () => this.#leave(holder));
      // Never looks at a clock: it has to be told.
      await Promise.race([this.world.time.sleep(heldForInMs), new Promise((resolve) => lock.signal.addEventListener("abort", resolve))]);
      this.#leave(holder);
    }
    await lock.release().catch((error: unknown) => {
      if (!isConcurrencyError(error, "LEASE_LOST")) expect(error).toHaveProperty("name", expect.stringMatching(/^(RestError|OperationTimeoutError|AbortError)$/));
    });
    expect(() => lock.assertHeld()).toThrow();
  }

  #enter(holder: Holder, lock: LockHandleLike): void {
    const others = holder.kind === "writes" ? this.#holders : this.#holders.filter(({ kind }) => kind === "writes");
    expect(others, `process ${holder.process} ${holder.kind} beside others`).toEqual([]);
    if (holder.kind === "writes") {
      const { epoch } = lock as LockHandle;
      expect(epoch, "the epoch of a writer").toBeGreaterThan(this.#lastEpoch);
      this.#lastEpoch = epoch;
    }
    this.#holders.push(holder);
  }

  #leave(holder: Holder): void {
    this.#holders = this.#holders.filter((other) => other !== holder);
  }
}

class Acquire extends Step<ReadersAndWriters> {
  readonly process: number;
  readonly kind: Holder["kind"];
  readonly heldForInMs: number;
  readonly waitInMs: number;
  readonly pauseInMs: number;

  constructor([process, kind, heldForInMs, waitInMs, pauseInMs]: [number, Holder["kind"], number, number, number]) {
    super();
    this.process = process;
    this.kind = kind;
    this.heldForInMs = heldForInMs;
    this.waitInMs = waitInMs;
    this.pauseInMs = pauseInMs;
  }

  override act(scenario: ReadersAndWriters): void {
    scenario.start(this.process, this.kind, this.heldForInMs, this.waitInMs);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const kind = fc.constantFrom<Holder["kind"]>("reads", "reads", "writes");
const acquire = fc
  .tuple(process_, kind, fc.constantFrom(0, 30, 700, 6_000, 40_000), fc.constantFrom(0, 2_000, 60_000), pauses(20_000))
  .map((drawn) => new Acquire(drawn));

test("readers never overlap a writer, and writers never overlap, whatever happens to requests and processes", { timeout: 300_000 }, async () => {
  await checkModel<ReadersAndWriters>(
    1_500,
    [acquire, acquire, acquire, acquire, acquire, pauses(40_000).map((ms) => new Pause(ms)), process_.map((n) => new CutOff(n))],
    (world) => new ReadersAndWriters(world),
  );
});
