import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";

import { ConcurrentBlob, ConcurrentTable, ConflictError, DELETE, LeaseUnavailableError, SchemaError, TargetNotFoundError, textBlob } from "../../src/index.js";
import { type FaultProxy, startFaultProxy } from "../../src/testing.js";
import { azurite, freshContainer, freshTable } from "../support/clients.js";

interface Order {
  total: number;
  note?: string;
}

describe("ConcurrentBlob", () => {
  it("does with one blob what the functions do", async () => {
    const doc = new ConcurrentBlob<Order>((await freshContainer()).getBlockBlobClient("doc"));
    expect(await doc.createIfNotExists({ total: 1 })).toMatchObject({ outcome: "created" });
    expect(await doc.createIfNotExists({ total: 2 })).toMatchObject({ outcome: "unchanged", value: { total: 1 } });
    expect(await doc.update((order) => { order.total++; })).toMatchObject({ outcome: "updated", value: { total: 2 } });
    await doc.metadata.update((metadata) => { metadata["owner"] = "me"; });
    await doc.httpHeaders.update((headers) => { headers.cacheControl = "no-store"; });
    await doc.tags.update((tags) => { tags["state"] = "open"; });
    await doc.update((order) => { order.total++; });
    const { value, etag } = await doc.read();
    expect(value).toEqual({ total: 3 });
    expect(await doc.client.getProperties()).toMatchObject({ cacheControl: "no-store", metadata: { owner: "me" } });
    expect((await doc.client.getTags()).tags).toEqual({ state: "open" });
    await doc.overwrite({ total: 9 });
    await expect(doc.deleteIfUnchanged(etag)).rejects.toThrow(ConflictError);
    await doc.deleteIfUnchanged((await doc.read()).etag);
    await expect(doc.read()).rejects.toThrow(TargetNotFoundError);
  });

  it("uses the defaults that it was given, unless a call has its own", async () => {
    const client = (await freshContainer()).getBlockBlobClient("doc");
    const doc = new ConcurrentBlob<Order>(client, { defaults: { initial: { total: 10 }, journal: "own_journal" } });
    expect((await doc.update((order) => { order.total++; })).value).toEqual({ total: 11 });
    expect((await client.getProperties()).metadata).toHaveProperty("own_journal");
    await doc.update(() => DELETE);
    expect((await doc.update((order) => { order.total++; }, { initial: { total: 20 } })).value).toEqual({ total: 21 });
  });

  it("checks with its schema, or holds another kind of content", async () => {
    const container = await freshContainer();
    const doc = new ConcurrentBlob(container.getBlockBlobClient("doc"), { schema: z.object({ total: z.number().max(5) }) });
    await doc.createIfNotExists({ total: 5 });
    await expect(doc.update((order) => { order.total++; })).rejects.toThrow(SchemaError);
    const blob = container.getBlockBlobClient("text");
    const text = new ConcurrentBlob<string>(blob, { target: textBlob(blob) });
    await text.overwrite("a");
    expect((await text.update((before) => `${before}b`)).value).toBe("ab");
  });
});

describe("the lease of a ConcurrentBlob", () => {
  it("is acquired, inspected, used by updates, broken and released", async () => {
    const doc = new ConcurrentBlob<Order>((await freshContainer()).getBlockBlobClient("doc"), { leaseDefaults: { durationInSeconds: 15, waitInMs: 0 } });
    await expect(doc.acquireLease()).rejects.toThrow(TargetNotFoundError);
    await doc.overwrite({ total: 1 });
    const lease = await doc.acquireLease();
    expect(lease.remainingInMs).toBeLessThanOrEqual(15_000);
    expect((await doc.inspectLease()).state).toBe("leased");
    expect(await doc.tryAcquireLease()).toBeUndefined();
    await expect(doc.withLease(() => "not reached")).rejects.toThrow(LeaseUnavailableError);
    await expect(doc.acquireLease({ waitInMs: undefined })).rejects.toThrow(LeaseUnavailableError);
    await expect(doc.update((order) => { order.total++; })).rejects.toThrow(LeaseUnavailableError);
    expect(await doc.update((order) => { order.total++; }, { conditions: lease.conditions })).toMatchObject({ value: { total: 2 } });
    expect(await doc.leasedUpdate((order) => { order.total++; }, { lease })).toMatchObject({ value: { total: 3 } });
    await lease.release();
    expect(await doc.leasedUpdate((order) => { order.total++; })).toMatchObject({ value: { total: 4 } });
    expect(await doc.withLease(async (held) => (await doc.update((order) => { order.total++; }, { conditions: held.conditions })).value.total)).toBe(5);
    await using second = await doc.tryAcquireLease();
    expect(second).toBeDefined();
    expect(await doc.breakLease()).toBe(true);
    expect(await doc.breakLease()).toBe(false);
    expect((await doc.inspectLease()).state).not.toBe("leased");
  });
});

describe("ConcurrentTable", () => {
  let proxy: FaultProxy;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().tableUrl);
  });

  afterEach(() => proxy.stop());

  it("does with the entities of one table what the functions do", async () => {
    const orders = new ConcurrentTable<Order>(await freshTable(), { types: { total: "Double" } });
    const [order, other] = [orders.entity("eu", "42"), orders.entity("eu", "43")];
    expect(await order.createIfNotExists({ total: 1 })).toMatchObject({ outcome: "created" });
    expect(await order.createIfNotExists({ total: 2 })).toMatchObject({ outcome: "unchanged", value: { total: 1 } });
    expect(await order.update((draft) => { draft.total++; })).toMatchObject({ outcome: "updated", value: { total: 2 } });
    expect(await other.update((draft) => { draft.total++; }, { initial: { total: 0 } })).toMatchObject({ outcome: "created" });
    const { value, etag } = await order.read();
    expect(value).toEqual({ partitionKey: "eu", rowKey: "42", total: 2 });
    await order.overwrite({ total: 9, note: "new" });
    await expect(order.deleteIfUnchanged(etag)).rejects.toThrow(ConflictError);
    await order.deleteIfUnchanged((await order.read()).etag);
    await expect(order.read()).rejects.toThrow(TargetNotFoundError);
    expect((await other.read()).value.total).toBe(1);
  });

  it("combines updates although each call makes its target anew", async () => {
    const orders = new ConcurrentTable<Order>(await freshTable({ through: proxy }), { types: { total: "Double" } });
    const key = { partitionKey: "eu", rowKey: "42" };
    await orders.entity(key).createIfNotExists({ total: 0 });
    proxy.reset();
    await Promise.all(Array.from({ length: 20 }, () => orders.update(key, (draft) => { draft.total++; })));
    expect(proxy.requests).toBe(2);
    expect((await orders.entity(key).read()).value.total).toBe(20);
  });
});
