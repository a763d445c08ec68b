import { ContainerClient, ContainerSASPermissions } from "@azure/storage-blob";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { BlobLocks, LeaderElection, Semaphore } from "../../src/index.js";
import { dropResponse, type FaultProxy, isLease, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer, freshName } from "../support/clients.js";
import { fastContainer } from "../support/fast-clients.js";

let proxy: FaultProxy;
let container: ContainerClient;
/** Of this process, through the proxy. */
let locks: BlobLocks;
/** Another party, past it. */
let theirs: BlobLocks;
const never = (): never => {
  throw new Error("the function was called");
};

beforeAll(async () => {
  proxy = await startFaultProxy(azurite().blobUrl);
});
afterAll(() => proxy.stop());

beforeEach(async () => {
  const { containerName } = await freshContainer();
  container = fastContainer(connectionString({ blobUrl: proxy.url }), containerName);
  locks = new BlobLocks(container, { holder: "us" });
  theirs = new BlobLocks(containerClient(containerName), { holder: "them" });
  proxy.reset();
});

describe("what it costs", () => {
  const leases = (): number => proxy.count(isLease());

  it("is at most four requests for a lock that was used before", async () => {
    await theirs.withLock("orders", () => undefined);
    await locks.withLock("orders", () => undefined);
    expect(proxy.requests).toBeLessThanOrEqual(4);
  });

  it("is one more try, the creation and a look at the floor for a lock that is used for the first time", async () => {
    await locks.withLock("orders", () => undefined);
    expect(proxy.requests).toBe(7);
  });

  it("is nothing for a hand-over within the process", async () => {
    await theirs.withLock("orders", () => undefined);
    const first = await locks.acquire("orders");
    const second = locks.acquire("orders");
    const third = locks.acquire("orders");
    await first.release();
    await (await second).release();
    const before = leases();
    await (await third).release();
    expect(leases() - before).toBe(1);
    // One acquire and one release for all of them. Two that came later than the first are numbered with one write; on a busy machine, a lock
    // may be held for a second, and its record is then written as well.
    expect(leases()).toBe(2);
    expect(proxy.requests).toBeLessThanOrEqual(6);
  });

  it("is nothing for a try when this process holds it, and one request when another does", async () => {
    await using held = await locks.acquire("orders");
    proxy.reset();
    expect(await locks.tryAcquire("orders")).toBeUndefined();
    expect(proxy.requests).toBe(0);
    held.assertHeld();
    await using other = await theirs.acquire("invoices");
    expect(await locks.tryAcquire("invoices")).toBeUndefined();
    expect(proxy.requests).toBe(1);
    other.assertHeld();
  });

  it("is one more for a try within a second of the own release, which looks whether others wait", async () => {
    await (await locks.acquire("orders")).release();
    await using other = await theirs.acquire("orders");
    proxy.reset();
    expect(await locks.tryAcquire("orders")).toBeUndefined();
    expect(proxy.requests).toBe(2);
    other.assertHeld();
  });
});

describe("looking at locks", () => {
  it("names the holder, since when, and the epoch", async () => {
    const before = Date.now();
    await using lock = await theirs.acquire("orders");
    const { acquiredOn, ...info } = await locks.inspect("orders");
    expect(info).toEqual({ name: "orders", state: "leased", duration: "fixed", holder: "them", epoch: lock.epoch, etag: expect.any(String) as string, fair: false, data: undefined });
    expect(acquiredOn!.getTime()).toBeGreaterThanOrEqual(before);
    await expect(locks.acquire("orders", { waitInMs: 100 })).rejects.toMatchObject({
      name: "LeaseUnavailableError",
      holder: "them",
      message: expect.stringContaining("them") as string,
    });
  });

  it("lists those that were ever used, and nothing else that is in the container", async () => {
    await using held = await theirs.acquire("held");
    const free = await locks.withLock("free", (lock) => lock.epoch);
    await container.getBlockBlobClient("no-lock").upload("", 0);
    const listed = [];
    for await (const { name, state, epoch } of locks.list()) listed.push({ name, state, epoch });
    expect(listed).toEqual([
      { name: "free", state: "available", epoch: free },
      { name: "held", state: "leased", epoch: held.epoch },
    ]);
  });

  it("finds one that nobody has used free, without making it", async () => {
    expect(await locks.inspect("new")).toMatchObject({ name: "new", state: "available", epoch: undefined });
    expect(await locks.break("new")).toBe(false);
    expect((await locks.list().next()).done).toBe(true);
  });

  it("takes a stuck lock away, but not from somebody who came after the one that was looked at", async () => {
    const stuck = await theirs.acquire("orders");
    const { epoch } = await locks.inspect("orders");
    expect(await locks.break("orders", { expectedEpoch: epoch })).toBe(true);
    await using next = await locks.acquire("orders", { waitInMs: 5_000 });
    expect(next.epoch).toBeGreaterThan(stuck.epoch);
    expect(await theirs.break("orders", { expectedEpoch: epoch })).toBe(false);
    await expect(stuck.renew()).rejects.toMatchObject({ name: "LeaseLostError", reason: "stolen" });
    await next.renew();
  });
});

