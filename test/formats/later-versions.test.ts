import { afterEach, describe, expect, it, vi } from "vitest";

import { formatVersionName, isLaterFormat, isLaterMetadata, isLaterRow } from "../../src/core/format-version.js";
import { ClaimInbox, CommitInbox, isConcurrencyError, jsonBlob, Once, optimisticUpdate, Outbox, QueueConsumer, redrive } from "../../src/index.js";
import { fenceRowKey } from "../../src/lock/fence-row.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { holderOf } from "../lock/held-table.js";
import type { TestHolder } from "../lock/held-table.js";
import { run } from "../lock/support.js";
import { ClockService } from "../once/fakes.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { commit, deliver, request } from "../queue/inbox/deliveries.js";
import { FakeFleet, noting } from "../schedule/fakes.js";
import { expectNoUnhandledRejections } from "../support/unhandled.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

// What a later version may have stored, whose meaning this one does not know: it is left as it is, and others go on. See docs/formats.md.

useFakeClock();
expectNoUnhandledRejections();

const later = { [formatVersionName]: { type: "Int32", value: 2 } };
const day = 86_400_000;

function expectLater(error: unknown): void {
  expect(isConcurrencyError(error, "SCHEMA"), String(error)).toBe(true);
  expect((error as Error).message).toContain("later version of this library");
}

async function expectRejectedAsLater(call: Promise<unknown>): Promise<void> {
  const settled = call.then((value) => ({ value }), (error: unknown) => ({ error }));
  await pass(60_000);
  const outcome = await settled;
  expect(outcome).toHaveProperty("error");
  expectLater((outcome as { error: unknown }).error);
}

/** The rows of a table whose keys begin so. */
function rowsOf(table: FakeTransactionTable, prefix: string): [partitionKey: string, rowKey: string][] {
  return [...table.service.resources.keys()].map((key) => (JSON.parse(key) as [string, string, string]).slice(1) as [string, string]).filter(([, rowKey]) => rowKey.startsWith(prefix));
}

/** The later version has written the row. Returns what is stored, to be compared. */
function upgrade(table: FakeTransactionTable, prefix: string): () => unknown {
  const [[partitionKey, rowKey]] = rowsOf(table, prefix) as [[string, string]];
  table.merge(later, partitionKey, rowKey);
  return () => table.row(partitionKey, rowKey)?.etag;
}

describe("a version", () => {
  it.each([undefined, null, 1, "1", 1n])("%s is that of this library", (version) => {
    expect([isLaterFormat(version), isLaterRow({ [formatVersionName]: version }), isLaterRow({ [formatVersionName]: { value: version } })]).toEqual([false, false, false]);
  });

  it.each([2, "2", 2n, 0, "", "x", true, NaN])("%s is not", (version) => {
    expect([isLaterFormat(version), isLaterRow({ [formatVersionName]: version }), isLaterRow({ [formatVersionName]: { value: version } })]).toEqual([true, true, true]);
  });

  it("in metadata is found in any case", () => {
    expect([isLaterMetadata({ ASC_Version: "2" }), isLaterMetadata({ asc_version: "1" }), isLaterMetadata({ other: "2" }), isLaterMetadata(undefined)]).toEqual([true, false, false, false]);
  });
});

describe("a later version of the record of a lock", () => {
  it.each([false, true])("rejects the holder, who leaves it as it is and gives the lock back; fair: %s", async (fair) => {
    const server = new FakeLeaseServer();
    const locksOf = (holder: string): BlobLocks => new BlobLocks(server.container(), { holder, fair });
    await run((await run(locksOf("first").acquire("a"))).release());
    const blob = server.blobs.get("locks/a")!;
    blob.metadata = { ...blob.metadata, [formatVersionName]: "2" };
    const before = { ...blob.metadata };
    await expectRejectedAsLater(locksOf("other").acquire("a", { waitInMs: 5_000 }));
    expect(blob.metadata).toEqual(before);
    expect(blob.lease).toBeUndefined();
  });
});

