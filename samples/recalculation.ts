/* The nightly recalculation: one process at a time changes a whole table, and one that was paused cannot do harm. */
import { EventEmitter, once } from "node:events";
import { BlobLocks, isConcurrencyError, TableLock } from "azure-storage-concurrency";
import type { TableClient } from "@azure/data-tables";
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
  plan: "Two instances start the nightly recalculation of 198 customers at once. Then the write of one is delayed in the network until another instance has the lock.",
  lesson: "Tables have no leases, so a blob stands in for the table. No lock can call back a request that has left: the number of its holder does, as the storage compares it in the same request.",
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

    const slow = slowTable(await storage.table(table.tableName));
    const first = await new TableLock(slow.client, new BlobLocks(container)).acquire();
    const customers = await first.partition("eu");
    const writing = customers.submit([["upsert", { rowKey: "customer-0", discount: 0 }, "Replace"]]).catch((error: unknown) => error);
    await slow.left;
    await first.release(); // as if its lease had expired during a pause
    check(isConcurrencyError(await writing, "COMMIT_UNKNOWN"), "the holder is told at once that its write may or may not take effect");
    await lock.withLock(async (held) => (await held.partition("eu")).submit([["update", { rowKey: "customer-0", discount: 50 }]]));
    say.trouble("now the delayed write arrives");
    const status = await slow.deliver();
    const { discount } = await table.getEntity<Customer>("eu", "customer-0");
    check(status === 412 && discount === 50, "what its successor wrote is still there");
    return `the storage refuses the late write of holder ${first.epoch}: the next holder has raised the fence`;
  },
};

/** A client whose writes leave, and arrive when the sample says so. */
function slowTable(client: TableClient): { client: TableClient; left: Promise<void>; deliver: () => Promise<number> } {
  const network = new EventEmitter();
  const left = once(network, "left").then(() => undefined);
  client.pipeline.addPolicy({
    name: "slow network",
    async sendRequest(request, next) {
      if (typeof request.body !== "string" || !request.body.includes("customer-0")) return next(request);
      const delivery = once(network, "deliver");
      network.emit("left");
      await delivery;
      delete request.abortSignal; // It has left: an abort does not bring it back.
      const response = await next(request);
      network.emit("response", Number(/^HTTP\/1.1 (\d+)/m.exec(response.bodyAsText ?? "")?.[1]));
      return response;
    },
  });
  const deliver = async (): Promise<number> => {
    const response = once(network, "response") as Promise<[status: number]>;
    network.emit("deliver");
    return (await response)[0];
  };
  return { client, left, deliver };
}

await runIfStarted(recalculation, import.meta.url);
