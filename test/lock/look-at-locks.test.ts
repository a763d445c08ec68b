import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import type { LockStatus } from "../../src/lock/lock-options.js";
import { deafHang, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { locksOn, run } from "./support.js";

useFakeClock();

describe("looking at locks", () => {
  it("shows who holds one since when, with which number", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server, "tür/7");
    expect(await run(locks.inspect("a"))).toMatchObject({ name: "a", state: "available", epoch: undefined, holder: undefined });
    const since = new Date(Date.now() - 20);
    const lock = await run(locks.acquire("a"));
    const info = await run(locks.inspect("a"));
    expect(info).toMatchObject({ name: "a", state: "leased", duration: "fixed", epoch: lock.epoch, holder: "tür/7" });
    expect(info.acquiredOn!.getTime()).toBeGreaterThanOrEqual(since.getTime());
    await run(lock.release());
    expect(await run(locks.inspect("a"))).toMatchObject({ state: "available", epoch: lock.epoch, holder: "tür/7" });
  });

  it("names host, process and an id as the holder unless told otherwise", async () => {
    const server = new FakeLeaseServer();
    const lock = await run(locksOn(server).acquire("a"));
    expect((await run(locksOn(server).inspect("a"))).holder).toMatch(new RegExp(`^.+/${process.pid}/[0-9a-f]{8}$`));
    await run(lock.release());
  });

  it("keeps holders of one process apart that call themselves differently", async () => {
    const server = new FakeLeaseServer();
    const container = server.container();
    const first = await run(new BlobLocks(container, { holder: "first" }).acquire("a"));
    const second = outcomeOf(new BlobLocks(container, { holder: "second" }).acquire("a"));
    await run(first.release());
    await pass(2_000);
    expect(await run(locksOn(server).inspect("a"))).toMatchObject({ holder: "second", epoch: second.value!.epoch });
    expect(second.value!.epoch).toBeGreaterThan(first.epoch);
    await run(second.value!.release());
  });

  it("lists all that were ever used, and nothing else", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    server.addBlob("locks/not.a.lock");
    server.addBlob("elsewhere");
    const names = ["b", "a/../b", "🔒"];
    const epochs = new Map<string, number>();
    for (const name of names) await run(locks.withLock(name, ({ epoch }) => void epochs.set(name, epoch)));
    const held = await run(locks.acquire("b"));
    // A holder whose epoch needed no write is recorded when it has held the lock for a second.
    await pass(1_000);
    const list: LockStatus[] = [];
    const listing = (async () => {
      for await (const info of locks.list()) list.push(info);
    })();
    await run(listing);
    expect(new Set(list.map((info) => info.name))).toEqual(new Set(names));
    expect(list.find((info) => info.name === "b")).toMatchObject({ state: "leased", epoch: held.epoch });
    expect(list.find((info) => info.name === "🔒")).toMatchObject({ state: "available", epoch: epochs.get("🔒") });
    await run(held.release());
  });

  it("tells a missing container from a lock that was never used", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    await expect(run(locks.break("a"))).resolves.toBe(false);
    server.intercept = () => status(404, "ContainerNotFound");
    await expect(run(locks.inspect("a"))).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(run(locks.break("a"))).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(run(locks.acquire("a"))).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });

  it("reports a missing container to the callers of a fair lock, which look before they try", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(404, "ContainerNotFound");
    const locks = new BlobLocks(server.container(), { fair: true });
    await expect(run(locks.acquire("a"))).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(run(locks.tryAcquire("a"))).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });

  it("reports a container that is deleted before the epoch of a waiter is allocated", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation) => (operation === "properties" ? status(404, "ContainerNotFound") : undefined);
    await expect(run(locksOn(server).acquire("a"))).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });

  it("ends in time when the service does not answer", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => deafHang;
    const inspected = outcomeOf(locksOn(server).inspect("a"));
    await pass(30_000);
    expect(inspected.error).toMatchObject({ code: "OPERATION_TIMEOUT" });
  });

  it("forces only that lock open that was looked at", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const first = await run(locks.acquire("a"));
    await run(first.release());
    const second = await run(locksOn(server).acquire("a"));
    expect(await run(locks.break("a", { expectedEpoch: first.epoch }))).toBe(false);
    second.assertHeld();
    expect(server.isLeased("locks/a")).toBe(true);
    expect(await run(locks.break("a", { expectedEpoch: second.epoch }))).toBe(true);
    expect(server.isLeased("locks/a")).toBe(false);
    await pass(10_000);
    expect(second.signal.aborted).toBe(true);
    expect(await run(locks.break("never used"))).toBe(false);
  });

  it("says that there is no such container", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(404, "ContainerNotFound");
    const listing = (async () => {
      for await (const lock of locksOn(server).list()) expect(lock).toBeUndefined();
    })();
    await expect(run(listing)).rejects.toMatchObject({ name: "TargetNotFoundError", url: "https://account.test/container", cause: { statusCode: 404 } });
  });
});
