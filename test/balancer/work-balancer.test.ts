import { describe, expect, it } from "vitest";
import { WorkBalancer } from "../../src/balancer/work-balancer.js";
import type { WorkBalancerOptions } from "../../src/balancer/balancer-options.js";
import { after, hang, ok, resent, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { blockEventLoop, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, locksOn, run } from "../lock/support.js";
import { countsOf, ownersOf, worker } from "./worker.js";
import type { Worker } from "./worker.js";

useFakeClock();

const shardBlob = (shard: number): string => `locks/feeds~2Fshards~2F${shard}`;
const stopAll = (workers: readonly Worker[]): Promise<unknown> => run(Promise.all(workers.map(({ balancer }) => balancer.stop())), 100);
const memberBlobs = (server: FakeLeaseServer): string[] => [...server.blobs.keys()].filter((name) => name.includes("members"));

async function started(server: FakeLeaseServer, count: number, options: Parameters<typeof worker>[1] = {}): Promise<Worker[]> {
  const workers = Array.from({ length: count }, () => worker(server, options));
  for (const { balancer } of workers) void balancer.start();
  await pass(60_000);
  return workers;
}

describe("workers", () => {
  it("own all shards when there is one, each with an epoch, and release them when it stops", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1);
    expect(only!.balancer.ownedShards).toEqual([0, 1, 2, 3]);
    expect(only!.acquired.map(({ shard }) => shard).sort()).toEqual([0, 1, 2, 3]);
    for (const context of only!.contexts) {
      const { shard, epoch } = context;
      expect(epoch).toBe(Number(server.blobs.get(shardBlob(shard))!.metadata["asc_epoch"]));
      context.assertHeld();
    }
    await stopAll([only!]);
    expect(only!.balancer.ownedShards).toEqual([]);
    expect(only!.released.map(({ reason }) => reason)).toEqual(["stopped", "stopped", "stopped", "stopped"]);
    expect([...server.blobs.keys()].filter((name) => server.isLeased(name))).toEqual([]);
    expect(only!.errors).toEqual([]);
  });

  it("share the shards evenly however they start, and a shard has one owner", async () => {
    const server = new FakeLeaseServer();
    const workers = await started(server, 3, { shards: 10 });
    expect(countsOf(workers).sort()).toEqual([3, 3, 4]);
    expect(ownersOf(workers).size).toBe(10);
    await stopAll(workers);
  });

  it("give a newcomer only what it should have, and each shard moves once", async () => {
    const server = new FakeLeaseServer();
    const workers = await started(server, 2, { shards: 9 });
    const newcomer = worker(server, { shards: 9 });
    void newcomer.balancer.start();
    await pass(30_000);
    expect(countsOf([...workers, newcomer])).toEqual([3, 3, 3]);
    expect(workers.flatMap(({ released }) => released.map(({ reason }) => reason))).toEqual(expect.arrayContaining(["rebalanced", "rebalanced", "rebalanced"]));
    expect(newcomer.acquired).toHaveLength(3);
    await stopAll([...workers, newcomer]);
  });

  it("take over the shards of one that stops, and nothing else moves", async () => {
    const server = new FakeLeaseServer();
    const workers = await started(server, 3, { shards: 9 });
    const before = workers.map(({ released }) => released.length);
    await run(workers[0]!.balancer.stop());
    await pass(15_000);
    expect(countsOf(workers.slice(1)).sort()).toEqual([4, 5]);
    expect(workers.slice(1).map(({ released }) => released.length)).toEqual(before.slice(1));
    await stopAll(workers);
  });

  it("take over the shards of one that died when its leases have expired, with larger epochs", async () => {
    const server = new FakeLeaseServer();
    // A process of its own, which the service does not hear any more.
    const dead = worker(server, { shards: 6 });
    void dead.balancer.start();
    await pass(1_000);
    const old = new Map(dead.contexts.map(({ shard, epoch }) => [shard, epoch]));
    for (const name of [...server.blobs.keys()]) expect(server.isLeased(name)).toBe(name !== "locks/feeds.shards");
    const ids = new Set([...server.blobs.values()].map(({ lease }) => lease?.id));
    const other = worker(server, { shards: 6 });
    server.intercept = (operation) => (operation === "renew" ? hang : undefined);
    void other.balancer.start();
    await pass(29_000);
    expect(dead.balancer.ownedShards).toEqual([]);
    server.intercept = undefined;
    // It is dead: what it does from now on has no effect.
    void dead.balancer.stop();
    await pass(12_000);
    expect(other.balancer.ownedShards).toEqual([0, 1, 2, 3, 4, 5]);
    for (const { shard, epoch } of other.contexts) expect(epoch).toBeGreaterThan(old.get(shard)!);
    expect(ids.size).toBeGreaterThan(6);
    await stopAll([other]);
  });

  it("have no more than their limits, and shards beyond all limits have no owner", async () => {
    const server = new FakeLeaseServer();
    const workers = [worker(server, { shards: 8, maxShards: 1 }), worker(server, { shards: 8, maxShards: 3 }), worker(server, { shards: 8 })];
    for (const { balancer } of workers) void balancer.start();
    await pass(60_000);
    expect(countsOf(workers)).toEqual([1, 3, 4]);
    await run(workers[2]!.balancer.stop());
    await pass(120_000);
    expect(countsOf(workers)).toEqual([1, 3, 0]);
    await stopAll(workers);
  });

  it.each([10_000, Number.MAX_SAFE_INTEGER, 1e21])("see each other with a limit of %d, which is none", async (maxShards) => {
    const server = new FakeLeaseServer();
    const workers = await started(server, 2, { maxShards });
    expect(countsOf(workers)).toEqual([2, 2]);
    await stopAll(workers);
  });

  it("use as many member blobs as there were workers at the same time, however often they restart", async () => {
    const server = new FakeLeaseServer();
    const [stays] = await started(server, 1);
    for (let round = 0; round < 10; round++) {
      const comes = worker(server);
      await run(comes.balancer.start());
      await pass(2_000);
      await stopAll([comes]);
    }
    expect(memberBlobs(server).length).toBeLessThanOrEqual(5);
    await stopAll([stays!]);
  });

  it("know by the clock that they own nothing any more after they were suspended", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1);
    blockEventLoop(31_000);
    expect(only!.balancer.ownedShards).toEqual([]);
    for (const context of only!.contexts) expect(() => context.assertHeld()).toThrow("lost");
    await pass(15_000);
    expect(only!.balancer.ownedShards).toEqual([0, 1, 2, 3]);
    expect(only!.released.map(({ reason }) => reason)).toEqual(["lost", "lost", "lost", "lost"]);
    await stopAll([only!]);
  });
});

