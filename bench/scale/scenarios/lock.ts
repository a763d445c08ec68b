import { BlobLocks } from "../../../src/index.js";
import type { Contender, Scenario } from "../scenario.js";

/** How long each holder needs the lock. */
const claimDurationInMs = 20;

const name = "one lock";
const service: Scenario["service"] = (world) => world.blobs;
const prepare: Scenario["prepare"] = (world) => world.newProcess().blob("locks/l").put("");

/** Everybody wants the lock, has it for a moment, and wants it again. */
export const lock: Scenario = { name, variant: "BlobLocks", service, prepare, contend };

/** The same, each in the order in which it came. */
export const fairLock: Scenario = { name, variant: "BlobLocks, fair", service, prepare, contend: (contender) => contend(contender, true) };

async function contend({ world, process, number, tally }: Contender, fair = false): Promise<void> {
  const locks = new BlobLocks(process.container, { holder: String(number), fair });
  for (;;) {
    const since = world.time.now;
    try {
      await locks.withLock("l", async () => {
        tally.done(number, world.time.now - since);
        await world.time.sleep(claimDurationInMs);
      });
    } catch {
      tally.failures++;
      await world.time.sleep(1_000);
    }
  }
}

/** A lease that is polled for about once a second, as one writes it on the plain SDK. */
export const lockBaseline: Scenario = { name, variant: "plain SDK", service, prepare, contend: contendBaseline };

async function contendBaseline({ world, process, number, tally }: Contender): Promise<void> {
  for (;;) {
    const lease = process.blob("locks/l").getBlobLeaseClient(crypto.randomUUID());
    const since = world.time.now;
    for (;;) {
      try {
        await lease.acquireLease(30);
        break;
      } catch (error) {
        if ((error as { statusCode?: number }).statusCode !== 409) tally.failures++;
      }
      await world.time.sleep(500 + world.time.random() * 1_000);
    }
    tally.done(number, world.time.now - since);
    await world.time.sleep(claimDurationInMs);
    await lease.releaseLease().catch(() => tally.failures++);
  }
}

const held = "one lock that is held";

/** One holder keeps the lock for as long as it can, and all others wait: does it survive them? A failure is a loss. */
export const longHold: Scenario = {
  name: held,
  variant: "BlobLocks",
  service,
  prepare: async (world, tally) => {
    const holder = world.newProcess();
    holder.blob("locks/l").put("");
    const guard = await new BlobLocks(holder.container).acquire("l");
    guard.signal.addEventListener("abort", () => tally.failures++);
  },
  contend,
};

/** The same on the plain SDK: the lease is renewed every 10 s, with the SDK's own retries. */
export const longHoldBaseline: Scenario = {
  name: held,
  variant: "plain SDK",
  service,
  prepare: async (world, tally) => {
    const blob = world.newProcess().blob("locks/l");
    blob.put("");
    const lease = blob.getBlobLeaseClient(crypto.randomUUID());
    await lease.acquireLease(30);
    const renew = (): void => void lease.renewLease().then(() => world.time.after(10_000, renew), () => tally.failures++);
    world.time.after(10_000, renew);
  },
  contend: contendBaseline,
};
