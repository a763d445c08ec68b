import { describe, expect, it } from "vitest";
import { hang, ok, resent, reset, status } from "../lease/fakes/answers.js";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { countedAbort, elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { fromFirst, isStrictlyIncreasing, later, locksOn, run } from "./support.js";

useFakeClock();

describe("epochs", () => {
  it("increase by every holder, here and elsewhere, also after a crash and a forced unlock", async () => {
    const server = new FakeLeaseServer();
    const epochs: number[] = [];
    for (let i = 0; i < 12; i++) {
      const lock = await run(locksOn(server).acquire("a"), 3_000);
      epochs.push(lock.epoch);
      if (i % 3 === 0) await run(lock.release());
      else if (i % 3 === 1) {
        expect(await run(locksOn(server).break("a"))).toBe(true);
        await pass(10_000);
        expect(lock.signal.reason).toMatchObject({ reason: "broken" });
      } else {
        server.intercept = (operation) => (operation === "renew" || operation === "release" ? hang : undefined);
        await pass(31_000); // as good as dead
        server.intercept = undefined;
      }
    }
    await pass(10_000); // The release of the lost lease in the background ends.
    expect(epochs).toHaveLength(12);
    expect(epochs).toSatisfy(isStrictlyIncreasing);
  });

  it("are reserved for those who wait, so that handing over needs no request", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const epochs: number[] = [];
    const all = Array.from({ length: 50 }, () => locks.withLock("a", (lock) => void epochs.push(lock.epoch)));
    await run(Promise.all(all), 100);
    expect(fromFirst(epochs)).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(server.requests.map((request) => request.operation)).toEqual(["acquire", "create", "acquire", "properties", "properties", "metadata", "release"]);
    expect(server.blobs.get("locks/a")!.metadata).toMatchObject({ asc_epoch: String(epochs[0]), asc_reserved: "50" });
    const lock = await run(locksOn(server).acquire("a"));
    expect(lock.epoch).toBeGreaterThanOrEqual(epochs[0]! + 50);
    await run(lock.release());
  });

  it("are reserved more and more at a time for few who come again and again", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const epochs: number[] = [];
    const worker = async (): Promise<void> => {
      for (let i = 0; i < 50; i++) {
        await locks.withLock("a", async (lock) => {
          epochs.push(lock.epoch);
          await later(2);
        });
      }
    };
    await run(Promise.all([worker(), worker()]), 1_000);
    expect(fromFirst(epochs)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(server.requests.length).toBeLessThan(12);
  });

  it("are not taken back by a reservation that was believed lost and arrives after a later one", async () => {
    const server = new FakeLeaseServer();
    const container = server.container();
    const sent: (() => Promise<unknown>)[] = [];
    const getBlockBlobClient: typeof container.getBlockBlobClient = (name) => {
      const blob = container.getBlockBlobClient(name);
      const setMetadata: typeof blob.setMetadata = (...args) => {
        sent.push(() => blob.setMetadata(...args));
        return blob.setMetadata(...args);
      };
      return { ...blob, setMetadata };
    };
    const locks = new BlobLocks({ ...container, getBlockBlobClient });
    const first = await run(locks.acquire("a"));
    const epochs: number[] = [first.epoch];
    const turns = Array.from({ length: 39 }, () => locks.withLock("a", (lock) => void epochs.push(lock.epoch)));
    const last = outcomeOf(locks.acquire("a"));
    await run(first.release());
    await run(Promise.all(turns));
    epochs.push(last.value!.epoch);
    expect(fromFirst(epochs)).toEqual(Array.from({ length: 41 }, (_, i) => i));
    expect(sent).toHaveLength(2);
    await expect(run(sent[0]!())).rejects.toMatchObject({ statusCode: 412 });
    await run(last.value!.release());
    const other = await run(locksOn(server).acquire("a"));
    expect(other.epoch).toBeGreaterThan(last.value!.epoch);
    await run(other.release());
  });

  it("are found to be reserved when the answer that says so is lost and the re-send is refused", async () => {
    const server = new FakeLeaseServer();
    let lost = 0;
    server.disturb = (operation) => (operation === "metadata" && lost++ === 0 ? resent(status(412, "ConditionNotMet")) : undefined);
    const lock = await run(locksOn(server).acquire("a"));
    expect(server.count("metadata")).toBe(1);
    expect(server.blobs.get("locks/a")!.metadata).toMatchObject({ asc_epoch: String(lock.epoch), asc_reserved: "32" });
    await run(lock.release());
    const next = await run(locksOn(server).acquire("a"));
    expect(next.epoch).toBeGreaterThanOrEqual(lock.epoch + 32);
    await run(next.release());
  });

  it("are not given out on a lease that was broken long before it is handed on", async () => {
    const server = new FakeLeaseServer();
    const here = locksOn(server);
    const first = await run(here.acquire("a"));
    const second = outcomeOf(here.acquire("a"));
    expect(await run(locksOn(server).break("a"))).toBe(true);
    const other = await run(locksOn(server).acquire("a"));
    await pass(2_000);
    await run(first.release().catch(() => undefined));
    expect(second).toEqual({});
    await run(other.release());
    await pass(2_000);
    expect(second.value?.epoch).toBeGreaterThan(other.epoch);
    await run(second.value!.release());
  });

  it("are reserved again in one request for those who came later", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const first = await run(locks.acquire("a"));
    const epochs: number[] = [];
    const all = Promise.all(Array.from({ length: 60 }, () => locks.withLock("a", (lock) => void epochs.push(lock.epoch))));
    await pass(10);
    await run(first.release());
    await run(all);
    expect(epochs.map((epoch) => epoch - first.epoch)).toEqual(Array.from({ length: 60 }, (_, i) => i + 1));
    expect(server.count("metadata")).toBe(2);
    // The record, and the floor of a purge.
    expect(server.count("properties")).toBe(2);
    // 32 with the first write, twice as many with the second.
    expect(server.blobs.get("locks/a")!.metadata).toMatchObject({ asc_epoch: String(first.epoch + 32), asc_reserved: "64" });
    const next = await run(locksOn(server).acquire("a"));
    expect(next.epoch).toBeGreaterThanOrEqual(first.epoch + 32 + 64);
    await run(next.release());
  });

  it("skip what was reserved by somebody who crashed", async () => {
    const server = new FakeLeaseServer();
    // Of a process whose clock is ahead.
    const reserved = 1_000 * (Date.now() + 60_000);
    server.addBlob("locks/a").metadata = { asc_epoch: String(reserved), asc_reserved: "5" };
    const lock = await run(locksOn(server).acquire("a"));
    expect(lock.epoch).toBe(reserved + 5);
    await run(lock.release());
  });

  it.each(["an old record", "a smaller epoch", "a record without reservations"])("keep growing when a foreign program writes %s", async (kind) => {
    const server = new FakeLeaseServer();
    const old = await run(locksOn(server).acquire("a"));
    const restored = { ...server.blobs.get("locks/a")!.metadata };
    await run(old.release());
    const epochs = [old.epoch];
    for (let i = 0; i < 3; i++) {
      const locks = locksOn(server);
      for (let j = 0; j < 40; j++) await run(locks.withLock("a", ({ epoch }) => void epochs.push(epoch)));
      const { asc_reserved, ...metadata } = server.blobs.get("locks/a")!.metadata;
      if (kind === "an old record") server.replaceMetadata("locks/a", restored);
      else if (kind === "a smaller epoch") server.replaceMetadata("locks/a", { ...metadata, asc_reserved: asc_reserved!, asc_epoch: "7" });
      else server.replaceMetadata("locks/a", metadata);
    }
    await run(locksOn(server).withLock("a", ({ epoch }) => void epochs.push(epoch)));
    expect(epochs).toSatisfy(isStrictlyIncreasing);
  });

  it("are never lower for a lost answer", async () => {
    const server = new FakeLeaseServer();
    server.disturb = (operation) => (operation === "metadata" && server.count("metadata") === 1 ? reset : undefined);
    const lock = await run(locksOn(server).acquire("a"), 1_000);
    // The record is read back, and found to be the one that was written.
    expect(server.count("metadata")).toBe(1);
    expect(server.blobs.get("locks/a")!.metadata).toMatchObject({ asc_epoch: String(lock.epoch), asc_reserved: "32" });
    await run(lock.release());
    const next = await run(locksOn(server).acquire("a"), 1_000);
    expect(next.epoch).toBeGreaterThanOrEqual(lock.epoch + 32);
    await run(next.release());
  });

  it("are not given to a holder that lost the lease meanwhile: it goes on waiting", async () => {
    const server = new FakeLeaseServer();
    server.addBlob("locks/a");
    let broken = false;
    server.disturb = (operation) => {
      if (operation === "properties" && !broken) {
        broken = true;
        server.blobs.get("locks/a")!.lease = { id: "of another", durationInMs: 5_000, ends: elapsed() + 5_000, breaking: false };
      }
      return undefined;
    };
    const outcome = outcomeOf(locksOn(server).acquire("a"));
    await pass(10_000);
    expect(outcome.at).toBeGreaterThan(5_000);
    outcome.value!.assertHeld();
    await run(outcome.value!.release());
  });

  it("are not handed out with a lease whose loss was noticed while they were asked for", async () => {
    const server = new FakeLeaseServer();
    const first = await run(locksOn(server).acquire("a", { renewIntervalInMs: 1_000 }));
    await run(first.release());
    server.disturb = (operation) => (operation === "metadata" && server.count("metadata") === 2 ? { ...ok, afterInMs: 3_000 } : undefined);
    server.intercept = (operation) =>
      operation === "renew" && server.count("renew") === 1 ? status(409, "LeaseIsBrokenAndCannotBeRenewed") : undefined;
    const outcome = outcomeOf(locksOn(server).acquire("a", { renewIntervalInMs: 1_000 }));
    await pass(40_000);
    outcome.value!.assertHeld();
    expect(outcome.value!.signal.aborted).toBe(false);
    expect(outcome.value!.epoch).toBeGreaterThan(2);
    await run(outcome.value!.release());
  });

  it("are not continued from a reservation whose answer came after its lease was lost and the lock was acquired anew", async () => {
    const server = new FakeLeaseServer();
    // The first write is carried out, and answered three seconds later.
    server.disturb = (operation) => (operation === "metadata" && server.count("metadata") === 1 ? { ...ok, afterInMs: 3_000 } : undefined);
    const locks = locksOn(server);
    const [first, second] = [1, 2].map(() => outcomeOf(locks.acquire("a", { renewIntervalInMs: 1_000 })));
    await pass(500);
    expect(await run(locksOn(server).break("a"))).toBe(true);
    await pass(1_500);
    const { epoch } = first!.value!;
    await pass(2_000);
    await run(first!.value!.release());
    expect(second!.value!.epoch).toBeGreaterThan(epoch);
    await run(second!.value!.release());
  });

  it.each([
    ["a failure that will not pass, and all who wait are told", status(403), 1, 1],
    ["failures that might have passed, for ten seconds, with pauses", status(503), 5, 60],
  ])("end in %s", async (_, answer, atLeast, atMost) => {
    const server = new FakeLeaseServer();
    server.intercept = (operation) => (operation === "metadata" ? answer : undefined);
    const locks = locksOn(server);
    const outcomes = [outcomeOf(locks.acquire("a")), outcomeOf(locks.acquire("a"))];
    await pass(12_000);
    for (const outcome of outcomes) expect(outcome.error).toMatchObject({ statusCode: answer.status });
    expect(server.count("metadata")).toBeGreaterThanOrEqual(atLeast);
    expect(server.count("metadata")).toBeLessThanOrEqual(atMost);
    expect(server.isLeased("locks/a")).toBe(false);
  });

  it("are not waited for by whoever hands the lock over", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const first = await run(locks.acquireVisibly("a"));
    const second = outcomeOf(locks.acquireVisibly("a"));
    server.disturb = (operation) => (operation === "metadata" ? { ...ok, afterInMs: 1_000 } : undefined);
    await first.release(); // without the clock having moved
    await pass(999);
    expect(second.value).toBeUndefined();
    await pass(1);
    expect(second.value!.epoch).toBe(first.epoch + 1);
    await run(second.value!.release());
  });

  it("do not leave the lease behind if nobody waits for their number any more", async () => {
    const server = new FakeLeaseServer();
    server.disturb = (operation) => (operation === "metadata" ? { ...ok, afterInMs: 1_000 } : undefined);
    const caller = countedAbort();
    const outcome = outcomeOf(locksOn(server).acquire("a", { abortSignal: caller.signal }));
    await pass(500);
    expect(server.isLeased("locks/a")).toBe(true);
    caller.abort(new Error("enough"));
    await pass(0);
    expect(outcome.error).toMatchObject({ message: "enough" });
    expect(caller.listeners()).toBe(0);
    await pass(1_000);
    expect(server.isLeased("locks/a")).toBe(false);
  });

  it("are taken under the new id when the lock is handed on while its id is changed", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const first = await run(locks.acquireVisibly("a"));
    const second = outcomeOf(locks.acquireVisibly("a"));
    server.disturb = (operation) => (operation === "change" ? { ...ok, afterInMs: 500 } : undefined);
    const change = outcomeOf(first.change());
    await pass(5); // The service has changed it, and has not answered yet.
    const release = outcomeOf(first.release());
    await pass(600);
    expect([change.error, release.error, second.error]).toEqual([undefined, undefined, undefined]);
    expect(second.value!.epoch).toBe(first.epoch + 1);
    expect(second.at).toBeLessThan(530);
    expect(server.requests.findLast((request) => request.operation === "metadata")?.leaseId).toBe(second.value!.leaseId);
    expect(server.count("acquire")).toBe(2); // the first found no blob
    await run(second.value!.release());
  });
});