describe("a member lock that is lost", () => {
  it("ends no term, and is replaced at the next rebalance", async () => {
    const server = new FakeLeaseServer();
    const [first, second] = await started(server, 2);
    const lost = memberBlobs(server).find((name) => server.isLeased(name))!;
    server.blobs.get(lost)!.lease = undefined;
    await pass(25_000);
    expect(memberBlobs(server).filter((name) => server.isLeased(name))).toHaveLength(2);
    expect([first!, second!].flatMap(({ released }) => released.filter(({ reason }) => reason !== "rebalanced"))).toEqual([]);
    expect(countsOf([first!, second!])).toEqual([2, 2]);
    await stopAll([first!, second!]);
  });
});

describe("work", () => {
  it("that throws releases its shard, is reported, and is tried again after 5 s, 10 s, ...", async () => {
    const server = new FakeLeaseServer();
    const begun: number[] = [];
    const { balancer, errors, released } = worker(server, {
      shards: 1,
      rebalanceIntervalInMs: 300,
      processShard: () => {
        begun.push(performance.now());
        throw new Error("work");
      },
    });
    await run(balancer.start());
    await pass(36_000);
    const gaps = begun.slice(1).map((at, n) => at - begun[n]!);
    expect(gaps[0]).toBeGreaterThan(5_000);
    expect(gaps[0]).toBeLessThan(5_500);
    expect(gaps[1]).toBeGreaterThan(10_000);
    expect(gaps[1]).toBeLessThan(10_500);
    expect(errors[0]).toMatchObject({ message: "work" });
    expect(released[0]).toMatchObject({ shard: 0, reason: "failed" });
    await run(balancer.stop());
  });

  it("that fails on one worker runs on another one, which gives one of its own shards for it", async () => {
    const server = new FakeLeaseServer();
    const good = worker(server);
    await run(good.balancer.start());
    const fails = new Set<number>();
    const bad = worker(server, {
      processShard: ({ shard }) => {
        // Whatever it gets first does not work here.
        if (fails.size === 0) fails.add(shard);
        if (fails.has(shard)) throw new Error("not here");
      },
    });
    await run(bad.balancer.start());
    await pass(180_000);
    expect(fails.size).toBe(1);
    for (const shard of fails) expect(good.balancer.ownedShards).toContain(shard);
    expect(countsOf([good, bad])).toEqual([2, 2]);
    const { length } = bad.acquired;
    await pass(300_000);
    expect(bad.acquired, "nothing moves any more").toHaveLength(length);
    await stopAll([good, bad]);
  });

  it("that ends before its term keeps the shard", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1, { processShard: () => later(10) });
    await pass(60_000);
    expect(only!.balancer.ownedShards).toEqual([0, 1, 2, 3]);
    expect(only!.contexts).toHaveLength(4);
    await stopAll([only!]);
  });

  it("that ignores its signal is abandoned: its lease expires, another worker owns the shard, and this one not before it has ended", async () => {
    const server = new FakeLeaseServer();
    let end: (() => void) | undefined;
    const stubborn = worker(server, { shards: 2, drainTimeoutInMs: 1_000, processShard: () => new Promise<void>((resolve) => (end = resolve)) });
    await run(stubborn.balancer.start());
    const other = worker(server, { shards: 2 });
    await run(other.balancer.start());
    await pass(15_000);
    expect(stubborn.released).toMatchObject([{ reason: "abandoned" }]);
    expect(stubborn.errors).toMatchObject([{ name: "OperationTimeoutError", message: expect.stringContaining("another worker may own the shard") as string }]);
    const { shard } = stubborn.released[0]!;
    expect(other.balancer.ownedShards).toEqual([]);
    await pass(45_000);
    expect(other.balancer.ownedShards).toEqual([shard]);
    await run(other.balancer.stop());
    await pass(60_000);
    expect(stubborn.balancer.ownedShards).toEqual([1 - shard]);
    end!();
    await pass(15_000);
    expect(stubborn.balancer.ownedShards).toEqual([0, 1]);
    for (let n = 0; n < 2; n++) {
      void stubborn.balancer.stop({ drainTimeoutInMs: 0 });
      end!();
    }
    await pass(40_000);
  });

  it.each<[string, (it: Worker) => Promise<unknown>, string]>([
    ["stop", ({ balancer }) => balancer.stop(), "stopped"],
    ["stop without a limit", ({ balancer }) => balancer.stop({ drainTimeoutInMs: Infinity }), "stopped"],
    ["shed", ({ balancer }) => balancer.shed(4), "shed"],
  ])("that calls %s goes on at once with an aborted signal", async (_, call, reason) => {
    const server = new FakeLeaseServer();
    const seen: boolean[] = [];
    const it: Worker = worker(server, {
      drainTimeoutInMs: Infinity,
      processShard: async ({ shard, signal }) => {
        if (shard !== 2) return;
        await later(1_000);
        await call(it);
        seen.push(signal.aborted);
      },
    });
    await run(it.balancer.start());
    await pass(2_000);
    expect(seen).toEqual([true]);
    expect(it.released.map((detail) => detail.reason)).toEqual([reason, reason, reason, reason]);
    await run(it.balancer.stop());
  });
});

