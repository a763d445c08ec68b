import { acquireLease, BlobLocks, isConcurrencyError } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { nextTurn } from "../../support/pause.js";
import { runWorker } from "../../support/worker-process.js";

export interface HolderConfig {
  readonly connectionString: string;
  readonly container: string;
}

/** What a process finds that was stopped for longer than its leases last. */
export interface Awakening {
  /** By the wall clock. */
  readonly at: number;
  readonly firstAssertHeld: string;
  readonly abortedInNextTurn: boolean;
  readonly reason: unknown;
  readonly writes: readonly (number | "passed")[];
}

/**
 * Holds a lock, and leases on the blobs "a" and "b", until it is killed. Of the two leases one is only asked whether
 * it is held, the other one's signal is only looked at, so that neither makes the other one notice.
 */
runWorker(async ({ connectionString, container: name }: HolderConfig, parent) => {
  const container = fastContainer(connectionString, name);
  const lock = await new BlobLocks(container).acquire("crash", { durationInSeconds: 15 });
  const [a, b] = [container.getBlockBlobClient("a"), container.getBlockBlobClient("b")];
  const asked = await acquireLease(a, { durationInSeconds: 15, createIfNotExists: true });
  const watched = await acquireLease(b, { durationInSeconds: 15, createIfNotExists: true });
  const told = Date.now();
  parent.send({ epoch: lock.epoch });
  sleepUntilStopped(told);
  const failure = failureOf(() => asked.assertHeld());
  await nextTurn();
  const { aborted } = watched.signal;
  const loss: unknown = watched.signal.reason;
  const writes = [
    await statusOf(a.upload("late", 4, { conditions: asked.conditions })),
    await statusOf(b.upload("late", 4, { conditions: watched.conditions })),
  ];
  const awakening: Awakening = {
    at: Date.now(),
    firstAssertHeld: failure instanceof Error ? failure.name : "passed",
    abortedInNextTurn: aborted,
    reason: isConcurrencyError(loss, "LEASE_LOST") ? loss.reason : loss,
    writes,
  };
  return awakening;
});

/**
 * Returns when the process goes on after it was stopped, which it may have been since the time given, or else after a
 * minute. Nothing else runs meanwhile, no timer either: what is called next is the very first thing that happens.
 */
function sleepUntilStopped(since: number): void {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (let last = since, now = Date.now(); now - last < 10_000 && now - since < 60_000; now = Date.now()) {
    last = now;
    Atomics.wait(cell, 0, 0, 50);
  }
}

function failureOf(call: () => void): unknown {
  try {
    call();
    return undefined;
  } catch (error) {
    return error;
  }
}

async function statusOf(write: Promise<unknown>): Promise<number | "passed"> {
  return write.then(
    () => "passed",
    (error: unknown) => (error as { statusCode: number }).statusCode,
  );
}
