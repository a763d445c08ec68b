import { describe, expect, it } from "vitest";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { withLease } from "../../src/lease/with-lease.js";
import type { AcquireLeaseOptions } from "../../src/lease/lease-options.js";
import type { LeaseHandle } from "../../src/lease/lease-handle.js";
import { hang, ok, reset, status } from "./fakes/answers.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import type { BlobClient } from "./fakes/fake-lease-server.js";
import { abortTime, blockEventLoop, countedAbort, elapsed, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function serverWithBlob(): FakeLeaseServer {
  const server = new FakeLeaseServer();
  server.addBlob();
  return server;
}

async function hold(blob: BlobClient, options?: AcquireLeaseOptions): Promise<LeaseHandle> {
  const promise = acquireLease(blob, options);
  await pass(1);
  return promise;
}

async function finish(...guards: (LeaseHandle | undefined)[]): Promise<void> {
  const releases = Promise.all(guards.map(async (guard) => guard?.release()));
  await pass(5_000);
  await releases;
}

describe("a hundred local waiters", () => {
  it("are served in their order, one at a time, by one acquisition", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const order: number[] = [];
    let inside = 0;
    const all = Array.from({ length: 100 }, (_, i) =>
      withLease(blob, async () => {
        expect(++inside).toBe(1);
        await later(10);
        order.push(i);
        inside--;
      }),
    );
    await pass(1_500);
    await Promise.all(all);
    expect(order).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(server.requests.map((request) => request.operation)).toEqual(["acquire", "release"]);
  });

  it("are one poller while somebody else has it", async () => {
    const server = serverWithBlob();
    const other = await hold(server.blob());
    const blob = server.blob();
    const all = Promise.all(Array.from({ length: 100 }, () => withLease(blob, () => undefined)));
    await pass(1_000);
    expect(server.count("acquire")).toBeLessThan(25);
    await finish(other);
    await all;
    expect(server.count("release")).toBe(2);
  });
});

describe("handing over", () => {
  it("gives each holder a guard of its own for the same lease", async () => {
    const blob = serverWithBlob().blob();
    const first = await hold(blob);
    const second = outcomeOf(acquireLease(blob));
    const firstAborted = abortTime(first.signal);
    await first.release();
    await pass(0);
    expect(second.at).toBe(elapsed());
    expect(second.value!.leaseId).toBe(first.leaseId);
    second.value!.assertHeld();
    expect(() => first.assertHeld()).toThrow("was released");
    expect(first.remainingInMs).toBe(0);
    expect(second.value!.signal).not.toBe(first.signal);
    expect(second.value!.signal.aborted).toBe(false);
    await finish(second.value);
    // At its own release, not at that of the next holder.
    expect(firstAborted.at).toBe(second.at);
    expect((first.signal.reason as Error).name).toBe("AbortError");
  });

  it("tells only the present holder of a loss", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const first = await hold(blob);
    const second = outcomeOf(acquireLease(blob));
    await first.release();
    await pass(0);
    server.intercept = (operation) => (operation === "renew" ? status(409, "LeaseIdMismatchWithLeaseOperation") : undefined);
    await pass(10_000);
    expect(second.value!.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "stolen" });
    expect((first.signal.reason as Error).message).toBe("The lease was released.");
    expect(() => first.assertHeld()).toThrow("was released");
    await first.release();
    await finish(second.value);
  });

  it("ends after about five seconds, and then this process stays away long enough for all others to look", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const holds = Array.from({ length: 8 }, () => withLease(blob, () => later(1_000)));
    await pass(12_000);
    await Promise.all(holds);
    const acquires = server.requests.filter((request) => request.operation === "acquire").map((request) => request.at);
    const releases = server.requests.filter((request) => request.operation === "release").map((request) => request.at);
    expect(acquires).toHaveLength(2);
    expect(releases[0]).toBeGreaterThanOrEqual(5_000);
    expect(releases[0]).toBeLessThan(5_010);
    expect(acquires[1]! - releases[0]!).toBeGreaterThan(1_000);
    expect(acquires[1]! - releases[0]!).toBeLessThan(1_500);
  });

  it("ends after a thousand turns", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const turns = Array.from({ length: 1_500 }, () => withLease(blob, () => undefined));
    await pass(3_000);
    await Promise.all(turns);
    expect(server.count("acquire")).toBe(2);
    expect(server.count("release")).toBe(2);
  });

  it.each<[string, AcquireLeaseOptions]>([
    ["a lease that is not renewed by itself", { autoRenew: false }],
    ["a lease with an id of the caller's", { leaseId: "44444444-4444-4444-4444-444444444444" }],
  ])("is not done with %s, and others still get their turn", async (_, options) => {
    const server = serverWithBlob();
    const blob = server.blob();
    const turns = Promise.all(Array.from({ length: 12 }, () => withLease(blob, () => later(1_000), options)));
    const other = outcomeOf(acquireLease(server.blob()));
    await pass(9_000);
    expect(other.at).toBeDefined();
    await finish(other.value);
    await pass(20_000);
    await turns;
    expect(server.count("release")).toBe(13);
  });

  it("lets another process have its turn while many wait here", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const stop = { now: false };
    const workers = Array.from({ length: 10 }, async () => {
      while (!stop.now) await withLease(blob, () => later(50));
    });
    await pass(500);
    const other = outcomeOf(acquireLease(server.blob()));
    await pass(30_000);
    expect(other.at, "the first time that they stay away").toBeLessThan(7_000);
    stop.now = true;
    await finish(other.value);
    await pass(5_000);
    await Promise.all(workers);
  });

  it("does not happen after a loss: the next one acquires anew", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const first = await hold(blob);
    server.intercept = (operation) => (operation === "renew" ? hang : undefined);
    await pass(20_000);
    const second = outcomeOf(acquireLease(blob));
    await pass(8_600); // the first counts as lost at 28.5 s, and can be acquired at 30 s
    expect(first.signal.aborted).toBe(true);
    expect(second.at).toBeUndefined();
    await pass(3_000);
    expect(second.at).toBeGreaterThanOrEqual(30_000);
    expect(second.value!.leaseId).not.toBe(first.leaseId);
    await first.release(); // late, and without any effect on the second
    second.value!.assertHeld();
    expect(server.isLeased()).toBe(true);
    await finish(second.value);
    expect(server.isLeased()).toBe(false);
  });
});