describe("shed", () => {
  it("gives the shards that were acquired last to others, and does not take them back", async () => {
    const server = new FakeLeaseServer();
    const [first, second] = await started(server, 2, { shards: 8 });
    const shed = await run(first!.balancer.shed(3), 50);
    expect(shed).toHaveLength(3);
    expect(first!.balancer.ownedShards).toHaveLength(1);
    for (const shard of shed) expect(server.isLeased(shardBlob(shard))).toBe(false);
    expect(first!.released.slice(-3)).toMatchObject([{ reason: "shed" }, { reason: "shed" }, { reason: "shed" }]);
    await pass(120_000);
    expect(countsOf([first!, second!])).toEqual([1, 7]);
    await run(first!.balancer.stop());
    await run(first!.balancer.start());
    await pass(60_000);
    expect(countsOf([first!, second!])).toEqual([4, 4]);
    await stopAll([first!, second!]);
  });

  it("publishes the new limit under another member lock, before it releases the first one", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1);
    server.requests.length = 0;
    await run(only!.balancer.shed(1), 50);
    const steps = server.requests.filter(({ operation, blob }) => blob.includes("members") && ["acquire", "metadata", "release"].includes(operation));
    expect(steps.at(-1)).toMatchObject({ operation: "release" });
    expect(steps.filter(({ operation }) => operation === "release")).toHaveLength(1);
    expect(steps.findIndex(({ operation }) => operation === "metadata")).toBeLessThan(steps.length - 1);
    await stopAll([only!]);
  });

  it("gives up a shard that was acquired while it shed", async () => {
    const server = new FakeLeaseServer();
    const { balancer, acquired } = worker(server, { shards: 6 });
    await run(balancer.start());
    await pass(1_000);
    // Two become free, and the worker is about to acquire them again.
    for (const shard of [0, 1]) server.blobs.get(shardBlob(shard))!.lease = undefined;
    await pass(12_000);
    const before = acquired.length;
    server.latencyInMs = 500;
    for (const shard of [2, 3]) server.blobs.get(shardBlob(shard))!.lease = undefined;
    for (let n = 0; n < 60 && server.requests.at(-1)?.operation !== "acquire"; n++) await pass(250);
    expect(server.requests.at(-1)?.operation).toBe("acquire");
    const shed = outcomeOf(balancer.shed(2));
    await pass(20_000);
    expect(shed.value).toHaveLength(2);
    expect(acquired).toHaveLength(before);
    expect(balancer.ownedShards).toHaveLength(2);
    for (const shard of [2, 3]) expect(server.isLeased(shardBlob(shard))).toBe(false);
    server.latencyInMs = 1;
    await stopAll([{ balancer } as Worker]);
  });

  it("ends other shards in each of several calls at the same time", async () => {
    const server = new FakeLeaseServer();
    const [first, second] = await started(server, 2, { shards: 8 });
    const { balancer, released } = first!;
    const before = released.length;
    const shed = await run(Promise.all([balancer.shed(1), balancer.shed(2), balancer.shed(5)]), 100);
    expect(shed.map((shards) => shards.length)).toEqual([1, 2, 1]);
    expect(new Set(shed.flat()).size).toBe(4);
    expect(released.slice(before).map(({ reason }) => reason)).toEqual(["shed", "shed", "shed", "shed"]);
    await pass(60_000);
    expect(countsOf([first!, second!])).toEqual([0, 8]);
    await stopAll([first!, second!]);
  });

  it("waits for the work of the shards", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1, { processShard: ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => setTimeout(resolve, 3_000))) });
    const shed = outcomeOf(only!.balancer.shed(1));
    await pass(2_900);
    expect(shed.at).toBeUndefined();
    await pass(200);
    expect(shed.value).toHaveLength(1);
    void only!.balancer.stop();
    await pass(4_000);
  });

  it("releases the shards even if the new limit cannot be published, which the next rebalance does", async () => {
    const server = new FakeLeaseServer();
    const [first, second] = await started(server, 2, { shards: 8 });
    server.intercept = (operation, blob) => (operation === "acquire" && blob.includes("members") ? status(403, "AuthorizationFailure") : undefined);
    expect(await run(first!.balancer.shed(3), 50)).toHaveLength(3);
    expect(first!.errors).toHaveLength(1);
    server.intercept = undefined;
    await pass(60_000);
    expect(countsOf([first!, second!])).toEqual([1, 7]);
    await stopAll([first!, second!]);
  });

  it("does nothing if it is not running, for 0, and rejects nonsense", async () => {
    const server = new FakeLeaseServer();
    const { balancer } = worker(server);
    expect(await balancer.shed(1)).toEqual([]);
    await run(balancer.start());
    expect(await balancer.shed(0)).toEqual([]);
    await expect(balancer.shed(-1)).rejects.toThrow(RangeError);
    await expect(balancer.shed(1.5)).rejects.toThrow(RangeError);
    await run(balancer.stop());
  });
});