describe("names", () => {
  const odd = ["../../secrets", "a/b", "a.", ".", "..", "~", "%2F", "tab\tnul\0line\n", "Straße", "🔒", "a b?c#d", "CON", "a\\b", "x".repeat(900)];

  it.each(odd)("of any characters are safe, and come back as they were: %j", async (name) => {
    await locks.withLock(name, async (lock) => {
      expect(lock.name).toBe(name);
      expect(await theirs.tryAcquire(name)).toBeUndefined();
    });
    const listed = await locks.list().next();
    expect(listed.value).toMatchObject({ name });
    const { value: blob } = await containerClient(container.containerName).listBlobsFlat().next() as { value: { name: string } };
    expect(blob.name).toMatch(/^locks\/[-_~A-Za-z0-9]+$/);
  });

  it("that look alike are different locks", async () => {
    const alike = ["a/b", "a~2Fb", "a%2Fb", "A/B", "a//b", " a/b"];
    const held = await Promise.all(alike.map((name) => locks.acquire(name, { waitInMs: 5_000 })));
    expect(new Set(held.map(({ url }) => url)).size).toBe(alike.length);
    await Promise.all(held.map((lock) => lock.release()));
  });

  it.each(["", "x".repeat(2_000), "🔒".repeat(300), "\ud800"])("that cannot be kept are refused before anything is sent: %#", async (name) => {
    await expect(locks.withLock(name, never)).rejects.toThrow(RangeError);
    await expect(locks.withLocks(["fine", name], never)).rejects.toThrow(RangeError);
    await expect(locks.inspect(name)).rejects.toThrow(RangeError);
    await expect((async () => locks.break(name))()).rejects.toThrow(RangeError);
    expect(() => new Semaphore(locks, name, 2)).toThrow(RangeError);
    expect(() => new LeaderElection(locks, name, never)).toThrow(RangeError);
    expect(proxy.count(({ path }) => !path.includes("fine"))).toBe(0);
  });
});

describe("what waiting does not help with is told at once", () => {
  it.each([14, 61])("a duration of %d seconds", async (durationInSeconds) => {
    await expect(locks.withLock("orders", never, { durationInSeconds })).rejects.toThrow(/15 to 60/);
    expect(proxy.requests).toBe(0);
  });

  it("a missing container", async () => {
    const missing = new BlobLocks(containerClient(freshName(), { through: proxy }));
    await expect(missing.withLock("orders", never)).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(missing.tryAcquire("orders")).rejects.toMatchObject({ name: "TargetNotFoundError" });
    expect(proxy.requests).toBe(2);
  });

  it.each(["orders", "never used before"])("a signature that may read but not write: the lock %j", async (name) => {
    const epoch = await theirs.withLock("orders", (lock) => lock.epoch);
    const expiresOn = new Date(Date.now() + 3_600_000);
    const url = await container.generateSasUrl({ permissions: ContainerSASPermissions.parse("rl"), expiresOn });
    const reader = new BlobLocks(new ContainerClient(url));
    expect(await reader.inspect("orders")).toMatchObject({ state: "available", epoch });
    proxy.reset();
    await expect(reader.withLock(name, never)).rejects.toMatchObject({ statusCode: 403 });
    expect(proxy.requests).toBeLessThanOrEqual(2);
  });
});

describe("lost answers", () => {
  it("to any one of the requests leave the lock usable and the epochs increasing", async () => {
    let last = 0;
    for (let lost = 0; lost < 6; lost++) {
      let seen = 0;
      proxy.reset([dropResponse({ when: () => seen++ === lost })]);
      await locks.withLock("orders", ({ epoch }) => {
        expect(epoch).toBeGreaterThan(last);
        last = epoch;
      });
      expect(await theirs.inspect("orders")).toMatchObject({ state: "available" });
    }
    proxy.reset();
  });
});
