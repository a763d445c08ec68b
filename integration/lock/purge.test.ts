import { describe, expect, it } from "vitest";
import { BlobLocks, TableLock } from "../../src/index.js";
import { freshContainer, freshTable } from "../support/clients.js";

describe("BlobLocks.purge", () => {
  it("deletes locks that are free, and keeps those that are held", async () => {
    const container = await freshContainer();
    const locks = new BlobLocks(container);
    const epoch = await locks.withLock("free", (lock) => lock.epoch);
    const held = await locks.acquire("held");
    expect(await locks.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 1 });
    expect(await locks.list().next()).toMatchObject({ value: { name: "held", state: "leased" } });
    await held.renew();
    await held.release();
    expect(await locks.withLock("free", (lock) => lock.epoch)).toBeGreaterThan(epoch);
  });

  it("keeps epochs growing that ran ahead of the clock", async () => {
    const container = await freshContainer();
    const ahead = 1_000 * (Date.now() + 1e9);
    await container.getBlockBlobClient("locks/l").upload("", 0, { metadata: { asc_epoch: String(ahead), asc_reserved: "5" } });
    const locks = new BlobLocks(container);
    expect(await locks.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    const another = new BlobLocks(container, { holder: "another" });
    expect(await another.withLock("l", (lock) => lock.epoch)).toBe(ahead + 5);
  });

  it("is rejected by the service for a lock that is acquired between the listing and the delete", async () => {
    const container = await freshContainer();
    const locks = new BlobLocks(container);
    await locks.withLock("l", () => undefined);
    const [listed] = await toArray(container.listBlobsFlat({ prefix: "locks/" }));
    const held = await locks.acquire("l");
    const late = container.getBlockBlobClient("locks/l").delete({ conditions: { ifMatch: `"${listed!.properties.etag.replaceAll('"', "")}"` } });
    await expect(late).rejects.toMatchObject({ statusCode: 412 });
    await held.renew();
    await held.release();
  });

  it("keeps the granularity that a table lock has recorded, and deletes its unused locks", async () => {
    const container = await freshContainer();
    const table = await freshTable();
    const locks = new BlobLocks(container);
    const lock = new TableLock(table, locks, { granularity: "partition" });
    await lock.withLock("p", () => undefined);
    expect(await locks.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    await expect(new TableLock(table, locks).withLock(() => undefined)).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH" });
    await lock.withLock("p", () => undefined);
  });

  it("is in use by several processes while they take the locks", async () => {
    const container = await freshContainer();
    const names = ["a", "b", "c"];
    const last = new Map<string, number>();
    const use = async (): Promise<void> => {
      const locks = new BlobLocks(container, { holder: crypto.randomUUID() });
      for (let turn = 0; turn < 15; turn++) {
        const name = names[turn % names.length]!;
        await locks.withLock(name, (lock) => {
          expect(lock.epoch).toBeGreaterThan(last.get(name) ?? 0);
          last.set(name, lock.epoch);
        });
      }
    };
    let done = false;
    const purge = async (): Promise<number> => {
      let deleted = 0;
      while (!done) deleted += (await new BlobLocks(container).purge({ olderThanInMs: 0 })).deleted;
      return deleted;
    };
    const purging = purge();
    await Promise.all([use(), use(), use()]).finally(() => (done = true));
    expect(await purging).toBeGreaterThan(0);
  });

  it("reports a container that does not exist", async () => {
    const container = await freshContainer();
    await container.delete();
    await expect(new BlobLocks(container).purge()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
  });
});

async function toArray<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
