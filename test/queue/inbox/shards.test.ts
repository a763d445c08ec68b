import { beforeEach, describe, expect, it } from "vitest";

import { ClaimInbox } from "../../../src/index.js";
import { FakeQueue } from "../fakes/fake-queue.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { Fault } from "../fakes/faults.js";
import { claimed } from "./contract.js";
import { deliver, request } from "./deliveries.js";

const queue = new FakeQueue();
let table: FakeTable;
beforeEach(() => void (table = new FakeTable()));

const partitions = (): string[] => [...new Set([...table.rows.values()].map(({ partitionKey }) => partitionKey))].toSorted();

describe("shards of a ClaimInbox", () => {
  it("spread the records over partitions, in one transaction for each; one shard has the partition of the queue", async () => {
    const deliveries = Array.from({ length: 64 }, (_, i) => deliver(`k${i}`));
    const results = await new ClaimInbox(table, { shards: 4 }).claim(deliveries, request);
    expect(results.every(({ kind }) => kind === "claimed")).toBe(true);
    expect(table.faults.log).toEqual(Array(4).fill("transaction"));
    expect(partitions()).toEqual(["account:jobs:0", "account:jobs:1", "account:jobs:2", "account:jobs:3"]);
    const sizes = partitions().map((partition) => [...table.rows.values()].filter(({ partitionKey }) => partitionKey === partition).length);
    expect(Math.min(...sizes)).toBeGreaterThan(4);
    table = new FakeTable();
    await new ClaimInbox(table, { shards: 1 }).claim(deliveries, request);
    expect(partitions()).toEqual(["account:jobs"]);
  });

  it("have the records of a group in the partition of its row", async () => {
    await Promise.all(["a", "b", "c", "d", "e"].map(async (key) => claimed(await new ClaimInbox(table, { shards: 16 }).claim([deliver(key, { group: key === "e" ? "h" : `g${key}` })], request))));
    for (const { partitionKey, rowKey, recordRowKey } of table.rows.values()) {
      if (rowKey.startsWith("~asc~group!")) expect(table.rows.has(`${partitionKey}\n${String(recordRowKey)}`)).toBe(true);
    }
  });

  it("are searched by get and forget, or named by the group in one request", async () => {
    const inbox = new ClaimInbox(table, { shards: 8 });
    await inbox.prepare(request);
    await claimed(await inbox.claim([deliver("k", { group: "g" })], request)).release(true, request);
    table.faults.log.length = 0;
    expect(await inbox.get(queue, "k")).toMatchObject({ state: "released" });
    expect(table.faults.count("get")).toBe(8);
    expect(await inbox.get(queue, "k", { group: "g" })).toMatchObject({ state: "released" });
    expect(table.faults.count("get")).toBe(9);
    expect(await inbox.get(queue, "other")).toBeUndefined();
    expect(await inbox.forget(queue, "k")).toBe(true);
    expect(await inbox.forget(queue, "k", { group: "g" })).toBe(false);
  });

  it("are checked before anything is read or written for an operator, once", async () => {
    await new ClaimInbox(table, { shards: 4 }).prepare(request);
    const wrong = new ClaimInbox(table);
    for (const call of [wrong.get(queue, "k"), wrong.forget(queue, "k"), wrong.getGroup(queue, "g"), wrong.skip(queue, "g", 1)]) {
      await expect(call).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH", setting: "shards", expected: "1", found: "4" });
    }
    const right = new ClaimInbox(table, { shards: 4 });
    table.faults.log.length = 0;
    expect(await right.getGroup(queue, "g")).toBeUndefined();
    expect(table.faults.log).toEqual(["get", "get"]);
    expect(await right.getGroup(queue, "g")).toBeUndefined();
    expect(table.faults.log).toEqual(["get", "get", "get"]);
    expect(await right.skip(queue, "g", 1)).toBe(true);
  });

  it("are the same for all consumers of a table: another number cannot start", async () => {
    await new ClaimInbox(table, { shards: 4 }).prepare(request);
    await new ClaimInbox(table, { shards: 4 }).prepare(request);
    for (const shards of [1, 2, 8]) {
      await expect(new ClaimInbox(table, { shards }).prepare(request)).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH", setting: "shards", expected: String(shards), found: "4" });
    }
    await expect(new ClaimInbox(table, { createTable: true }).prepare(request)).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH" });
    // One shard is a number like any other.
    const single = new FakeTable();
    await new ClaimInbox(single).prepare(request);
    await new ClaimInbox(single, { shards: 1 }).prepare(request);
    await expect(new ClaimInbox(single, { shards: 3 }).prepare(request)).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH", expected: "3", found: "1" });
    expect(single.faults.log).toEqual(["get", "transaction", "get", "get"]);
    // No purge forgets it.
    await new ClaimInbox(table).purge({ olderThanInMs: 0 });
    await expect(new ClaimInbox(table).prepare(request)).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH" });
  });

  it("are recorded by the first of two that start at the same time", async () => {
    const results = await Promise.allSettled([3, 1].map((shards) => new ClaimInbox(table, { shards }).prepare(request)));
    expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  });

  it.each<Fault>(["lost", "resent"])("are recorded although the response is lost (%s)", async (fault) => {
    table.faults.next("transaction", fault);
    await new ClaimInbox(table, { shards: 2 }).prepare(request);
    await expect(new ClaimInbox(table).prepare(request)).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH", found: "2" });
  });

  it("are not assumed to be recorded if the table rejects it", async () => {
    table.faults.next("transaction", "denied");
    await expect(new ClaimInbox(table).prepare(request)).rejects.toMatchObject({ statusCode: 403 });
  });

  it("are a whole number of 1 to 256", () => {
    for (const shards of [0, 1.5, 257, Number.NaN, "2"]) expect(() => new ClaimInbox(table, { shards: shards as number })).toThrow();
  });
});
