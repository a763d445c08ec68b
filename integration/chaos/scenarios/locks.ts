import { claimWhileHeld, overlapsOf } from "../claims.js";
import type { Claim } from "../claims.js";
import type { Lane, Scenario } from "../scenario.js";

const lockOptions = { durationInSeconds: 15, waitInMs: 4_000 };

/** Waiting in vain is part of the game: the operation was certainly not done. */
async function tryToHold(lane: Lane, resource: string, run: (claim: (epoch: number, assertHeld: () => void) => Promise<void>) => Promise<void>): Promise<void> {
  await lane.operation(() =>
    run(async (epoch, assertHeld) => {
      const end = performance.now() + lane.random.between(5, 250);
      await claimWhileHeld(resource, epoch, assertHeld, (claim) => lane.note(claim), async () => {
        await lane.pause(1, 5);
        await lane.mayFaint();
        return performance.now() > end;
      });
    }),
  );
  await lane.pause(5, 50);
}

export const locks: Scenario = {
  name: "locks",
  invariant: "never two holders at once, epochs only increase (BlobLocks)",
  lanes: 3,
  work: async (lane) => {
    const blobLocks = new lane.library.BlobLocks(lane.storage.container);
    while (!lane.finish.aborted) {
      const name = `mutex-${lane.random.between(1, 2)}`;
      await tryToHold(lane, name, (claim) => blobLocks.withLock(name, (lock) => claim(lock.epoch, () => lock.assertHeld()), lockOptions));
    }
  },
  check: (_, ledger) => Promise.resolve(overlapsOf(ledger.notesOf<Claim>("locks"), 1)),
};

const slots = 2;

export const semaphore: Scenario = {
  name: "semaphore",
  invariant: `never more than ${slots} holders at once (Semaphore)`,
  lanes: 2,
  work: async (lane) => {
    const limit = new lane.library.Semaphore(new lane.library.BlobLocks(lane.storage.container), "slots", slots);
    while (!lane.finish.aborted) {
      await tryToHold(lane, "slots", (claim) => limit.withSlot((slot) => claim(slot.epoch, () => slot.assertHeld()), lockOptions));
    }
  },
  check: (_, ledger) => Promise.resolve(overlapsOf(ledger.notesOf<Claim>("semaphore"), slots)),
};

export const election: Scenario = {
  name: "election",
  invariant: "never two leaders at once, terms only increase (LeaderElection)",
  lanes: 1,
  work: async (lane) => {
    const blobLocks = new lane.library.BlobLocks(lane.storage.container);
    const candidate = new lane.library.LeaderElection(blobLocks, "leader", {
      durationInSeconds: 15,
      stayAwayInMs: 200,
      onError: () => undefined,
      onElected: async (term) => {
        const end = performance.now() + lane.random.between(200, 2_000);
        await claimWhileHeld("leader", term.epoch, () => term.assertLeader(), (claim) => lane.note(claim), async () => {
          await lane.pause(1, 10);
          return term.signal.aborted || performance.now() > end;
        });
        void candidate.resign();
      },
    });
    candidate.start();
    await new Promise<void>((resolve) => lane.finish.addEventListener("abort", () => resolve(), { once: true }));
    await candidate.stop();
  },
  done: (ledger) => new Set(ledger.notesOf<Claim>("election").map(({ epoch }) => epoch)).size,
  check: (_, ledger) => Promise.resolve(overlapsOf(ledger.notesOf<Claim>("election"), 1)),
};