describe("a later version of a fence row", () => {
  it("rejects the writes of a holder, and stays", async () => {
    const table = new FakeTransactionTable(new ClockService());
    const create = async (holder: TestHolder, rowKey: string): Promise<unknown> => (await holder.partition("p")).submit([["create", { rowKey }]]);
    await run(create(holderOf(table, 1), "r"));
    const stored = upgrade(table, fenceRowKey);
    const before = stored();
    await expectRejectedAsLater(create(holderOf(table, 2), "s"));
    expect([stored(), table.row("p", "s")]).toEqual([before, undefined]);
  });
});

describe("a later version of the row of an inbox", () => {
  it("rejects the claim of its key, and of no other key of the batch", async () => {
    const table = new FakeTransactionTable(new ClockService());
    await run(new ClaimInbox(table).claim([deliver("a")], request));
    const stored = upgrade(table, "~asc~inbox!");
    const before = stored();
    const results = await run(new ClaimInbox(table).claim([deliver("a"), deliver("b"), deliver("c")], request), 60_000);
    // Delivered again, to a consumer of that version perhaps.
    expect(results.map(({ kind }) => kind)).toEqual(["busy", "claimed", "claimed"]);
    await expectRejectedAsLater(new ClaimInbox(table).claim([deliver("a")], request));
    expect(stored()).toBe(before);
  });

  it("is not read by get, nor deleted by forget and purge", async () => {
    const table = new FakeTransactionTable(new ClockService());
    const queue = new FakeQueue();
    const inbox = new CommitInbox(table);
    const delivery = deliver("a", { queueUrl: queue.url });
    await run(commit(inbox, delivery, 0, "p", []));
    const stored = upgrade(table, "~asc~inbox!");
    const before = stored();
    await expectRejectedAsLater(inbox.get(queue, "a", { partitionKey: "p" }));
    await expectRejectedAsLater(inbox.forget(queue, "a", { partitionKey: "p" }));
    await pass(30 * day);
    expect(await run(inbox.purge({ olderThanInMs: 8 * day }), 1_000)).toEqual({ deleted: 0, kept: 1 });
    expect(stored()).toBe(before);
  });
});

describe("a later version of a record of Once", () => {
  it("rejects the call, whose function does not run; it is not deleted by forget and purge", async () => {
    const table = new FakeTransactionTable(new ClockService());
    const once = new Once(table);
    await run(once.run("key", () => 1));
    const stored = upgrade(table, "~asc~once!");
    const before = stored();
    const fn = vi.fn(() => 2);
    await expectRejectedAsLater(new Once(table).run("key", fn));
    await expectRejectedAsLater(once.forget("key"));
    await pass(60 * day);
    expect(await run(once.purge({ olderThanInMs: day }), 1_000)).toEqual({ deleted: 0, kept: 1 });
    expect([fn.mock.calls, stored()]).toEqual([[], before]);
  });
});

describe("a later version of a row of a schedule", () => {
  it("stops its own job, and reports it; the others run", async () => {
    const fleet = new FakeFleet();
    const notes: string[] = [];
    const jobs = { a: noting(notes, { everyInMs: 60_000 }), b: noting([], { everyInMs: 60_000 }) };
    fleet.instance(jobs);
    await fleet.start();
    await fleet.stop();
    fleet.table.merge(later, "~asc~schedule-default", "~asc~schedule!b");
    const before = fleet.row("b");
    const other = new FakeFleet();
    Object.assign(other, { service: fleet.service, server: fleet.server, table: fleet.table });
    const instance = other.instance(jobs, {}, "later");
    await other.start();
    await pass(130_000);
    await other.stop();
    expect(notes.length).toBeGreaterThan(0);
    expect(fleet.row("b")).toEqual(before);
    for (const error of instance.errors) expectLater(error);
    expect(instance.errors).not.toEqual([]);
  });
});

