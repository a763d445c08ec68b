import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BlobLocks, breakLease, isConcurrencyError } from "../../src/index.js";
import type { LockHandle } from "../../src/index.js";
import { isLocked } from "../../src/testing/file-share/lease-machine.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimBlob } from "../simulation/storage/sim-blob.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;
const durationInSeconds = 15;
/** The default: a twentieth. */
const safetyMarginInMs = 750;

interface Holder {
  readonly process: number;
  readonly lock: LockHandle;
}

/** In so many runs, the processes that are left compete for the lock at the end. */
const competitions = 20;
const competitionInMs = 15_000;

/**
 * The model is one holder at most, each with a larger number than the one before. Whatever has happened, the processes that are left have about
 * the same share afterwards.
 */
class Locks implements Scenario {
  readonly world: World;
  readonly #processes: SimProcess[];
  readonly #locks: BlobLocks[];
  readonly #running: Promise<void>[] = [];
  readonly #cutOff = new Set<number>();
  /** As an operator sees it, whose network is always fine. */
  readonly #blob: SimBlob;
  /** Those who have the lock and were not told otherwise. */
  #holders: Holder[] = [];
  #lastEpoch = 0;
  readonly #fair: boolean;
  #isCleanedUp = false;

  readonly #competes: boolean;

  /** @param lastEpoch - The largest number that was given out so far. */
  constructor(world: World, seed: number, fair: boolean, lastEpoch = 0) {
    this.world = world;
    this.#fair = fair;
    this.#competes = seed % competitions === 0;
    this.#lastEpoch = lastEpoch;
    this.#processes = Array.from({ length: processes }, () => world.newProcess());
    this.#locks = this.#processes.map((process, n) => new BlobLocks(process.container, { holder: `p${n}`, prefix: "", fair }));
    const operator = world.newProcess();
    operator.setNetworkConditions(calm);
    this.#blob = operator.blob("l");
    if (lastEpoch > 0) this.#blob.put(new Uint8Array(), { metadata: { asc_epoch: String(lastEpoch), asc_reserved: "1" } });
  }

  start(process: number, claimDurationInMs: number, waitInMs: number, watchful: boolean): void {
    const locks = this.#locks[process]!;
    this.#running.push(
      locks.acquire("l", { durationInSeconds, waitInMs }).then(
        (lock) => this.#hold({ process, lock }, claimDurationInMs, watchful),
        (error: unknown) => {
          // Unavailable, or the network is so bad that five looks in a row failed; or deleted between its creation and the lease.
          if (isConcurrencyError(error, "TARGET_NOT_FOUND") && this.#isCleanedUp) return;
          if (!isConcurrencyError(error, "LEASE_UNAVAILABLE")) expect(error).toHaveProperty("name", expect.stringMatching(/^(RestError|OperationTimeoutError)$/));
        },
      ),
    );
  }

  breakIt(): void {
    // With notice: the holder may go on until its time is over, and learns of it at its next renewal.
    this.#running.push(breakLease(this.#blob, { breakPeriodInSeconds: 60 }).then(nothing, nothing));
  }

  /** A foreign client cleans up. The service refuses to delete what is leased, or to change its metadata. */
  cleanUp(what: "lock" | "metadata" | "tickets"): void {
    const { resources } = this.world.blobs;
    this.#isCleanedUp ||= what === "lock";
    if (what === "tickets") resources.delete(`${this.#blob.url}.tickets`);
    else if (this.#blob.stored && !isLocked(this.#blob.lease)) {
      if (what === "lock") {
        this.#blob.drop();
        resources.delete(`lease of ${this.#blob.url}`);
      }
      else this.#blob.put("", { metadata: { owner: "a backup tool" } });
    }
  }

  /** Deletes the lock unless it is held: whoever comes next creates it again, and has to get a larger number all the same. */
  purge(process: number): void {
    this.#running.push(this.#locks[process]!.purge({ olderThanInMs: 0 }).then(nothing, nothing));
  }

  cutOff(process: number): void {
    this.#cutOff.add(process);
    this.#processes[process]!.cutOff();
  }

