import { randomUUID } from "node:crypto";

import { AzureNamedKeyCredential, generateTableSas } from "@azure/data-tables";
import type { TableClient } from "@azure/data-tables";
import { describe, expect, it } from "vitest";

import { BlobLocks, ClaimInbox, CommitInbox, Once, Outbox, purgeTombstones, Schedule, TableLock } from "../../src/index.js";
import { placeOf } from "../../src/once/once-record.js";
import { queueIdentityOf } from "../../src/queue/inbox/record.js";
import { azurite, freshContainer, freshQueue, freshTable } from "../support/clients.js";
import { pause } from "../support/pause.js";

// The service accepts properties that are called rowKey, partitionKey, etag and timestamp, and the SDK returns them in place of its own. A party
// that may add rows, and has no other right, must not make the library delete or change a row that it names in them.

/** As a party with a SAS that permits to add rows: the SDK itself cannot send such properties. */
async function add(table: TableClient, entity: object): Promise<void> {
  const setting = (name: string): string => new RegExp(`${name}=([^;]+)`).exec(azurite().connectionString)?.[1] ?? "";
  const credential = new AzureNamedKeyCredential(setting("AccountName"), setting("AccountKey"));
  const sas = generateTableSas(table.tableName, credential, { permissions: { add: true }, expiresOn: new Date(Date.now() + 600_000) });
  const headers = { "content-type": "application/json", accept: "application/json;odata=nometadata", "x-ms-version": "2019-02-02", dataserviceversion: "3.0" };
  const response = await fetch(`${table.url}/${table.tableName}?${sas}`, { method: "POST", headers, body: JSON.stringify(entity) });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
}

const victim = { partitionKey: "accounts", rowKey: "victim" };
/** What the row says of itself: that it is the victim's, in any version, written long ago. */
const alias = { ...victim, etag: "*", timestamp: "2001-01-01T00:00:00Z" };

async function tableWithVictim(): Promise<TableClient> {
  const table = await freshTable();
  await table.createEntity({ ...victim, balance: 3 });
  return table;
}

const exists = async (table: TableClient, partitionKey: string, rowKey: string): Promise<boolean> => table.getEntity(partitionKey, rowKey).then(() => true, () => false);

describe("a row that names another one in its properties", () => {
  it("does not make the relay of an outbox delete the other one, and is sent once", async () => {
    const [table, queue, id] = [await tableWithVictim(), await freshQueue(), randomUUID()];
    const rowKey = `~asc~outbox!${id}!000000000001`;
    await add(table, { PartitionKey: "~asc~outbox", RowKey: `~asc~outmarker!${id}`, partition: victim.partitionKey });
    await add(table, { PartitionKey: victim.partitionKey, RowKey: rowKey, ...alias, outgoing0: JSON.stringify([{ queue: queueIdentityOf(queue.url), key: "k", text: "x", timing: {} }]) });
    const outbox = new Outbox(table, { queues: [queue], relayAfterInMs: 1_000 });
    await pause(2_100);
    expect(await outbox.flush()).toEqual({ sent: 1, failed: 0 });
    expect(await exists(table, victim.partitionKey, victim.rowKey)).toBe(true);
    expect(await exists(table, victim.partitionKey, rowKey)).toBe(false);
  });

  it.each([
    ["Once.purge", { PartitionKey: "any", RowKey: "~asc~once!run!k", state: "succeeded", owner: "o", writeId: "w", attempt: 1, claimDurationInMs: 1_000, outcome: "value", result0: "1" }, (table: TableClient) => new Once(table).purge({ olderThanInMs: 0 })],
    ["ClaimInbox.purge", { PartitionKey: "any", RowKey: "~asc~inbox!a:q!k", state: "done" }, (table: TableClient) => new ClaimInbox(table).purge({ olderThanInMs: 0 })],
    ["CommitInbox.purge", { PartitionKey: "any", RowKey: "~asc~inbox!a:q!k", state: "released" }, (table: TableClient) => new CommitInbox(table).purge({ olderThanInMs: 0 })],
    ["TableLock.purge", { PartitionKey: "any", RowKey: "~asc~fence~x" }, async (table: TableClient) => new TableLock(table, new BlobLocks(await freshContainer())).purge({ olderThanInMs: 0 })],
    ["purgeTombstones", { PartitionKey: "any", RowKey: "x", asc_tombstone: true }, (table: TableClient) => purgeTombstones(table, { olderThanInMs: 0 })],
  ] as const)("does not make %s delete the other one", async (_, entity, purge) => {
    const table = await tableWithVictim();
    await add(table, { ...entity, ...alias });
    await pause(1_100);
    await purge(table);
    expect(await exists(table, victim.partitionKey, victim.rowKey)).toBe(true);
    expect(await exists(table, entity.PartitionKey, entity.RowKey)).toBe(false);
  });

  it("does not make Schedule.purge delete the other one", async () => {
    const table = await tableWithVictim();
    const schedule = new Schedule(table, new BlobLocks(await freshContainer()), { job: { everyInMs: 60_000, run: () => undefined } });
    await add(table, { PartitionKey: "any", RowKey: "~asc~schedule-done!default!job!run", ...alias });
    // Receipts are an hour old at least: the row says that it is, and the service does not.
    expect(await schedule.purge({ olderThanInMs: 3_600_000 })).toEqual({ deleted: 0, kept: 0 });
    expect(await exists(table, victim.partitionKey, victim.rowKey)).toBe(true);
  });
});

it("a record of Once cannot say when it was written, nor make the next write of its key unconditional", async () => {
  const table = await freshTable();
  const { partitionKey, rowKey } = await placeOf("k");
  const running = { state: "running", owner: "o", writeId: "w", attempt: 1, claimDurationInMs: 60_000 };
  await add(table, { PartitionKey: partitionKey, RowKey: rowKey, ...running, timestamp: alias.timestamp, etag: alias.etag });
  const once = new Once(table);
  await expect(once.run("k", () => "ran", { whenInProgress: "throw" })).rejects.toMatchObject({ code: "IN_PROGRESS" });
  await expect(once.forget("k")).rejects.toMatchObject({ code: "CONFLICT" });
});