it("rejects the release of a lease whose loss nobody had noticed yet, although somebody waits for it", async () => {
  const server = serverWithBlob();
  const blob = server.blob();
  const first = await hold(blob);
  const second = outcomeOf(acquireLease(blob));
  blockEventLoop(31_000);
  await expect(first.release()).rejects.toMatchObject({ name: "LeaseLostError", reason: "expired" });
  await pass(2_000);
  second.value!.assertHeld();
  expect(second.value!.leaseId).not.toBe(first.leaseId);
  await finish(second.value);
});

describe("the line", () => {
  it("closes up when somebody in the middle leaves", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const first = await hold(blob);
    const order: string[] = [];
    const caller = countedAbort();
    const queue = (name: string, options?: AcquireLeaseOptions) => outcomeOf(withLease(blob, () => void order.push(name), options));
    queue("a");
    const b = queue("b", { abortSignal: caller.signal });
    queue("c");
    const d = queue("d", { waitInMs: 100 });
    queue("e");
    caller.abort(new Error("enough"));
    await pass(100);
    expect(b.error).toMatchObject({ message: "enough" });
    expect(d.error).toMatchObject({ name: "LeaseUnavailableError" });
    expect(caller.listeners()).toBe(0);
    await finish(first);
    expect(order).toEqual(["a", "c", "e"]);
    expect(server.count()).toBe(2);
  });

  it("is left in time by whoever cannot wait while this process holds the lease", async () => {
    const blob = serverWithBlob().blob();
    const first = await hold(blob);
    const second = outcomeOf(acquireLease(blob, { waitInMs: 0 }));
    await pass(0);
    expect(second.error).toMatchObject({ name: "LeaseUnavailableError" });
    await finish(first);
  });

  it("does not keep a lease that nobody waits for any more", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    server.disturb = (operation) => (operation === "acquire" ? { ...ok, afterInMs: 300 } : undefined);
    const caller = countedAbort();
    const both = [outcomeOf(acquireLease(blob, { abortSignal: caller.signal })), outcomeOf(acquireLease(blob, { abortSignal: caller.signal }))];
    await pass(100);
    expect(server.isLeased()).toBe(true);
    caller.abort();
    await pass(300);
    expect(both.every((outcome) => outcome.error !== undefined)).toBe(true);
    expect(server.isLeased()).toBe(false);
  });

  it("serves who comes while an abandoned lease is being given back", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    server.disturb = () => ({ ...ok, afterInMs: 300 });
    const caller = countedAbort();
    const gone = outcomeOf(acquireLease(blob, { abortSignal: caller.signal }));
    await pass(100);
    caller.abort(new Error("enough"));
    await pass(0);
    const next = outcomeOf(acquireLease(blob, { waitInMs: 0 }));
    await pass(700);
    expect(gone.error).toMatchObject({ message: "enough" });
    expect(next.error).toBeUndefined();
    next.value!.assertHeld();
    await finish(next.value);
    expect(server.isLeased()).toBe(false);
  });

  it("is told of a failure that will not pass, all of it", async () => {
    const server = serverWithBlob();
    server.intercept = () => status(403);
    const blob = server.blob();
    const all = await Promise.allSettled(Array.from({ length: 5 }, () => acquireLease(blob)));
    expect(all.every((outcome) => outcome.status === "rejected")).toBe(true);
    expect(server.count()).toBe(1);
  });

  it("goes on after the release failed, when it is repeated in the background", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const first = await hold(blob, { autoRenew: false });
    const second = outcomeOf(acquireLease(blob, { autoRenew: false }));
    server.intercept = (operation) => (operation === "release" ? reset : undefined);
    await expect(first.release()).rejects.toThrow("ECONNRESET");
    server.intercept = undefined;
    await pass(3_000);
    expect(second.at).toBeLessThan(3_000);
    await finish(second.value);
    await pass(30_000);
  });
});

describe("two lines for one blob", () => {
  it("exclude each other if their terms differ", async () => {
    const server = serverWithBlob();
    const blob = server.blob();
    const short = await hold(blob, { durationInSeconds: 15 });
    await expect(Promise.race([tryAcquireLease(blob, { durationInSeconds: 60 }), pass(1).then(() => "slow")])).resolves.toBeUndefined();
    const long = outcomeOf(acquireLease(blob, { durationInSeconds: 60 }));
    await pass(1_000);
    expect(long.at).toBeUndefined();
    await finish(short);
    expect(long.value!.leaseId).not.toBe(short.leaseId);
    expect(long.value!.remainingInMs).toBeGreaterThan(50_000);
    await finish(long.value);
  });

  it("exclude each other if their rights differ, and share nothing", async () => {
    const server = serverWithBlob();
    const mine = await hold(server.blob());
    const theirs = outcomeOf(acquireLease(server.blob()));
    await pass(1_000);
    expect(theirs.at).toBeUndefined();
    await finish(mine);
    expect(theirs.value!.leaseId).not.toBe(mine.leaseId);
    await finish(theirs.value);
  });
});