  async finish(): Promise<void> {
    this.world.networkConditions = calm;
    await Promise.all(this.#running);
    // Nobody is left behind who blocks the next one for longer than a lease takes, stragglers included.
    await this.world.time.sleep(61_000 + durationInSeconds * 1_000);
    const last = this.world.newProcess();
    const lock = await new BlobLocks(last.container, { prefix: "", fair: this.#fair }).acquire("l", { waitInMs: 10_000 });
    expect(lock.epoch).toBeGreaterThan(this.#lastEpoch);
    await lock.release();
    expect(this.#blob.lease.state).toBe("available");
    if (this.#competes) await this.#compete();
  }

  async #compete(): Promise<void> {
    const newcomer = new BlobLocks(this.world.newProcess().container, { prefix: "", fair: this.#fair });
    const competitors = [newcomer, ...this.#locks.filter((_, n) => !this.#cutOff.has(n))];
    const until = this.world.time.now + competitionInMs;
    const turns = await Promise.all(
      competitors.map(async (locks) => {
        let count = 0;
        for (; this.world.time.now < until; count++) await locks.withLock("l", () => this.world.time.sleep(20), { durationInSeconds });
        return count;
      }),
    );
    const share = turns.reduce((a, b) => a + b) / turns.length;
    expect(Math.min(...turns) / share, `turns: ${turns.join()}`).toBeGreaterThan(2 / 3);
  }

  async #hold(holder: Holder, claimDurationInMs: number, watchful: boolean): Promise<void> {
    const { lock } = holder;
    if (!lock.signal.aborted) {
      this.#enter(holder);
      lock.signal.addEventListener("abort", () => this.#leave(holder));
      if (watchful) await this.#watch(holder, claimDurationInMs);
      // Never looks at a clock: it has to be told.
      else await Promise.race([this.world.time.sleep(claimDurationInMs), new Promise((resolve) => lock.signal.addEventListener("abort", resolve))]);
      this.#leave(holder);
    }
    await lock.release().catch((error: unknown) => {
      if (!isConcurrencyError(error, "LEASE_LOST")) expect(error).toHaveProperty("name", expect.stringMatching(/^(RestError|OperationTimeoutError|AbortError)$/));
    });
    expect(() => lock.assertHeld()).toThrow();
  }

  /** Looks now and then whether what the holder believes is true. */
  async #watch({ lock }: Holder, claimDurationInMs: number): Promise<void> {
    const until = this.world.time.now + claimDurationInMs;
    while (this.world.time.now < until && !lock.signal.aborted) {
      await this.world.time.sleep(Math.min(500, until - this.world.time.now));
      if (isLost(lock)) break;
      lock.assertHeld();
      const { state, id, endsAt } = this.#blob.lease;
      expect(["leased", "breaking"], "believes to hold what is not leased").toContain(state);
      expect(id, "believes to hold what another has").toBe(lock.leaseId);
      expect(this.world.time.now + lock.remainingInMs + safetyMarginInMs, "believes to hold it for longer than it does").toBeLessThanOrEqual(endsAt);
    }
  }

  #enter(holder: Holder): void {
    expect(this.#holders.map(({ process }) => process), `process ${holder.process} got the lock, which others have`).toEqual([]);
    expect(holder.lock.epoch, "the number of a holder").toBeGreaterThan(this.#lastEpoch);
    this.#lastEpoch = holder.lock.epoch;
    this.#holders.push(holder);
  }

  #leave(holder: Holder): void {
    this.#holders = this.#holders.filter((other) => other !== holder);
  }
}

/** Asked anew after an await. */
function isLost(lock: LockHandle): boolean {
  return lock.signal.aborted;
}

function nothing(): void {
  // whatever became of it
}

class Acquire extends Step<Locks> {
  readonly process: number;
  readonly claimDurationInMs: number;
  readonly waitInMs: number;
  readonly watchful: boolean;
  readonly pauseInMs: number;

  constructor([process, claimDurationInMs, waitInMs, watchful, pauseInMs]: [number, number, number, boolean, number]) {
    super();
    this.process = process;
    this.claimDurationInMs = claimDurationInMs;
    this.waitInMs = waitInMs;
    this.watchful = watchful;
    this.pauseInMs = pauseInMs;
  }

  override act(locks: Locks): void {
    locks.start(this.process, this.claimDurationInMs, this.waitInMs, this.watchful);
  }
}

class Break extends Step<Locks> {
  readonly pauseInMs = 10;

  override act(locks: Locks): void {
    locks.breakIt();
  }
}

class CleanUp extends Step<Locks> {
  readonly what: Parameters<Locks["cleanUp"]>[0];
  readonly pauseInMs = 0;

  constructor(what: Parameters<Locks["cleanUp"]>[0]) {
    super();
    this.what = what;
  }

  override act(locks: Locks): void {
    locks.cleanUp(this.what);
  }
}

class Purge extends Step<Locks> {
  readonly process: number;
  readonly pauseInMs: number;

  constructor([process, pauseInMs]: [number, number]) {
    super();
    this.process = process;
    this.pauseInMs = pauseInMs;
  }

  override act(locks: Locks): void {
    locks.purge(this.process);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const acquire = fc
  .tuple(process_, fc.constantFrom(0, 30, 700, 6_000, 40_000), fc.constantFrom(0, 2_000, 60_000), fc.boolean(), pauses(20_000))
  .map((drawn) => new Acquire(drawn));

const cleanUp = fc.constantFrom("lock" as const, "metadata" as const, "tickets" as const).map((what) => new CleanUp(what));
const usual = [acquire, acquire, acquire, acquire, pauses(40_000).map((ms) => new Pause(ms)), fc.constant(new Break()), process_.map((n) => new CutOff(n))];

describe.each([["a lock", false], ["a fair lock", true]])("%s", (_, fair) => {
  test("has one holder at a time, who is told before anybody else can have it", { timeout: 300_000 }, async () => {
    await checkModel<Locks>(fair ? 600 : 2_500, usual, (world, seed) => new Locks(world, seed, fair));
  });

  test("has epochs that grow also if a foreign client deletes the lock, its metadata or its tickets", { timeout: 300_000 }, async () => {
    await checkModel<Locks>(600, [...usual, cleanUp, cleanUp], (world, seed) => new Locks(world, seed, fair));
  });
});

test("a lock that is purged now and then has one holder at a time, each with a larger number", { timeout: 300_000 }, async () => {
  const purge = fc.tuple(process_, pauses(20_000)).map((drawn) => new Purge(drawn));
  await checkModel<Locks>(
    1_000,
    [acquire, acquire, acquire, purge, purge, pauses(40_000).map((ms) => new Pause(ms)), fc.constant(new Break()), process_.map((n) => new CutOff(n))],
    // Far ahead of the clock: the time of day alone does not make the numbers grow.
    (world, seed) => new Locks(world, seed, false, 1_000 * Date.UTC(2040, 0, 1)),
  );
});
