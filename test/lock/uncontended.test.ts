import { describe, expect, it } from "vitest";
import { hang, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { fromFirst, isStrictlyIncreasing, later, locksOn, run } from "./support.js";

useFakeClock();

const blob = "locks/a";

describe("a lock that no other process wants", () => {
  it.each([
    ["one turn after the other", 0],
    ["with a pause in which the queue is idle", 1_100],
    ["with a pause of a minute", 60_000],
  ])("costs two requests a turn: %s", async (_, pauseInMs) => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const epochs: number[] = [];
    const turns = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        await locks.withLock("a", ({ epoch }) => void epochs.push(epoch));
        if (pauseInMs > 0) await later(pauseInMs);
      }
    };
    await run(turns(1), 1_000 + pauseInMs);
    server.requests.length = 0;
    await run(turns(100), 1_000 + 100 * (pauseInMs + 10));
    expect(epochs).toHaveLength(101);
    if (100 * pauseInMs < 3_600_000) expect(fromFirst(epochs)).toEqual(Array.from({ length: 101 }, (__, i) => i));
    else expect(epochs).toSatisfy(isStrictlyIncreasing); // Once an hour, further epochs are reserved.
    expect([server.count("acquire"), server.count("release")]).toEqual([100, 100]);
    expect(server.requests.length / 100).toBeLessThanOrEqual(2.1);
  });

  it.each([100, 300, 700])("costs two requests a turn, and one more twice a second at most, in a loop with a pause of %s ms: others may wait", async (pauseInMs) => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const loop = async (): Promise<void> => {
      for (let i = 0; i < 100; i++) await locks.withLock("a", () => later(pauseInMs));
    };
    await run(loop(), 100 * (pauseInMs + 10));
    server.requests.length = 0;
    const begin = elapsed();
    await run(loop(), 100 * (pauseInMs + 10));
    const looks = server.count("properties", `${blob}.tickets`);
    expect(looks).toBeLessThanOrEqual((elapsed() - begin) / 500 + 1);
    expect(server.requests.length - looks).toBeLessThanOrEqual(210);
  });

  it("costs two requests a turn also if it is only tried", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    for (let i = 0; i < 101; i++) {
      if (i === 1) server.requests.length = 0;
      await run((await run(locks.tryAcquire("a")))!.release());
    }
    expect(server.requests.length / 100).toBeLessThanOrEqual(2.1);
  });

  it("costs two requests also if one process comes after the other, but for the first turn of each", async () => {
    const server = new FakeLeaseServer();
    const [here, there] = [locksOn(server), locksOn(server)];
    const epochs: number[] = [];
    for (const locks of [here, there, here, there]) {
      await pass(2_000);
      server.requests.length = 0;
      for (let i = 0; i < 10; i++) await run(locks.withLock("a", ({ epoch }) => void epochs.push(epoch)));
      // The first one reads the record and writes it, and the second one looks whether others wait. The very first reads the floor.
      expect(server.requests.length).toBeLessThanOrEqual(epochs.length === 10 ? 26 : 25);
    }
    expect(epochs).toHaveLength(40);
    expect(epochs).toSatisfy(isStrictlyIncreasing);
  });

  it("is read anew if a foreign program has written the record between two turns", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const before = await run(locks.withLock("a", ({ epoch }) => epoch));
    await pass(2_000);
    const raised = before + 60_000_000;
    server.replaceMetadata(blob, { asc_epoch: String(raised), asc_reserved: "5" });
    server.requests.length = 0;
    const after = await run(locks.withLock("a", ({ epoch }) => epoch));
    expect(after).toBe(raised + 5);
    expect(server.requests.map(({ operation }) => operation)).toEqual(["acquire", "properties", "metadata", "release"]);
  });

  it("is not given a reserved epoch after another process has had it, although it was released since", async () => {
    const server = new FakeLeaseServer();
    const [here, there] = [locksOn(server), locksOn(server)];
    const epochs: number[] = [];
    for (const locks of [here, here, there, here, there, there, here]) {
      epochs.push(await run(locks.withLock("a", ({ epoch }) => epoch), 50));
      await pass(1_500);
    }
    expect(epochs).toSatisfy(isStrictlyIncreasing);
  });

  it("has no reserved epoch left after a lease that was lost", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const lock = await run(locks.acquire("a"));
    server.intercept = (operation) => (operation === "renew" ? status(409, "LeaseIsBrokenAndCannotBeRenewed") : undefined);
    await pass(11_000);
    expect(lock.signal.aborted).toBe(true);
    server.intercept = undefined;
    server.blobs.get(blob)!.lease = undefined;
    server.requests.length = 0;
    const next = await run(locks.acquire("a"));
    expect(server.count("metadata", blob)).toBe(1);
    expect(next.epoch).toBeGreaterThan(lock.epoch);
    await run(next.release());
    await run(lock.release().catch(() => undefined));
  });
});

