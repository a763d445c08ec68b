import { test } from "vitest";
import type { TestContext } from "vitest";

import { BlobLocks, listEntities, TableLock } from "../../src/index.js";
import { connectionString, freshContainer, freshTable } from "../support/clients.js";
import { startWorker } from "../support/workers.js";
import type { HolderJob, HolderReport } from "./workers/holder.js";

const writes = ["update", "submit", "delete", "create"];

/** One holder is stopped for longer than its lease, another works meanwhile; then the requests of the first one arrive. */
async function pausedBeyondItsLease(fenced: boolean, { onTestFinished }: TestContext): Promise<{ report: HolderReport; stored: Record<string, unknown> }> {
  const [table, container] = [await freshTable(), await freshContainer()];
  for (const partitionKey of writes) await table.createEntity({ partitionKey, rowKey: "r", n: 1 });
  const job: HolderJob = { connectionString: connectionString(), table: table.tableName, container: container.containerName, fenced };
  const first = startWorker<HolderReport>(new URL("./workers/holder.ts", import.meta.url), job);
  onTestFinished(() => first.stop());
  await first.receive();
  first.signal("SIGSTOP");
  await new TableLock(table, new BlobLocks(container)).withLock(async (held) => {
    for (const partitionKey of writes) await (await held.partition(partitionKey)).submit([["update", { rowKey: "r", n: 100 }]]);
  });
  first.signal("SIGCONT");
  first.send("go on");
  const report = await first.result;
  const stored: Record<string, unknown> = {};
  for await (const { partitionKey, rowKey, n } of listEntities<{ n: number }>(table)) stored[`${partitionKey} ${rowKey}`] = n;
  return { report, stored };
}

test.concurrent("requests of a holder that arrive after a pause beyond its lease are rejected by the service, and nothing of them is stored", async (context) => {
  const { expect } = context;
  const { report, stored } = await pausedBeyondItsLease(true, context);
  expect(report.statuses).toEqual([412, 412, 412, 412]);
  expect(Object.values(report.outcomes).filter((outcome) => outcome !== "CommitUnknownError" && outcome !== "FencedError")).toEqual([]);
  expect(stored).toEqual({ "update r": 100, "submit r": 100, "delete r": 100, "create r": 100 });
});

test.concurrent("without the fence the same requests are carried out, and undo what the next holder did", async (context) => {
  const { expect } = context;
  const { report, stored } = await pausedBeyondItsLease(false, context);
  expect(Object.values(report.outcomes)).toEqual(["written", "written", "written", "written"]);
  expect(stored).toEqual({ "update r": 2, "submit r": -1, "create r": 100, "create new": -1 });
});