describe("start and stop", () => {
  it("rejects another number of shards than the recorded one", async () => {
    const server = new FakeLeaseServer();
    const [first] = await started(server, 1, { shards: 4 });
    const other = worker(server, { shards: 5 });
    await expect(run(other.balancer.start())).rejects.toMatchObject({ name: "LockModeMismatchError", setting: "shards", expected: "5", found: "4" });
    expect(other.balancer.isRunning).toBe(false);
    await stopAll([first!]);
  });

  it("stops within its drain timeout while the service does not respond, and leaves nothing behind", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1, { drainTimeoutInMs: 2_000 });
    server.intercept = () => hang;
    const stopped = outcomeOf(only!.balancer.stop());
    await pass(2_010);
    expect(stopped.at).toBeDefined();
    server.intercept = undefined;
    await pass(90_000);
    expect([...server.blobs.keys()].filter((name) => server.isLeased(name))).toEqual([]);
  });

  it("stops while it lists, joins or acquires", async () => {
    for (const operation of ["list", "acquire", "metadata", "create"]) {
      const server = new FakeLeaseServer();
      const { balancer, errors } = worker(server);
      await run(balancer.start());
      await run(balancer.stop());
      server.intercept = (seen) => (seen === operation ? hang : undefined);
      await run(balancer.start());
      await pass(500);
      const stopped = outcomeOf(balancer.stop());
      await pass(26_000);
      expect(stopped.at, operation).toBeDefined();
      server.intercept = undefined;
      await pass(60_000);
      expect([...server.blobs.keys()].filter((name) => server.isLeased(name)), operation).toEqual([]);
      expect(errors, operation).toEqual([]);
    }
  });

  it("reports a listing that fails or hangs, keeps its shards, and goes on", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1);
    server.intercept = (operation) => (operation === "list" ? hang : undefined);
    await pass(30_000);
    expect(only!.errors[0]).toMatchObject({ name: "OperationTimeoutError" });
    server.intercept = (operation) => (operation === "list" ? status(403, "AuthorizationFailure") : undefined);
    await pass(60_000);
    expect(only!.errors.at(-1)).toMatchObject({ statusCode: 403 });
    expect(only!.balancer.ownedShards).toEqual([0, 1, 2, 3]);
    server.intercept = undefined;
    await stopAll([only!]);
  });

  it("repeats a listing that the SDK has sent twice: the second one may be from the secondary, and outdated", async () => {
    const server = new FakeLeaseServer();
    const only = worker(server);
    let resends = 3;
    server.intercept = (operation) => (operation === "list" && resends-- > 0 ? after(1, resent(ok)) : undefined);
    await run(only.balancer.start());
    await pass(20_000);
    expect(server.count("list")).toBeGreaterThanOrEqual(4);
    expect(only.balancer.ownedShards).toEqual([0, 1, 2, 3]);
    expect(only.errors).toEqual([]);
    await stopAll([only]);
  });

  it.each<[string, number, WorkBalancerOptions, string]>([
    ["no shards", 0, {}, "RangeError"],
    ["half a shard", 1.5, {}, "RangeError"],
    ["too many shards", 10_001, {}, "RangeError"],
    ["an infinite lease", 4, { durationInSeconds: Infinity }, "RangeError"],
    ["maxShards 0", 4, { maxShards: 0 }, "RangeError"],
    ["a short interval", 4, { rebalanceIntervalInMs: 1 }, "RangeError"],
    ["long data", 4, { data: "x".repeat(1_000) }, "RangeError"],
    ["an unknown option", 4, { cooldownInMs: 1 } as WorkBalancerOptions, "TypeError"],
  ])("is not constructed with %s", (_, shards, options, name) => {
    expect(() => new WorkBalancer(locksOn(new FakeLeaseServer()), "feeds", shards, () => undefined, options)).toThrow(expect.objectContaining({ name }) as Error);
  });
});

