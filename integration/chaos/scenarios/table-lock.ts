import type { Scenario } from "../scenario.js";

const partitionKey = "fenced";

/**
 * A read and a write without a condition, with time to be stopped in between. The holder does not ask whether it still
 * holds the lock: only the fence keeps what it read too long ago from being written.
 */
export const tableLock: Scenario = {
  name: "table lock",
  invariant: "a holder that was stopped too long is refused by the storage (TableLock, fence)",
  lanes: 1,
  prepare: async ({ table }) => {
    await table.createEntity({ partitionKey, rowKey: "r", n: 0, lanes: "{}" });
  },
  work: async (lane) => {
    const { TableLock, BlobLocks } = lane.library;
    const lock = new TableLock(lane.storage.table, new BlobLocks(lane.storage.container), { granularity: "partition" });
    while (!lane.finish.aborted) {
      await lane.operation(async () => {
        const held = await lock.acquire(partitionKey, { durationInSeconds: 15, waitInMs: 4_000 });
        try {
          // Not the signal of the lock: whoever heeds it needs no fence. But a request that is never answered has to end.
          const abortSignal = AbortSignal.timeout(20_000);
          const partition = await held.partition(undefined, { abortSignal });
          const row = await partition.get<{ n: number; lanes: string }>("r", { abortSignal });
          await lane.pause(5, 50);
          const lanes = JSON.parse(row?.lanes ?? "{}") as Record<string, number>;
          lanes[lane.id] = (lanes[lane.id] ?? 0) + 1;
          await lane.mayFaint();
          await partition.submit([["update", { rowKey: "r", n: (row?.n ?? 0) + 1, lanes: JSON.stringify(lanes) }]], { abortSignal: AbortSignal.timeout(8_000) });
        } finally {
          await held[Symbol.asyncDispose]();
        }
      });
      await lane.pause(1, 20);
    }
  },
  check: async ({ table }, ledger) => {
    const { n, lanes } = await table.getEntity<{ n: number; lanes: string }>(partitionKey, "r");
    const counted = JSON.parse(lanes) as Record<string, number>;
    const sum = Object.values(counted).reduce((a, b) => a + b, 0);
    const problems = ledger.compare("table lock", (lane) => counted[lane] ?? 0);
    return sum === n ? problems : [...problems, `the lanes add up to ${sum}, the row says ${n}`];
  },
};
