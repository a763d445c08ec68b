import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { acquireLease } from "../../src/lease/with-lease.js";
import type { LeaseHandle } from "../../src/lease/lease-handle.js";
import { after, hang, ok, reset, resent, status } from "./fakes/answers.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { abortTime, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

function serverWithBlob(): FakeLeaseServer {
  const server = new FakeLeaseServer();
  server.addBlob();
  return server;
}

async function done<R>(promise: Promise<R>, ms = 20): Promise<R> {
  promise.catch(() => undefined);
  await pass(ms);
  return promise;
}

/** The SDK has sent the request twice: the first send is still on its way when the second one has been carried out. */
async function acquiredByResend(server: FakeLeaseServer, options: Parameters<typeof acquireLease>[1]): Promise<LeaseHandle> {
  server.disturb = (operation) => (operation === "acquire" ? resent(after(1, ok)) : undefined);
  const lease = await done(acquireLease(server.blob(), options));
  server.disturb = undefined;
  return lease;
}

async function arrives(server: FakeLeaseServer, lease: LeaseHandle, duration: number): Promise<void> {
  await done(server.blob().getBlobLeaseClient(lease.leaseId).acquireLease(duration), 1);
}

describe("the first send of an acquire that arrives after the release", () => {
  it.each([
    ["an infinite lease", Infinity, -1],
    ["a lease that expires", 60, 60],
  ])("does not leave %s behind", async (_, durationInSeconds, duration) => {
    const server = serverWithBlob();
    const lease = await acquiredByResend(server, { durationInSeconds });
    const id = lease.leaseId;
    await done(lease.release());
    await arrives(server, lease, duration);
    expect(server.isLeased()).toBe(true);
    await pass(1_000);
    expect(server.isLeased()).toBe(false);
    await arrives(server, lease, duration);
    await pass(4_000);
    expect(server.isLeased()).toBe(false);
    expect(server.requests.filter(({ operation }) => operation === "release").every(({ leaseId }) => leaseId === id)).toBe(true);
  });

  it("does not leave a lease behind on a blob that had to be created in between", async () => {
    const server = new FakeLeaseServer();
    // Both sends find no blob as far as the caller knows: the first one arrives later.
    server.disturb = (operation) => (operation === "acquire" && server.count("acquire") === 1 ? resent(after(1, ok)) : undefined);
    const lease = await done(acquireLease(server.blob(), { durationInSeconds: Infinity, createIfNotExists: true }));
    await done(lease.release());
    await arrives(server, lease, -1);
    expect(server.isLeased()).toBe(true);
    await pass(1_000);
    expect(server.isLeased()).toBe(false);
    await pass(4_000);
  });

  it("does not leave the lease of a crash guard behind, and does not keep the next holder waiting", async () => {
    const server = serverWithBlob();
    const crashGuard = new BlobLocks(server.container());
    const blob = server.blob();
    const options = { durationInSeconds: Infinity, crashGuard };
    server.disturb = (operation, name) => (operation === "acquire" && name === "blob" ? resent(after(1, ok)) : undefined);
    const lease = await done(acquireLease(blob, options));
    server.disturb = undefined;
    await done(lease.release());
    await arrives(server, lease, -1);
    expect(server.isLeased()).toBe(true);
    const next = await done(acquireLease(blob, { ...options, waitInMs: 100 }), 200);
    await done(next.release());
    await arrives(server, lease, -1);
    await pass(4_000);
    expect(server.isLeased()).toBe(false);
  });

  it("is not expected of a crash guard after a single send, although the take-over of a lease takes several requests", async () => {
    const server = serverWithBlob();
    const crashGuard = new BlobLocks(server.container());
    const lease = await done(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard }));
    await done(lease.release());
    await pass(10_000);
    expect(server.count("release", "blob")).toBe(1);
    const foreign = crypto.randomUUID();
    await done(server.blob().getBlobLeaseClient(foreign).acquireLease(-1), 1);
    await done(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard, waitInMs: 500 }).catch(() => undefined), 1_000);
    await pass(10_000);
    expect(server.count("release", "blob")).toBe(1);
  });

  it("does not take the lease away that another client has acquired since", async () => {
    const server = serverWithBlob();
    const lease = await acquiredByResend(server, { durationInSeconds: Infinity });
    await done(lease.release());
    const other = await done(acquireLease(server.blob(), { durationInSeconds: Infinity }));
    await pass(5_000);
    await done(other.renew());
    await done(other.release());
  });

  it("is not expected after a single send, nor after some seconds, nor with an id that the caller chose", async () => {
    const server = serverWithBlob();
    await done((await done(acquireLease(server.blob()))).release());
    const long = await acquiredByResend(server, {});
    await pass(4_100);
    await done(long.release());
    await done((await acquiredByResend(server, { leaseId: crypto.randomUUID() })).release());
    await pass(10_000);
    expect(server.count("release")).toBe(3);
  });

  it("also counts if an earlier attempt got no response", async () => {
    const server = serverWithBlob();
    server.intercept = (operation) => (operation === "acquire" && server.count("acquire") === 1 ? hang : undefined);
    const acquiring = outcomeOf(acquireLease(server.blob(), { durationInSeconds: 15 }));
    while (!acquiring.value) await pass(100);
    const lease = acquiring.value;
    await done(lease.release());
    await arrives(server, lease, 15);
    await pass(1_000);
    expect(server.isLeased()).toBe(false);
    await pass(4_000);
  });
});

