import { expect, test } from "vitest";

import { BlobLocks, CommitInbox, ConcurrentTable, excludeLibraryRows, isLibraryRow, listEntities, runTransaction, TableLock } from "../../src/index.js";
import { freshContainer, freshTable } from "../support/clients.js";

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** A table in which every helper has left what it leaves. */
async function usedTable() {
  const [table, container] = [await freshTable(), await freshContainer()];
  await table.createEntity({ partitionKey: "p", rowKey: "order", total: 5 });
  await new TableLock(table, new BlobLocks(container), { granularity: "entity" }).withLock({ partitionKey: "p", rowKey: "locked" }, async (held) =>
    (await held.partition()).create({ rowKey: "locked", total: 7 }),
  );
  await runTransaction(table, "p", (tx) => tx.create({ rowKey: "made", total: 9 }), { detectPhantoms: true, operationId: "o" });
  const delivery = { queueUrl: "https://account.queue.core.windows.net/jobs", messageId: "m", dequeueCount: 1, idempotencyKey: "k", claimDurationInMs: 1, receivedOn: new Date() };
  const request = { abortSignal: new AbortController().signal, tracingOptions: {} };
  await new CommitInbox(table).commit({ delivery: delivery as never, call: 1, partitionKey: "p" }, [["create", { rowKey: "effect", total: 11 }]], [], request);
  await table.createEntity({ partitionKey: "p", rowKey: "deleted", asc_tombstone: true });
  return { table, container };
}

test("a program that knows nothing of the library can list the table and format it as JSON", async () => {
  const { table } = await usedTable();
  const rows = await all(table.listEntities());
  expect(rows.length).toBeGreaterThan(8);
  expect(() => JSON.stringify(rows)).not.toThrow();
});

test("the filter, the predicate and both lists leave out the same rows", async () => {
  const { table } = await usedTable();
  const own = ["effect", "locked", "made", "order"];
  const keys = (rows: readonly object[]): unknown[] => rows.map((row) => (row as { rowKey?: string }).rowKey);
  expect(keys((await all(table.listEntities())).filter((row) => !isLibraryRow(row)))).toEqual(own);
  expect(keys(await all(table.listEntities({ queryOptions: { filter: excludeLibraryRows() } })))).toEqual(own);
  expect(keys(await all(table.listEntities({ queryOptions: { filter: excludeLibraryRows("total lt 6 or total gt 8") } })))).toEqual(["effect", "made", "order"]);
  expect(await all(listEntities<{ total: number }>(table, { filter: "total eq 7" }))).toEqual([{ partitionKey: "p", rowKey: "locked", total: 7 }]);
  expect(keys(await all(new ConcurrentTable(table).list()))).toEqual(own);
});

test("purge deletes the rows of fences, and the table can be locked again", async () => {
  const { table, container } = await usedTable();
  const lock = new TableLock(table, new BlobLocks(container), { granularity: "entity" });
  expect(await lock.purge()).toEqual({ deleted: 0, kept: 0 });
  // The clock of the service may be some milliseconds ahead.
  await expect.poll(() => lock.purge({ olderThanInMs: 0 })).toEqual({ deleted: 2, kept: 0 });
  expect((await all(table.listEntities())).filter(({ rowKey }) => rowKey?.startsWith("~asc~fence"))).toEqual([]);
  await lock.withLock({ partitionKey: "p", rowKey: "locked" }, async (held) => (await held.partition<{ total: number }>()).update("locked", (entity) => { entity.total++; }));
  expect(await table.getEntity("p", "locked")).toMatchObject({ total: 8 });
});
