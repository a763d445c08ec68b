import { test } from "vitest";
import type { TestContext } from "vitest";

import { BlobLocks, TableLock } from "../../src/index.js";
import { connectionString, freshContainer, freshTable } from "../support/clients.js";
import { startWorker } from "../support/workers.js";
import type { HolderJob, HolderReport } from "./workers/holder.js";

/** One holder is stopped for longer than its lease, another works meanwhile; then the first goes on. */
async function pausedBeyondItsLease(fenced: boolean, { onTestFinished }: TestContext): Promise<{ report: HolderReport; stored: Record<string, unknown> }> {
  const [table, container] = [await freshTable(), await freshContainer()];
  for (const rowKey of ["updated", "submitted", "deleted"]) await table.createEntity({ partitionKey: "p", rowKey, n: 1 });
  const job: HolderJob = { connectionString: connectionString(), table: table.tableName, container: container.containerName, fenced };
  const first = startWorker<HolderReport>(new URL("./workers/holder.ts", import.meta.url), job);
  onTestFinished(() => first.stop());
  await first.receive();
  first.signal("SIGSTOP");
  await new TableLock(table, new BlobLocks(container)).withLock(async (held) => {
    const partition = await held.partition("p");
    await partition.submit([
      ["update", { rowKey: "updated", n: 100 }],
      ["update", { rowKey: "submitted", n: 100 }],
      ["update", { rowKey: "deleted", n: 100 }],
    ]);
  });
  first.signal("SIGCONT");
  first.send("go on");
  const report = await first.result;
  const stored: Record<string, unknown> = {};
  for await (const { rowKey, n } of table.listEntities<{ rowKey: string; n: number }>()) {
    if (!rowKey.startsWith("~asc~")) stored[rowKey] = n;
  }
  return { report, stored };
}

test.concurrent("after a pause beyond its lease every write of a holder is refused by the service, and nothing of it is stored", async (context) => {
  const { expect } = context;
  const { report, stored } = await pausedBeyondItsLease(true, context);
  const refused = "FencedError";
  expect(report).toEqual({ update: refused, submit: refused, delete: refused, create: refused });
  expect(stored).toEqual({ updated: 100, submitted: 100, deleted: 100 });
});

test.concurrent("without the fence the same writes go through, and undo what the next holder did", async (context) => {
  const { expect } = context;
  const { report, stored } = await pausedBeyondItsLease(false, context);
  const written = "written";
  expect(report).toEqual({ update: written, submit: written, delete: written, create: written });
  expect(stored).toEqual({ updated: 2, submitted: -1, created: -1 });
});