describe("an acquire that arrives after its caller has left, and after the release that was to undo it", () => {
  it.each([
    ["an infinite lease", Infinity, -1],
    ["a lease that expires", 60, 60],
  ])("does not leave %s behind", async (_, durationInSeconds, duration) => {
    const server = serverWithBlob();
    const caller = new AbortController();
    server.intercept = (operation) => (operation === "acquire" ? hang : undefined);
    const acquiring = outcomeOf(acquireLease(server.blob(), { durationInSeconds, abortSignal: caller.signal }));
    await pass(100);
    caller.abort();
    await pass(100);
    expect(acquiring.error).toMatchObject({ name: "AbortError" });
    expect(server.count("release")).toBe(1);
    server.intercept = undefined;
    const leaseId = server.requests.find(({ operation }) => operation === "acquire")?.leaseId;
    await done(server.blob().getBlobLeaseClient(leaseId).acquireLease(duration), 1);
    expect(server.isLeased()).toBe(true);
    await pass(1_000);
    expect(server.isLeased()).toBe(false);
    await pass(4_000);
    expect(server.count("release")).toBe(3);
  });

  it("does not leave a lease behind if one send had arrived, and the SDK had sent another one", async () => {
    const server = serverWithBlob();
    const caller = new AbortController();
    server.disturb = (operation) => (operation === "acquire" ? resent(hang) : undefined);
    const acquiring = outcomeOf(acquireLease(server.blob(), { durationInSeconds: 60, abortSignal: caller.signal }));
    await pass(100);
    expect(server.isLeased()).toBe(true);
    caller.abort();
    await pass(100);
    expect(acquiring.error).toMatchObject({ name: "AbortError" });
    expect(server.isLeased()).toBe(false);
    server.disturb = undefined;
    const leaseId = server.requests.find(({ operation }) => operation === "acquire")?.leaseId;
    await done(server.blob().getBlobLeaseClient(leaseId).acquireLease(60), 1);
    await pass(1_000);
    expect(server.isLeased()).toBe(false);
    await pass(4_000);
  });

  it("does not leave a lease that expires behind if the release that is to undo it gets no response, either", async () => {
    const server = serverWithBlob();
    const caller = new AbortController();
    server.disturb = (operation) => (operation === "acquire" ? hang : undefined);
    server.intercept = (operation) => (operation === "release" ? status(503) : undefined);
    const acquiring = outcomeOf(acquireLease(server.blob(), { durationInSeconds: 60, abortSignal: caller.signal }));
    await pass(100);
    caller.abort();
    await pass(500);
    expect(acquiring.error).toMatchObject({ name: "AbortError" });
    server.intercept = undefined;
    server.disturb = undefined;
    expect(server.isLeased()).toBe(true);
    await pass(1_000);
    expect(server.isLeased()).toBe(false);
    await pass(60_000);
    expect(server.count("release")).toBe(3);
  });

  it("is not expected with an id that the caller chose, nor if no request was in flight", async () => {
    const server = serverWithBlob();
    const other = await done(acquireLease(server.blob(), { durationInSeconds: Infinity }));
    await done(acquireLease(server.blob(), { waitInMs: 500 }).catch(() => undefined), 1_000);
    server.intercept = (operation) => (operation === "acquire" ? hang : undefined);
    await done(acquireLease(server.blob(), { leaseId: crypto.randomUUID(), abortSignal: AbortSignal.abort() }).catch(() => undefined));
    await pass(10_000);
    expect(server.count("release")).toBe(0);
    await done(other.release());
  });
});

