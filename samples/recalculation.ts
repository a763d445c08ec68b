/* The nightly recalculation: one process at a time changes a whole table, and one that was paused cannot do harm. */
import { BlobLocks, isConcurrencyError, TableLock } from "azure-storage-concurrency";
import type { FencedPartition } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Customer {
  spent: number;
  discount: number;
}

/** The fence is one of the 100 operations that a transaction can have. */
const batch = 99;

async function recalculate(partition: FencedPartition): Promise<number> {
  const changed: { rowKey: string; discount: number }[] = [];
  for await (const { rowKey, spent, discount } of partition.list<Customer>()) {
    const wanted = spent >= 1_000 ? 10 : 0;
    if (wanted !== discount) changed.push({ rowKey, discount: wanted });
  }
  for (let start = 0; start < changed.length; start += batch) {
    await partition.submit(changed.slice(start, start + batch).map((customer) => ["update", customer]));
  }
  return changed.length;
}

export const recalculation: Sample = {
  name: "recalculation",
  title: "One at a time over a whole table",
  helper: "TableLock",
  section: "docs/locks.md#table-locks",
  plan: "Two instances start the nightly recalculation of 198 customers at once. Then one wakes up from a long pause and believes that it still has the lock.",
  lesson: "Tables have no leases, so a blob stands in for the table. No lock can stop a process that was paused: its number in each write does, as the storage compares it in the same request.",
  async run(storage) {
    const [table, container] = [await storage.table(), await storage.container()];
    for (const partitionKey of ["eu", "us"]) {
      const customers = Array.from({ length: batch }, (_, n) => ({ partitionKey, rowKey: `customer-${n}`, spent: n * 20, discount: 0 }));
      await table.submitTransaction(customers.map((customer) => ["create", customer]));
    }
    // Each service makes its own; the lock is a blob in the container, and named after the table.
    const lock = new TableLock(table, new BlobLocks(container), { granularity: "table" });

    const nightly = (): Promise<number> =>
      lock.withLock(async (held) => {
        let changed = 0;
        for (const partitionKey of ["eu", "us"]) changed += await recalculate(await held.partition(partitionKey));
        return changed;
      });
    const [most, least] = (await Promise.all([nightly(), nightly()])).sort((a, b) => b - a);
    say.step(`one changed ${most} customers; the other waited, and found ${least} left to change`);
    check(most === 98 && least === 0, "the work is done once");

    const paused = await lock.acquire();
    const stale = await paused.partition("eu");
    await paused.release(); // as if it had been paused for longer than its lease
    await lock.withLock(async (held) => (await held.partition("eu")).submit([["update", { rowKey: "customer-0", discount: 50 }]]));
    const refusal = await stale.submit([["update", { rowKey: "customer-0", discount: 0 }]]).then(
      () => undefined,
      (error: unknown) => error,
    );
    check(isConcurrencyError(refusal, "FENCED"), "a holder whose time is over cannot write");
    const { discount } = await table.getEntity<Customer>("eu", "customer-0");
    check(discount === 50, "what its successor wrote is still there");
    say.trouble("the one that was paused goes on writing as if nothing had happened");
    return `holder ${refusal.epoch} is refused, as holder ${refusal.fencedBy} came after it`;
  },
};

await runIfStarted(recalculation, import.meta.url);