describe("a later version of a row of an outbox", () => {
  afterEach(() => pass(0));

  it.each(["~asc~outbox!", "~asc~outmarker!"])("%s stays, and is reported", async (prefix) => {
    const table = new FakeTransactionTable(new ClockService());
    const queue = new FakeQueue("orders");
    const id = "0f8fad5b-d9cb-469f-a165-70867728950e";
    table.put({ partition: { type: "String", value: "p" } }, "~asc~outbox", `~asc~outmarker!${id}`);
    table.put({ outgoing0: { type: "String", value: JSON.stringify([{ queue: "account:orders", key: "k", text: "t", timing: {} }]) } }, "p", `~asc~outbox!${id}!000000000001`);
    const stored = upgrade(table, prefix);
    const errors: unknown[] = [];
    await pass(day);
    const outbox = new Outbox(table, { queues: [queue] });
    outbox.on("error", (error) => errors.push(error));
    await run(outbox.start(), 1_000);
    await pass(20 * 60_000);
    const stopping = outbox.stop({ drainTimeoutInMs: 0 });
    await pass(150_000);
    await stopping;
    expect(queue.messages).toEqual([]);
    expect(stored()).toBeDefined();
    expect(rowsOf(table, "~asc~outbox!")).toHaveLength(1);
    for (const error of errors) expectLater(error);
    expect(errors).not.toEqual([]);
  });
});

describe("an envelope of a later version", () => {
  const text = JSON.stringify({ asc: 2, key: "k", body: { encrypted: "x" } });

  it.each([["text", text], ["base64", Buffer.from(text).toString("base64")]] as const)("is given back (%s), and not handled, counted or moved to the poison queue", async (encoding, sent) => {
    const queue = new FakeQueue();
    const poisonQueue = new FakeQueue("poison");
    await run(queue.sendMessage(sent));
    const handled: unknown[] = [];
    const consumer = new QueueConsumer(queue, (payload) => void handled.push(payload), { encoding, poisonQueue, maxAttempts: 2, maxDeliveries: 10 });
    const retried: unknown[] = [];
    consumer.on("retried", ({ error }) => retried.push(error)).on("error", () => undefined);
    await run(consumer.start());
    await pass(3_600_000);
    const stopping = consumer.stop();
    await pass(60_000);
    await stopping;
    expect([handled, poisonQueue.messages, queue.messages.map((message) => message.text)]).toEqual([[], [], [sent]]);
    expect(retried.length).toBeGreaterThan(10);
    expect(String(retried[0])).toContain("later version of this library");
  });

  it("stays in the poison queue", async () => {
    const [queue, poisonQueue] = [new FakeQueue(), new FakeQueue("poison")];
    for (const sent of [text, Buffer.from(text).toString("base64"), "plain"]) await run(poisonQueue.sendMessage(sent));
    await pass(10);
    expect(await run(redrive(poisonQueue, queue), 5_000)).toEqual({ moved: 1, skipped: 2 });
    expect(queue.messages.map((message) => message.text)).toEqual(["plain"]);
  });

  it.each(['{"asc":2}', '{"asc":"2","body":1}', '{"asc":1.5,"body":1}', '{"asc":0,"body":1}', '{"asc":2,"body"', '[{"asc":2,"body":1}]'])("is not %s, which is a payload of another producer", async (sent) => {
    const queue = new FakeQueue();
    await run(queue.sendMessage(sent));
    const handled: unknown[] = [];
    const consumer = new QueueConsumer(queue, (payload) => void handled.push(payload), { decode: (content) => content });
    await run(consumer.start());
    await pass(10_000);
    const stopping = consumer.stop();
    await pass(60_000);
    await stopping;
    expect(handled).toEqual([sent]);
  });
});

describe("a journal of a later version", () => {
  it("counts as none, and is replaced by one of another lineage: its writer finds out that it cannot know", async () => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put({ n: 1 }, { metadata: { asc_journal: "2~what~ever" } });
    const { value } = await run(optimisticUpdate(jsonBlob<{ n: number }>(blob), (draft) => { draft.n++; }));
    expect(value).toEqual({ n: 2 });
    expect(blob.metadata["asc_journal"]).toMatch(/^1~[A-Za-z0-9]+~1~/);
  });
});
