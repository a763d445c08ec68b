import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/index.js";
import type { LockHandle } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { hang, status } from "../lease/fakes/answers.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { isStrictlyIncreasing, later, locksOn, run } from "./support.js";

useFakeClock();

const blob = "locks/a";

/** Three processes want the lock one after the other. The first two have had it, and the third is the next: it knows the record. */
async function thirdInLine(server: FakeLeaseServer): Promise<{ second: LockHandle; secondLocks: BlobLocks; third: ReturnType<typeof outcomeOf<LockHandle>> }> {
  const secondLocks = locksOn(server, "second");
  const first = await run(locksOn(server, "first").acquire("a"));
  const waiting = outcomeOf(secondLocks.acquire("a"));
  await pass(50);
  const third = outcomeOf(locksOn(server, "third").acquire("a"));
  await pass(50);
  await run(first.release());
  await pass(500);
  expect(waiting.value).toBeDefined();
  expect(third.at).toBeUndefined();
  return { second: waiting.value!, secondLocks, third };
}

describe("the next process in line", () => {
  it("begins with the epoch that the holder before reserved for it, and writes the record meanwhile", async () => {
    const server = new FakeLeaseServer();
    const { second, third } = await thirdInLine(server);
    server.requests.length = 0;
    server.intercept = (operation) => (operation === "metadata" ? hang : undefined);
    await run(second.release());
    await pass(200);
    expect(third.value!.epoch).toBeGreaterThan(second.epoch);
    expect(third.value!.previousEpoch).toBe(second.epoch);
    expect(server.count("properties", blob)).toBe(0);
    expect(server.count("metadata", blob)).toBe(1);
    server.intercept = undefined;
    await run(third.value!.release(), 10_000);
  });

  it("releases the lock without waiting for the response to the write of its record", async () => {
    const server = new FakeLeaseServer();
    const { second, third } = await thirdInLine(server);
    server.latencyInMs = 20;
    await run(second.release(), 20);
    server.requests.length = 0;
    while (!third.value) await pass(1);
    await run(third.value.release(), 100);
    const [written, released] = (["metadata", "release"] as const).map((wanted) => server.requests.find(({ operation }) => operation === wanted)!.at);
    expect(released! - written!).toBeLessThan(20);
    expect(server.count("release", blob)).toBe(1);
    expect(server.blobs.get(blob)!.metadata).toMatchObject({ asc_holder: "third", asc_served: "2", asc_next: "3" });
  });

  it("releases the lock again if the release has overtaken the write, so that those behind it know that it is their turn", async () => {
    const server = new FakeLeaseServer();
    const { second, third } = await thirdInLine(server);
    server.latencyInMs = 20;
    await run(second.release(), 20);
    while (!third.value) await pass(1);
    server.requests.length = 0;
    // As if it had arrived before the write.
    let overtakes = true;
    server.intercept = (operation) => {
      if (operation !== "release" || !overtakes) return undefined;
      overtakes = false;
      return status(412, "ConditionNotMet");
    };
    const { epoch } = third.value;
    await run(third.value.release(), 100);
    expect(server.count("release", blob)).toBe(2);
    expect(server.isLeased(blob)).toBe(false);
    expect(server.blobs.get(blob)!.metadata).toMatchObject({ asc_holder: "third", asc_epoch: String(epoch), asc_served: "2" });
  });

  it("releases the lock soon if the record cannot be written", async () => {
    const server = new FakeLeaseServer();
    const { second, third } = await thirdInLine(server);
    server.intercept = (operation) => (operation === "metadata" ? hang : undefined);
    await run(second.release());
    await pass(100);
    const released = outcomeOf(third.value!.release());
    await pass(1_100);
    expect(released.at).toBeDefined();
    expect(server.isLeased(blob)).toBe(false);
    await pass(10_000);
  });

  it("dies before it has written the record: no later holder has a smaller epoch, not even one that has reserved some", async () => {
    const server = new FakeLeaseServer();
    const { second, secondLocks, third } = await thirdInLine(server);
    server.intercept = (operation) => (operation === "metadata" || operation === "renew" ? hang : undefined);
    await run(second.release());
    await pass(100);
    const lost = third.value!.epoch;
    await pass(31_000);
    server.intercept = undefined;
    // Nothing was written since the second holder did, and it has reserved epochs that are smaller than that of the third one.
    expect(server.blobs.get(blob)!.metadata).toMatchObject({ asc_holder: "second" });
    const again = await run(secondLocks.acquire("a"));
    expect(again.epoch).toBeGreaterThan(lost);
    await run(again.release());
    await pass(30_000);
  });

  it("has an epoch of its own, however many callers of the process before it had one", async () => {
    const server = new FakeLeaseServer();
    const first = await run(locksOn(server, "first").acquire("a"));
    const epochs: number[] = [];
    const secondLocks = locksOn(server, "second");
    const crowd = Promise.all(Array.from({ length: 40 }, () => secondLocks.withLock("a", ({ epoch }) => void epochs.push(epoch))));
    await pass(50);
    const third = outcomeOf(locksOn(server, "third").withLock("a", ({ epoch }) => void epochs.push(epoch)));
    await pass(50);
    await run(first.release());
    await run(crowd, 1_000);
    await pass(1_000);
    expect(third.at).toBeDefined();
    expect(epochs).toHaveLength(41);
    expect(epochs).toSatisfy(isStrictlyIncreasing);
  });

  it("gives its callers epochs after its own, also if the record could not be written at first", async () => {
    const server = new FakeLeaseServer();
    const { second, third } = await thirdInLine(server);
    let writes = 0;
    server.intercept = (operation) => (operation === "metadata" && writes++ === 0 ? status(503) : undefined);
    await run(second.release());
    await pass(200);
    const epochs = [third.value!.epoch];
    await run(third.value!.release(), 100);
    const other = await run(locksOn(server, "fourth").acquire("a"), 3_000);
    epochs.push(other.epoch);
    expect(epochs[1]).toBeGreaterThan(epochs[0]!);
    await run(other.release());
  });

  it("does not use an epoch after which there would be no larger one, which another program has reserved for it", async () => {
    const server = new FakeLeaseServer();
    const { second, third } = await thirdInLine(server);
    server.replaceMetadata(blob, { ...server.blobs.get(blob)!.metadata, asc_reserved: String(2 ** 52) });
    await run(second.release());
    await pass(500);
    expect(third.value).toBeUndefined();
    expect(third.error).toMatchObject({ name: "RangeError", message: expect.stringContaining("which another program has written") as string });
    await pass(5_000);
    expect(server.isLeased(blob)).toBe(false);
  });

  it("does not use an epoch that a foreign program has written for its ticket, if it has seen a larger one", async () => {
    const server = new FakeLeaseServer();
    const first = await run(locksOn(server).acquire("a"));
    const second = outcomeOf(locksOn(server).acquire("a"));
    await pass(300);
    const third = outcomeOf(locksOn(server).acquire("a"));
    await pass(300);
    await run(first.release(), 300);
    const { metadata } = server.blobs.get(blob)!;
    expect(metadata["asc_next"]).toBe("2");
    server.replaceMetadata(blob, { ...metadata, asc_epoch: "5" });
    await pass(1_000);
    await run(second.value!.release(), 300);
    expect(third.value!.epoch).toBeGreaterThan(second.value!.epoch);
    await run(third.value!.release(), 300);
  });

  it("does not use the epoch of a ticket that it has not drawn", async () => {
    const server = new FakeLeaseServer();
    const { second, third } = await thirdInLine(server);
    await run(second.release());
    await pass(200);
    const { epoch } = third.value!;
    await run(third.value!.release(), 100);
    // The record reserves an epoch for ticket 3, which was not drawn.
    const [reserved, start] = [Number(server.blobs.get(blob)!.metadata["asc_reserved"]), Number(server.blobs.get(blob)!.metadata["asc_epoch"])];
    expect(start).toBe(epoch);
    const visitor = await run(locksOn(server, "visitor").acquire("a"), 3_000);
    expect(visitor.epoch).toBeGreaterThanOrEqual(start + reserved);
    await run(visitor.release());
  });

  it("dies in a fair lock: a try that is made in its place has a larger epoch", async () => {
    const server = new FakeLeaseServer();
    const fair = (holder: string): BlobLocks => new BlobLocks(server.container(), { holder, fair: true });
    const first = await run(fair("first").acquire("a"), 100);
    const second = outcomeOf(fair("second").acquire("a"));
    await pass(500);
    server.intercept = (operation) => (operation === "metadata" || operation === "renew" ? hang : undefined);
    await run(first.release());
    await pass(500);
    const lost = second.value!.epoch;
    await pass(31_000);
    server.intercept = undefined;
    expect(server.blobs.get(blob)!.metadata).toMatchObject({ asc_holder: "first", asc_next: "2" });
    const tried = await run(fair("third").tryAcquire("a"), 3_000);
    expect(tried!.epoch).toBeGreaterThan(lost);
    await run(tried!.release());
    await pass(30_000);
  });

  it("does not take its own ticket for that of a process that waits", { timeout: 60_000 }, async () => {
    const server = new FakeLeaseServer();
    server.latencyInMs = 5;
    const locks = locksOn(server, "crowd");
    let stopped = false;
    const work = async (): Promise<void> => {
      while (!stopped) await locks.withLock("a", () => later(2));
    };
    const workers = Promise.all(Array.from({ length: 10 }, work));
    await pass(2_000);
    const begin = server.requests.length;
    for (let visits = 0; visits < 10; visits++) {
      const visit = outcomeOf(locksOn(server, "visitor").withLock("a", () => undefined));
      await pass(3_000);
      expect(visit.at).toBeDefined();
    }
    expect(server.requests.length - begin).toBeLessThan(500);
    stopped = true;
    await run(workers, 100);
    await pass(1_000);
  });
});
