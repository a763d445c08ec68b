/* The nightly recalculation: one process at a time changes a whole table, and one that was paused cannot do harm. */
import { BlobLocks, isFencedError, TableLock } from "azure-storage-concurrency";
import type { FencedPartition } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Customer {
  spent: number;
  discount: number;
}

/** The fence is one of the 100 operations that a transaction can have. */
const batch = 99;

export const recalculation: Sample = {
  title: "Nightly recalculation under a table lock",
  async run(storage) {
    const [table, container] = [await storage.table(), await storage.container()];
    for (const partitionKey of ["eu", "us"]) {
      const customers = Array.from({ length: batch }, (_, n) => ({ partitionKey, rowKey: `customer-${n}`, spent: n * 20, discount: 0 }));
      await table.submitTransaction(customers.map((customer) => ["create", customer]));
    }
    // Each service makes its own; the lock is a blob in the container, and named after the table.
    const lock = new TableLock(table, new BlobLocks(container), { granularity: "table" });

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

    const nightly = (): Promise<number> =>
      lock.withLock(async (held) => {
        let changed = 0;
        for (const partitionKey of ["eu", "us"]) changed += await recalculate(await held.partition(partitionKey));
        return changed;
      });
    const [first, second] = await Promise.all([nightly(), nightly()]);
    say.step("two instances start the recalculation at the same time");
    say.result(`one changed ${first} customers, the other ${second}: it came second and found the work done`);

    const paused = await lock.acquire();
    const stale = await paused.partition("eu");
    await paused.release(); // as if it had been paused for longer than its lease
    await lock.withLock(async (held) => (await held.partition("eu")).submit([["update", { rowKey: "customer-0", discount: 50 }]]));
    try {
      await stale.submit([["update", { rowKey: "customer-0", discount: 0 }]]);
      throw new Error("a holder that lost its lock could write");
    } catch (error) {
      if (!isFencedError(error)) throw error;
      say.step("a holder that lost its lock tries to write");
      say.result(`refused by the service: number ${error.epoch} has been followed by number ${error.fencedBy}`);
    }
  },
};

await runIfStarted(recalculation, import.meta.url);
