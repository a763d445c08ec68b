import { describe, expect, it } from "vitest";
import type { ContainerLike } from "../../src/clients/blob.js";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import type { LockHandle } from "../../src/lease/lease-handle.js";
import { hang, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();

describe("a lock", () => {
  it("is made when it is first used, and costs two requests from then on", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    await run(locks.withLock("orders", () => undefined));
    expect(server.requests.map((request) => request.operation)).toEqual(["acquire", "create", "acquire", "properties", "properties", "metadata", "release"]);
    expect([...server.blobs.keys()]).toEqual(["locks/orders"]);
    server.requests.length = 0;
    await pass(1_000);
    await run(locks.withLock("orders", () => undefined));
    expect(server.requests.map((request) => request.operation)).toEqual(["acquire", "release"]);
    expect([...server.blobs.keys()]).toEqual(["locks/orders"]);
  });

  it("excludes others in this process and elsewhere", async () => {
    const server = new FakeLeaseServer();
    const here = locksOn(server);
    const there = locksOn(server);
    let inside = 0;
    const work = async (): Promise<void> => {
      expect(++inside).toBe(1);
      await later(20);
      inside--;
    };
    const all = Promise.all([here, there, here, there, here].map((locks) => locks.withLock("a", work)));
    await run(all, 5_000);
  });

  it("is null to those who only try while it is held", async () => {
    const server = new FakeLeaseServer();
    const lock = (await run(locksOn(server).tryAcquire("a")))!;
    expect(lock.name).toBe("a");
    expect(await run(locksOn(server).tryAcquire("a"))).toBeUndefined();
    await run(lock.release());
    const again = (await run(locksOn(server).tryAcquire("a")))!;
    expect(again.epoch).toBeGreaterThan(lock.epoch);
    await run(again.release());
  });

  it("asks on behalf of the caller's trace", async () => {
    const server = new FakeLeaseServer();
    await run(locksOn(server).withLock("a", () => undefined));
    const traced = server.requests.filter((request) => request.tracing !== undefined).map((request) => request.operation);
    expect(traced).toEqual(["acquire", "create", "acquire", "properties", "properties", "metadata", "release"]);
  });
});

describe("waiting too long", () => {
  async function tooLong(server: FakeLeaseServer) {
    const holder = await run(locksOn(server, "the/holder").acquire("a"));
    const outcome = outcomeOf(locksOn(server).acquire("a", { waitInMs: 500 }));
    return { holder, outcome };
  }

  it("names who has the lock", async () => {
    const { holder, outcome } = await tooLong(new FakeLeaseServer());
    await pass(600);
    expect(outcome.error).toMatchObject({
      name: "LeaseUnavailableError",
      holder: "the/holder",
      url: "https://account.test/container/locks/a",
      waitedInMs: 500,
    });
    expect((outcome.error as Error).message).toMatch(/the lock "a".*500 ms.*the\/holder since \d{4}-/);
    await run(holder.release());
  });

  it("does not take much longer if nobody can tell who has it", async () => {
    const server = new FakeLeaseServer();
    const { holder, outcome } = await tooLong(server);
    server.intercept = (operation) => (operation === "properties" ? hang : undefined);
    await pass(2_000);
    expect(outcome.at).toBeLessThanOrEqual(1_530);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", holder: undefined, url: "https://account.test/container/locks/a" });
    await run(holder.release());
  });

  it("names nobody who has let go meanwhile", async () => {
    const server = new FakeLeaseServer();
    const { outcome } = await tooLong(server);
    server.intercept = (operation, blob) => {
      if (operation === "properties" && elapsed() >= 500) server.blobs.get(blob)!.lease = undefined;
      return operation === "renew" ? status(409, "LeaseNotPresentWithLeaseOperation") : undefined;
    };
    await pass(11_000);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", holder: undefined });
  });

  it("names the holder although the rest of its record is garbled", async () => {
    const server = new FakeLeaseServer();
    const { holder, outcome } = await tooLong(server);
    server.intercept = (operation, blob) => {
      if (operation === "properties") server.blobs.get(blob)!.metadata = { asc_epoch: "1", asc_holder: "x", asc_since: "never" };
      return undefined;
    };
    await pass(600);
    expect(outcome.error).toMatchObject({ holder: "x" });
    await run(holder.release());
  });
});

describe("defaults", () => {
  it("count unless the call says otherwise, and undefined says nothing", async () => {
    const server = new FakeLeaseServer();
    const locks = new BlobLocks(server.container(), { prefix: "p/", defaults: { durationInSeconds: 60, waitInMs: 100 } });
    const first = await run(locks.acquire("a", { durationInSeconds: undefined }));
    expect(first.remainingInMs).toBeGreaterThan(50_000);
    const second = outcomeOf<LockHandle>(locks.acquire("a"));
    const third = outcomeOf<LockHandle>(locks.acquire("a", { waitInMs: 1_000 }));
    await pass(500);
    expect(second.error).toMatchObject({ name: "LeaseUnavailableError" });
    expect(third.at).toBeUndefined();
    await run(first.release());
    expect(server.blobs.has("p/a")).toBe(true);
    await run(third.value!.release());
  });
});

describe("misuse", () => {
  const noFunction = undefined as unknown as () => void;

  it.each<[string, (locks: BlobLocks) => Promise<unknown>]>([
    ["an empty name", (locks) => locks.acquire("")],
    ["a name that is too long", (locks) => locks.withLock("x".repeat(2_000), () => 1)],
    ["half a character", (locks) => locks.tryAcquire("\ud83d")],
    ["a bad name among good ones", (locks) => locks.withLocks(["a", "\ud83d"], () => 1)],
    ["names that are no array", (locks) => locks.withLocks("abc" as unknown as string[], () => 1)],
    ["no function", (locks) => locks.withLock("a", noFunction)],
    ["no function for many", (locks) => locks.withLocks(["a"], noFunction)],
    ["a negative wait", (locks) => locks.acquire("a", { waitInMs: -1 })],
    ["a negative wait for many", (locks) => locks.withLocks(["a"], () => 1, { waitInMs: -1 })],
    ["a duration of 61 s", (locks) => locks.acquire("a", { durationInSeconds: 61 })],
    ["inspecting an empty name", (locks) => locks.inspect("")],
    ["forcing with a bad epoch", (locks) => locks.break("a", { expectedEpoch: NaN })],
  ])("is found out before anything is sent: %s", async (_, call) => {
    const server = new FakeLeaseServer();
    const error: unknown = await call(locksOn(server)).catch((e: unknown) => e);
    expect(error instanceof RangeError || error instanceof TypeError, String(error)).toBe(true);
    expect(server.requests).toEqual([]);
  });

  it("is found out by the constructor", () => {
    for (const container of [undefined, null, {}, { getBlockBlobClient: 1 }]) {
      expect(() => new BlobLocks(container as unknown as ContainerLike)).toThrow(TypeError);
    }
    const container = new FakeLeaseServer().container();
    for (const holder of ["\ud83d", "x".repeat(1_025), 5 as unknown as string]) {
      expect(() => new BlobLocks(container, { holder })).toThrow(RangeError);
    }
  });
});
