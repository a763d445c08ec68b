import { BlobLocks } from "azure-storage-concurrency";

import { alternate, inverse } from "../alternate.js";
import type { Bench } from "../harness.js";
import { acquireBaseline } from "../lock-baseline.js";

const waiters = 100;

export const lockLocal: Bench = {
  name: "lock-local",
  about: `${waiters} who want one lock in one process, against a loop that acquires, polls every 50 to 150 ms, and releases`,
  async *run(env) {
    const container = await env.freshContainer();
    const blob = container.getBlockBlobClient("baseline");
    await blob.upload("", 0);
    const locks = new BlobLocks(container);
    await locks.withLock("ours", () => undefined);

    const { microseconds, ...figures } = await alternate(
      {
        ours: () => together((section) => locks.withLock("ours", section)),
        baseline: () =>
          together(async (section) => {
            const lease = await acquireBaseline(blob, 50, 150);
            await section();
            await lease.releaseLease();
          }),
      },
      { turns: 5, opsPerTurn: 1, warmUpTurns: 1 },
    );
    const perSecond = (microsecondsPerOp: number): number => (waiters * 1_000_000) / microsecondsPerOp;
    yield {
      name: "lock-local",
      unit: "sections/s",
      ours: perSecond(microseconds.ours),
      baseline: perSecond(microseconds.baseline),
      ...inverse(figures),
      requestsPerOp: { ours: figures.requestsPerOp.ours / waiters, baseline: figures.requestsPerOp.baseline / waiters },
      bounds: [
        { of: "ratio", atLeast: 20 },
        { of: "requests", atMost: 0.1 },
      ],
    };
  },
};

/** All want in at the same time, and a wrong answer is no answer. */
async function together(locked: (section: () => Promise<void>) => Promise<void>): Promise<void> {
  let inside = 0;
  let done = 0;
  const section = async (): Promise<void> => {
    if (++inside > 1) throw new Error("two inside at the same time");
    await Promise.resolve();
    inside--;
    done++;
  };
  await Promise.all(Array.from({ length: waiters }, () => locked(section)));
  if (done !== waiters) throw new Error(`${done} of ${waiters} critical sections were run`);
}
