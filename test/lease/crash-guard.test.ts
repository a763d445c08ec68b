import { afterEach, describe, expect, it } from "vitest";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { crashGuardName, guardedLeaseId } from "../../src/lease/crash-guard.js";
import { leaseAdapterOf } from "../../src/lease/lease-adapters.js";
import type { LeaseHandle } from "../../src/lease/lease-handle.js";
import { checkLeaseId } from "../../src/lease/lease-adapters.js";
import type { AcquireLeaseOptions, LockProviderLike } from "../../src/lease/lease-options.js";
import { withLease } from "../../src/lease/with-lease.js";
import { locksOn, run } from "../lock/support.js";
import { hang, reset, status } from "./fakes/answers.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { ScriptedFile } from "./fakes/scripted-file.js";
import { abortTime, countedAbort, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();
// A guard that is not used again tells the record that its lease is released.
afterEach(() => pass(2_100));

/** The blob of the lock that guards "blob". */
const lockBlob = "locks/blob~3Aaccount~2Etest~2Fcontainer~2Fblob";

/** A process of its own: what it acquires, and with what. */
function party(server: FakeLeaseServer): { acquire: (options?: AcquireLeaseOptions) => Promise<LeaseHandle>; options: AcquireLeaseOptions } {
  const blob = server.blob();
  const options = { durationInSeconds: Infinity, crashGuard: locksOn(server) };
  return { acquire: (more) => acquireLease(blob, { ...options, ...more }), options };
}

function newServer(): FakeLeaseServer {
  const server = new FakeLeaseServer();
  server.addBlob();
  return server;
}

/** What was done to what, without the renewals. */
function stepsOf(server: FakeLeaseServer): string[] {
  return server.requests.map(({ operation, blob }) => `${operation} ${blob === "blob" ? "it" : "lock"}`).filter((step) => !step.startsWith("renew"));
}

describe("a lease with a crash guard", () => {
  it("is taken after the lock and released before it", async () => {
    const server = newServer();
    const { acquire } = party(server);
    await run((await run(acquire())).release());
    server.requests.length = 0;
    await pass(1_000);
    await run((await run(acquire())).release());
    expect(stepsOf(server)).toEqual(["acquire lock", "metadata lock", "acquire it", "release it", "release lock"]);
  });

  it("is lost with the lock, at its deadline, when the service cannot be reached", async () => {
    const server = newServer();
    const guard = await run(party(server).acquire());
    const aborted = abortTime(guard.signal);
    server.intercept = () => hang;
    await pass(40_000);
    expect(aborted.at).toBeLessThanOrEqual(28_503);
    expect(guard.signal.reason).toMatchObject({ name: "LeaseLostError", url: "https://account.test/container/blob", reason: "unreachable", message: expect.stringContaining("its crash-guard lock was lost, so another process may take over.") as string });
    expect(() => guard.assertHeld()).toThrow("crash-guard lock");
    expect(guard.remainingInMs).toBe(0);
    server.intercept = undefined;
    await run(guard.release());
    // What is left of it is given back all the same.
    expect(server.isLeased()).toBe(false);
    await pass(30_000);
  });

  it("is lost when it is broken itself, and the lock is given back", async () => {
    const server = newServer();
    const guard = await run(party(server).acquire({ renewIntervalInMs: 1_000 }));
    server.blobs.get("blob")!.lease = undefined;
    await pass(1_100);
    expect(guard.signal.reason).toMatchObject({ reason: "stolen" });
    await run(guard.release());
    expect(server.isLeased(lockBlob)).toBe(false);
  });

  it("is taken over from a dead holder once its lock has run out, and from nobody else", async () => {
    const server = newServer();
    const dead = await run(party(server).acquire());
    const before = dead.leaseId;
    // Dead to the service: nothing of it arrives any more.
    const lock = server.blobs.get(lockBlob)!;
    lock.lease!.id = "gone";
    const next = outcomeOf(party(server).acquire());
    await pass(29_000);
    expect(next.value).toBeUndefined();
    await pass(3_000);
    expect(next.value!.leaseId).not.toBe(before);
    expect(server.blobs.get("blob")!.lease!.id).toBe(next.value!.leaseId);
    expect(server.count("break")).toBe(0);
    await run(next.value!.release());
    await run(dead.release().catch(() => undefined));
  });

  it("is taken over by its own process if it could not be released when its lock was lost", async () => {
    const server = newServer();
    const { acquire } = party(server);
    const lost = await run(acquire());
    server.blobs.get(lockBlob)!.lease!.id = "gone";
    await pass(31_000);
    expect(lost.signal.aborted).toBe(true);
    // The credentials have expired: that does not say that there is no lease.
    server.intercept = (_, blob) => (blob === "blob" ? status(403, "AuthenticationFailed") : undefined);
    await run(lost.release());
    server.intercept = undefined;
    expect(server.isLeased()).toBe(true);
    const next = await run(acquire({ waitInMs: 1_000 }), 2_000);
    expect(server.blobs.get("blob")!.lease!.id).toBe(next.leaseId);
    await run(next.release());
    expect(server.isLeased()).toBe(false);
  });

  it.each([17, 40])("is taken over from a dead holder although %s callers failed after it, each of which used up a number", async (failures) => {
    const server = newServer();
    const dead = await run(party(server).acquire());
    server.blobs.get(lockBlob)!.lease!.id = "gone";
    await pass(31_000);
    server.intercept = (_, blob) => (blob === "blob" ? status(403, "AuthorizationFailure") : undefined);
    const refused = party(server);
    for (let i = 0; i < failures; i++) await expect(run(refused.acquire(), 30)).rejects.toMatchObject({ statusCode: 403 });
    server.intercept = undefined;
    server.requests.length = 0;
    const next = await run(party(server).acquire(), 1_000);
    expect(server.count("change")).toBe(failures + 1);
    expect(server.blobs.get("blob")!.lease!.id).toBe(next.leaseId);
    await run(next.release());
    await run(dead.release().catch(() => undefined));
  });

  it.each([60, 1_000])("is taken over from a process that dies in the middle of %s callers, and costs the successor few requests", async (callers) => {
    const server = newServer();
    const busy = party(server);
    const crash = Array.from({ length: callers }, () => new AbortController());
    const line = crash.map(({ signal }) => outcomeOf(busy.acquire({ abortSignal: signal })));
    for (const turn of line.slice(0, 7)) {
      await pass(50);
      await run(turn.value!.release());
    }
    // It dies in the eighth turn, and with it all who wait.
    await pass(50);
    expect(line[7]!.value).toBeDefined();
    for (const controller of crash) controller.abort();
    server.blobs.get(lockBlob)!.lease!.id = "gone";
    const next = outcomeOf(party(server).acquire());
    await pass(35_000);
    expect(next.value).toBeDefined();
    expect(server.count("change")).toBeLessThanOrEqual(3);
    expect(server.blobs.get("blob")!.lease!.id).toBe(next.value!.leaseId);
    await run(next.value!.release());
    await run(line[7]!.value!.release().catch(() => undefined));
  });

  it("is taken over by the first of many who wait in several processes, and by each of the others in turn", async () => {
    const server = newServer();
    const dead = await run(party(server).acquire());
    server.blobs.get(lockBlob)!.lease!.id = "gone";
    const processes = Array.from({ length: 5 }, () => party(server));
    let turns = 0;
    const all = processes.flatMap(({ acquire }) => Array.from({ length: 20 }, async () => {
      const lease = await acquire();
      turns++;
      await lease.release();
    }));
    await pass(29_000);
    expect(turns).toBe(0);
    await run(Promise.all(all), 60_000);
    expect(turns).toBe(100);
    expect(server.count("break")).toBe(0);
    // The dead holder's lease is found once, and then there is none any more to look for.
    expect(server.count("change")).toBeLessThanOrEqual(2);
    await run(dead.release().catch(() => undefined));
  });

  it("is looked for from the mark in the record on, which is raised only when nobody before it can have the lease", async () => {
    const server = newServer();
    const mark = (): number => Number(server.blobs.get(lockBlob)!.metadata["asc_guarding"]);
    const epoch = (): number => Number(server.blobs.get(lockBlob)!.metadata["asc_epoch"]);
    const first = await run(party(server).acquire());
    const start = epoch();
    expect(mark()).toBe(start);
    server.blobs.get(lockBlob)!.lease!.id = "gone";
    await pass(31_000);
    const here = party(server);
    // Neither a caller that failed, nor one that waited in vain, has found out what became of the lease.
    server.intercept = (_, blob) => (blob === "blob" ? status(403, "AuthorizationFailure") : undefined);
    for (let i = 0; i < 3; i++) await run(here.acquire().catch(() => undefined));
    expect([mark(), epoch()]).toEqual([start, start + 3]);
    server.intercept = undefined;
    // Two that have it release it again: the record that the third writes says so.
    for (let i = 0; i < 3; i++) await run((await run(here.acquire())).release());
    expect([mark(), epoch()]).toEqual([start + 6, start + 6]);
    await run(first.release().catch(() => undefined));
  });

  describe("the mark that says that no holder has left it behind", () => {
    const record = (server: FakeLeaseServer): { mark: number; epoch: number } => {
      const { asc_guarding: mark, asc_epoch: epoch } = server.blobs.get(lockBlob)!.metadata;
      return { mark: Number(mark), epoch: Number(epoch) };
    };

    it("is written when the guard is not used any more, and costs a loop nothing", async () => {
      const server = newServer();
      const { acquire } = party(server);
      for (let i = 0; i < 4; i++) await run((await run(acquire())).release());
      const { mark, epoch } = record(server);
      expect(mark).toBe(epoch);
      const requests = server.count();
      await pass(10_000);
      expect(record(server)).toEqual({ mark: epoch + 1, epoch });
      expect(server.count()).toBe(requests + 1);
      await run((await run(acquire())).release());
      expect(record(server)).toEqual({ mark: epoch + 1, epoch: epoch + 1 });
    });

    it("is not written while the lease is held, nor if it may not be released", async () => {
      const server = newServer();
      const held = await run(party(server).acquire());
      await pass(10_000);
      server.intercept = (operation, blob) => (operation === "release" && blob === "blob" ? status(503) : undefined);
      await expect(run(held.release())).rejects.toMatchObject({ name: "LeaseReleaseError" });
      await pass(10_000);
      const { mark, epoch } = record(server);
      expect(mark).toBe(epoch);
      server.intercept = undefined;
      await pass(60_000);
    });

    it.each([0, 1_999, 2_000, 2_001, 2_002])("is no obstacle to another process that takes the guard %s ms later, and takes nothing from it", async (ms) => {
      const server = newServer();
      await run((await run(party(server).acquire())).release());
      const { epoch } = record(server);
      await pass(Math.max(0, ms - 20));
      const next = await run(party(server).acquire());
      await pass(5_000);
      next.assertHeld();
      const after = record(server);
      expect(after.epoch).toBeGreaterThan(epoch);
      expect(after.mark).toBeLessThanOrEqual(after.epoch);
      await run(next.release());
    });
  });

  it("has an id of its own under each number, and under each lock", () => {
    const ids = ["https://a.test/x", "https://a.test/y", "https://a.test/x#"].flatMap((url) => [1, 2, 300].map((epoch) => guardedLeaseId({ url }, epoch)));
    expect(new Set(ids).size).toBe(9);
    for (const id of ids) expect(() => checkLeaseId("id", id)).not.toThrow();
  });

  it("is not taken from one who does not use the guard: looked for once, then waited for", async () => {
    const server = newServer();
    const stranger = await run(acquireLease(server.blob(), { durationInSeconds: Infinity }));
    for (let i = 0; i < 3; i++) await run(party(server).acquire({ waitInMs: 0 }).catch(() => undefined), 100);
    server.requests.length = 0;
    const outcome = outcomeOf(party(server).acquire({ waitInMs: 5_000 }));
    await pass(6_000);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", message: expect.stringContaining("not acquired with this crashGuard") as string });
    expect(server.count("change")).toBe(3);
    expect(server.isLeased(lockBlob)).toBe(false);
    stranger.assertHeld();
    await run(stranger.release());
  });

  it("survives that the answer to the take-over is lost", async () => {
    const server = newServer();
    const dead = await run(party(server).acquire());
    server.blobs.get(lockBlob)!.lease!.id = "gone";
    let lose = true;
    server.disturb = (operation) => (operation === "change" && lose ? ((lose = false), reset) : undefined);
    const next = outcomeOf(party(server).acquire());
    await pass(35_000);
    expect(next.error).toBeUndefined();
    next.value!.assertHeld();
    await run(next.value!.release());
    await run(dead.release().catch(() => undefined));
  });

  it("is given up, and the lock given back, when the caller aborts or the lock is lost meanwhile", async () => {
    const server = newServer();
    const stranger = await run(acquireLease(server.blob(), { durationInSeconds: Infinity }));
    const caller = countedAbort();
    const outcome = outcomeOf(party(server).acquire({ abortSignal: caller.signal }));
    await pass(1_000);
    caller.abort();
    await pass(20);
    expect(outcome.error).toBe(caller.signal.reason);
    expect(caller.listeners()).toBe(0);
    expect(server.isLeased(lockBlob)).toBe(false);
    const other = outcomeOf(party(server).acquire());
    await pass(1_000);
    server.blobs.get(lockBlob)!.lease!.id = "gone";
    await pass(12_000);
    expect(other.error).toMatchObject({ name: "LeaseLostError" });
    await run(stranger.release());
  });

  it("is null if somebody has the lock, or the lease", async () => {
    const server = newServer();
    const first = await run(party(server).acquire());
    expect(await run(tryAcquireLease(server.blob(), party(server).options))).toBeUndefined();
    await run(first.release());
    const stranger = await run(acquireLease(server.blob(), { durationInSeconds: Infinity }));
    expect(await run(tryAcquireLease(server.blob(), party(server).options))).toBeUndefined();
    expect(server.isLeased(lockBlob)).toBe(false);
    await run(stranger.release());
    const guard = await run(tryAcquireLease(server.blob(), party(server).options));
    await run(guard!.release());
  });

  it("keeps its id, by which its successor knows it", async () => {
    const server = newServer();
    const guard = await run(party(server).acquire());
    await expect(guard.change()).rejects.toThrow(TypeError);
    await run(guard.release());
  });

  it("that cannot be released is left to the next one, and the lock is given back", async () => {
    const server = newServer();
    server.intercept = (operation, blob) => (operation === "release" && blob === "blob" ? status(503) : undefined);
    const { options } = party(server);
    await expect(run(withLease(server.blob(), () => "done", options), 100)).resolves.toBe("done");
    const next = await run(party(server).acquire(), 100);
    server.intercept = undefined;
    await run(next.release(), 10_000);
  });
});

describe("a lock provider of another library that ignores its signal", () => {
  it("does not keep a caller that is cancelled waiting, and what it acquires later is released", async () => {
    const server = newServer();
    let acquired!: (lock: Awaited<ReturnType<LockProviderLike["acquire"]>>) => void;
    const released: string[] = [];
    const crashGuard: LockProviderLike = {
      acquire: () => new Promise((resolve) => (acquired = resolve)),
      tryAcquire: () => Promise.resolve(undefined),
    };
    const controller = new AbortController();
    const waiting = outcomeOf(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard, abortSignal: controller.signal }));
    await pass(10);
    controller.abort(new Error("enough"));
    await pass(10);
    expect(waiting.error).toMatchObject({ message: "enough" });
    acquired({
      signal: new AbortController().signal,
      epoch: 1,
      assertHeld: () => undefined,
      release: () => Promise.resolve(released.push("released")).then(() => undefined),
    });
    await pass(10);
    expect(released).toEqual(["released"]);
    expect(server.isLeased()).toBe(false);
  });
});