describe("a lease that is lost because responses are lost", () => {
  it("is released for others, but not before the safety margin is over", async () => {
    const server = serverWithBlob();
    const lease = await done(acquireLease(server.blob(), { durationInSeconds: 60 }));
    const aborted = abortTime(lease.signal);
    // Each renewal is carried out: only its response gets lost.
    server.disturb = (operation) => (operation === "renew" ? hang : undefined);
    await pass(57_100);
    expect(aborted.at).toBe(57_000);
    expect(lease.signal.reason).toMatchObject({ reason: "unreachable" });
    await pass(2_800);
    expect(server.isLeased()).toBe(true);
    expect(server.count("release")).toBe(0);
    await pass(200);
    expect(server.isLeased()).toBe(false);
    await pass(20_000);
    expect(server.count("release")).toBe(1);
  });

  it("is released at once when its holder has ended", async () => {
    const server = serverWithBlob();
    const lease = await done(acquireLease(server.blob(), { durationInSeconds: 60 }));
    server.disturb = (operation) => (operation === "renew" ? hang : undefined);
    await pass(57_100);
    await done(lease.release());
    expect(server.isLeased()).toBe(false);
    await pass(10_000);
    expect(server.count("release")).toBe(1);
  });

  it("is released when the service can be reached again, if it has not expired by then", async () => {
    const server = serverWithBlob();
    await done(acquireLease(server.blob(), { durationInSeconds: 60 }));
    server.disturb = (operation) => (operation === "renew" ? hang : undefined);
    await pass(57_100);
    server.intercept = () => hang;
    await pass(10_000);
    server.intercept = undefined;
    await pass(7_000);
    expect(server.isLeased()).toBe(false);
    await pass(60_000);
  });

  it("is not released if the caller chose its id: the caller may have acquired it again", async () => {
    const server = serverWithBlob();
    const leaseId = crypto.randomUUID();
    const lease = await done(acquireLease(server.blob(), { durationInSeconds: 15, leaseId }));
    server.disturb = (operation) => (operation === "renew" ? hang : undefined);
    await pass(15_000);
    await done(lease.release());
    expect(server.count("release")).toBe(0);
  });
});

describe("an infinite lease with a crash guard that is being broken", () => {
  it("is waited for until the notice period is over", async () => {
    const server = serverWithBlob();
    const other = server.blob().getBlobLeaseClient(crypto.randomUUID());
    await done(other.acquireLease(-1));
    await done(other.breakLease(5));
    const locks = new BlobLocks(server.container());
    const acquiring = outcomeOf(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard: locks }));
    await pass(4_000);
    expect(acquiring.error).toBeUndefined();
    await pass(3_000);
    expect(acquiring.value).toBeDefined();
    await done(acquiring.value!.release(), 100);
    await pass(2_000);
  });

  it("is waited for, too, if a predecessor of its lock has it", async () => {
    const server = serverWithBlob();
    const dead = new BlobLocks(server.container(), { holder: "dead" });
    await done(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard: dead }), 100);
    server.intercept = () => hang;
    await pass(35_000);
    server.intercept = undefined;
    await done(server.blob().getBlobLeaseClient().breakLease(20));
    const acquiring = outcomeOf(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard: new BlobLocks(server.container()) }));
    await pass(10_000);
    expect(acquiring.error).toBeUndefined();
    await pass(15_000);
    expect(acquiring.value).toBeDefined();
    await done(acquiring.value!.release(), 100);
    await pass(60_000);
  });
});

describe("a release that fails for a moment", () => {
  it.each([
    ["the service is busy", status(503, "ServerBusy")],
    ["the credentials have just expired", status(403, "AuthenticationFailed")],
    ["the connection breaks before the request has arrived", reset],
  ])("does not keep other clients waiting until the lease has expired: %s", async (_, answer) => {
    const server = serverWithBlob();
    const lease = await done(acquireLease(server.blob(), { durationInSeconds: 60 }));
    server.intercept = (operation) => (operation === "release" && server.count("release") === 1 ? answer : undefined);
    const released = outcomeOf(lease.release());
    const next = outcomeOf(acquireLease(server.blob()));
    await pass(3_000);
    expect(released.error).toBeDefined();
    expect(next.value).toBeDefined();
    await done(next.value!.release());
    await pass(60_000);
    expect(server.count("release")).toBe(3);
  });

  it("does not release a lease whose id the caller has chosen, and may use again", async () => {
    const server = serverWithBlob();
    const leaseId = crypto.randomUUID();
    const lease = await done(acquireLease(server.blob(), { durationInSeconds: 60, leaseId }));
    server.intercept = (operation) => (operation === "release" && server.count("release") === 1 ? status(503, "ServerBusy") : undefined);
    await expect(done(lease.release())).rejects.toMatchObject({ statusCode: 503 });
    await pass(30_000);
    expect(server.isLeased()).toBe(true);
    await done(lease.release());
    expect(server.isLeased()).toBe(false);
  });
});