describe("inspect", () => {
  it("shows the owner of each shard with the data of the user", async () => {
    const server = new FakeLeaseServer();
    const { balancer } = worker(server, { data: "rack 4. %", maxShards: 3 }, locksOn(server, "host/1"));
    await run(balancer.start());
    const [first, , , last] = await run(balancer.inspect());
    expect(first).toMatchObject({ shard: 0, owner: { name: "feeds/shards/0", holder: "host/1", data: "rack 4. %", state: "leased" } });
    expect(last).toEqual({ shard: 3, owner: undefined });
    await run(balancer.stop());
  });

  it("leaves out locks of others with similar names, and respects a program that holds the lock of a shard", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const held = await Promise.all(["feeds/shards/1", "feeds/shards/01", "feeds/shards/99", "feeds/members/0", "feeds/x"].map((name) => run(locks.acquire(name))));
    const [only] = await started(server, 1);
    expect(only!.balancer.ownedShards).toEqual([0, 2, 3]);
    const owners = await run(only!.balancer.inspect());
    expect(owners.map(({ owner }) => owner !== undefined)).toEqual([true, true, true, true]);
    await run(Promise.all(held.map((lock) => lock.release())));
    await stopAll([only!]);
  });
});

describe("costs", () => {
  it("at rest: a renewal for each shard and one for the worker, and one listing, every third of the lease", async () => {
    const server = new FakeLeaseServer();
    const [only] = await started(server, 1, { shards: 5 });
    server.requests.length = 0;
    await pass(300_000);
    const counts = { renew: server.count("renew"), list: server.count("list"), all: server.count() };
    expect(counts.all).toBe(counts.renew + counts.list);
    // Intervals have a jitter of a few percent.
    expect(counts.renew / 30).toBeCloseTo(6, 0);
    expect(counts.list / 30).toBeCloseTo(1, 0);
    await stopAll([only!]);
  });

  it("at rest: two of three listings have the workers only, and the third one everything", async () => {
    const server = new FakeLeaseServer();
    const workers = await started(server, 2, { shards: 8 });
    server.requests.length = 0;
    await pass(600_000);
    const prefixes = server.requests.filter(({ operation }) => operation === "list").map(({ blob }) => blob);
    const ofWorkers = prefixes.filter((prefix) => prefix === "locks/feeds~2Fmembers~2F");
    const full = prefixes.filter((prefix) => prefix === "locks/feeds~2F");
    expect(ofWorkers.length + full.length).toBe(prefixes.length);
    expect(ofWorkers.length / prefixes.length).toBeCloseTo(2 / 3, 1);
    await stopAll(workers);
  });

  it("a worker that joins: the recorded number of shards, a listing, and its member lock", async () => {
    const server = new FakeLeaseServer();
    const workers = await started(server, 4, { shards: 4 });
    server.requests.length = 0;
    const joining = worker(server, { shards: 4 });
    await run(joining.balancer.start());
    await pass(1_000);
    const operations = server.requests.filter(({ operation }) => operation !== "renew").map(({ operation }) => operation);
    expect(operations.slice(0, 3)).toEqual(["properties", "list", "acquire"]);
    const others = operations.filter((operation) => operation === "list").length - 1;
    const taken = operations.filter((operation) => operation === "acquire").length - 1;
    expect(operations.length - others - taken).toBeLessThanOrEqual(7);
    await stopAll([...workers, joining]);
  });

  it("a shard that moves: 1 request of its last owner, 3 of the next one", async () => {
    const server = new FakeLeaseServer();
    const [first, second] = await started(server, 2, { shards: 2 });
    const [shard] = first!.balancer.ownedShards;
    server.requests.length = 0;
    await run(first!.balancer.stop());
    await pass(15_000);
    expect(second!.balancer.ownedShards).toEqual([0, 1]);
    const moved = server.requests.filter(({ blob, operation }) => blob === shardBlob(shard!) && operation !== "renew").map(({ operation }) => operation);
    expect(moved).toEqual(["release", "acquire", "properties", "metadata"]);
    await stopAll([second!]);
  });
});