describe("misuse of crashGuard", () => {
  it.each<[string, AcquireLeaseOptions]>([
    ["no locks", { crashGuard: {} as LockProviderLike }],
    ["an id of one's own", { leaseId: crypto.randomUUID() }],
    ["a lease that expires", { durationInSeconds: 30 }],
  ])("is found out before anything is sent: %s", async (_, options) => {
    const server = newServer();
    const given = { ...party(server).options, ...options };
    await expect(acquireLease(server.blob(), given)).rejects.toThrow(TypeError);
    await expect(tryAcquireLease(server.blob(), given)).rejects.toThrow(TypeError);
    expect(server.requests).toEqual([]);
  });
});

describe("the name of the lock", () => {
  const nameFor = (url: string): Promise<string> => crashGuardName({ ...leaseAdapterOf(new ScriptedFile()), url });

  it("is readable, and the same however the file is written", async () => {
    expect(await crashGuardName(leaseAdapterOf(new ScriptedFile()))).toBe("file:account.test/share/some dir/f.json");
    expect(await nameFor("http://a.test/s/A%20b.txt")).toBe(await nameFor("https://a.test/s/a b.TXT"));
    expect(await nameFor("https://a.test/s/100%")).toBe("file:a.test/s/100%");
  });

  it("fits into that of a blob however long the path is, and differs where the path does", async () => {
    const long = `https://a.test/s/${"ä".repeat(2_000)}`;
    const [one, other] = [await nameFor(`${long}1`), await nameFor(`${long}2`)];
    expect(one).not.toBe(other);
    expect(one).toMatch(/^file:a\.test\/s\/ä+\.\.\.#[0-9a-f]{64}$/);
    expect(() => locksOn(new FakeLeaseServer()).blobOf(one)).not.toThrow();
  });

  it("of a blob tells upper from lower case", async () => {
    expect(await crashGuardName({ ...leaseAdapterOf(new FakeLeaseServer().blob()), url: "https://a.test/c/B" })).toBe("blob:a.test/c/B");
  });
});