describe("epochs keep growing", () => {
  const foreign: [string, (server: FakeLeaseServer) => void][] = [
    ["deletes the blob", (server) => void server.blobs.delete(blob)],
    ["replaces its metadata", (server) => server.replaceMetadata(blob, { owner: "a backup tool" })],
    ["replaces the blob", (server) => void server.addBlob(blob)],
  ];

  it.each(foreign)("if a foreign program %s between two turns of a process", async (_, change) => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const epochs: number[] = [];
    for (let i = 0; i < 10; i++) {
      epochs.push(await run(locks.withLock("a", ({ epoch }) => epoch), 50));
      if (i > 5) await pass(1_000);
      change(server);
    }
    expect(epochs).toSatisfy(isStrictlyIncreasing);
  });

  it.each(foreign)("if a foreign program %s while a paused holder has the lock, and another process comes", async (_, change) => {
    const server = new FakeLeaseServer();
    const paused = await run(locksOn(server).acquire("a"));
    await pass(5_000);
    change(server);
    const now = server.blobs.get(blob);
    if (now) now.lease = undefined;
    const next = await run(locksOn(server).acquire("a"), 2_000);
    expect(next.epoch).toBeGreaterThan(paused.epoch);
    await run(next.release());
    await pass(11_000);
    await run(paused.release().catch(() => undefined));
  });

  it.each(foreign)("if a foreign program %s after a process has handed the lock over hundreds of times in an instant", async (_, change) => {
    const server = new FakeLeaseServer();
    const here = locksOn(server);
    let last = 0;
    await run(Promise.all(Array.from({ length: 999 }, () => here.withLock("a", ({ epoch }) => void (last = epoch)))), 100);
    change(server);
    const next = await run(locksOn(server).acquire("a"));
    expect(next.epoch).toBeGreaterThan(last);
    await run(next.release());
  });

  it("if the clock of the client is behind that of the service", async () => {
    const server = new FakeLeaseServer();
    const first = await run(locksOn(server).withLock("a", ({ epoch }) => epoch));
    server.blobs.delete(blob);
    const { lastModified } = server.addBlob(blob);
    // As if the service were an hour ahead of this process.
    server.blobs.get(blob)!.lastModified = new Date(lastModified.getTime() + 3_600_000);
    const next = await run(locksOn(server).acquire("a"));
    expect(next.epoch).toBeGreaterThanOrEqual(1_000 * (lastModified.getTime() + 3_600_000));
    expect(next.epoch).toSatisfy(Number.isSafeInteger);
    expect(next.epoch).toBeGreaterThan(first);
    await run(next.release());
  });
});

describe("a holder whose epoch needed no write", () => {
  it("is recorded when it has held the lock for a second, with the time at which it acquired it", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server, "me");
    await run(locks.withLock("a", () => undefined));
    await pass(5_000);
    const since = Date.now();
    const lock = await run(locks.acquire("a"), 10);
    const writes = server.count("metadata");
    await pass(900);
    expect(server.count("metadata")).toBe(writes);
    await pass(200);
    expect(server.count("metadata")).toBe(writes + 1);
    const status = await run(locksOn(server).inspect("a"));
    expect(status).toMatchObject({ state: "leased", holder: "me", epoch: lock.epoch });
    expect(status.acquiredOn!.getTime()).toBeGreaterThanOrEqual(since);
    expect(status.acquiredOn!.getTime()).toBeLessThan(since + 10);
    await pass(30_000);
    expect(server.count("metadata")).toBe(writes + 1);
    await run(lock.release());
    // The epochs that were reserved with it are still good: no request more.
    await pass(2_000);
    server.requests.length = 0;
    expect(await run(locks.withLock("a", ({ epoch }) => epoch))).toBe(lock.epoch + 1);
    expect(server.requests.map(({ operation }) => operation)).toEqual(["acquire", "release"]);
  });

  it("of a short section costs nothing, and leaves no timer behind", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    for (let i = 0; i < 10; i++) await run(locks.withLock("a", () => later(900)), 1_000);
    expect(server.count("metadata")).toBe(1);
  });

  it("is recorded also if the lock is handed over within the process", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const first = await run(locks.acquire("a"));
    const second = outcomeOf(locks.acquire("a"));
    await run(first.release());
    await pass(1_100);
    expect(await run(locksOn(server).inspect("a"))).toMatchObject({ epoch: second.value!.epoch });
    await run(second.value!.release());
  });

  it.each([
    ["hangs", hang],
    ["is refused", status(403)],
    ["fails", status(503)],
  ])("keeps the lock if the write %s", async (_, answer) => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    await run(locks.withLock("a", () => undefined));
    await pass(2_000);
    const lock = await run(locks.acquire("a"));
    server.intercept = (operation) => (operation === "metadata" ? answer : undefined);
    await pass(20_000);
    lock.assertHeld();
    server.intercept = undefined;
    await run(lock.release());
    const next = await run(locks.acquire("a"), 100);
    expect(next.epoch).toBeGreaterThan(lock.epoch);
    await run(next.release());
  });

  it("is not recorded, nor does it take the record back, when the write arrives after the lock has changed hands", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server, "first");
    await run(locks.withLock("a", () => undefined));
    await pass(2_000);
    const lock = await run(locks.acquire("a"));
    server.intercept = (operation) => (operation === "metadata" ? hang : undefined);
    await pass(1_100);
    server.intercept = undefined;
    await run(lock.release());
    const other = await run(locksOn(server, "second").acquire("a"), 100);
    await pass(10_000);
    expect(await run(locks.inspect("a"))).toMatchObject({ holder: "second", epoch: other.epoch });
    await run(other.release());
    const again = await run(locks.acquire("a"), 100);
    expect(again.epoch).toBeGreaterThan(other.epoch);
    await run(again.release());
  });
});
