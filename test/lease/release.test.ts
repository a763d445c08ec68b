import { describe, expect, it } from "vitest";
import { isConcurrencyError } from "../../src/errors.js";
import { tryAcquireLease } from "../../src/lease/with-lease.js";
import { after, deafHang, hang, ok, reset, resent, status } from "./fakes/answers.js";
import type { Answer } from "./fakes/answers.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { abortTime, blockEventLoop, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const mismatch = status(409, "LeaseIdMismatchWithLeaseOperation");

describe.each<{ answer: string; given: Answer; rejects: object | undefined; at: number }>([
  { answer: "200", given: ok, rejects: undefined, at: 0 },
  { answer: "404", given: status(404, "BlobNotFound"), rejects: undefined, at: 0 },
  { answer: "409 after it was sent again", given: resent(mismatch), rejects: undefined, at: 0 },
  { answer: "412 after it was sent again", given: resent(status(412, "LeaseLost")), rejects: undefined, at: 0 },
  { answer: "409, sent once", given: mismatch, rejects: { name: "LeaseLostError", reason: "stolen" }, at: 0 },
  { answer: "409 not present, sent once", given: status(409, "LeaseNotPresentWithLeaseOperation"), rejects: { reason: "broken" }, at: 0 },
  { answer: "500", given: status(500), rejects: { statusCode: 500 }, at: 0 },
  { answer: "403", given: status(403), rejects: { statusCode: 403 }, at: 0 },
  { answer: "a reset connection", given: reset, rejects: { message: "ECONNRESET" }, at: 0 },
  { answer: "nothing", given: hang, rejects: { name: "OperationTimeoutError", committed: "unknown" }, at: 5_000 },
  { answer: "nothing, not even to its abort", given: deafHang, rejects: { name: "OperationTimeoutError", committed: "unknown" }, at: 5_000 },
])("a release that is answered by $answer", ({ given, rejects, at }) => {
  it(rejects ? "rejects" : "is done", async () => {
    const blob = new ScriptedLeasable({ release: given });
    const guard = (await tryAcquireLease(blob))!;
    const aborted = abortTime(guard.signal);
    const release = outcomeOf(guard.release());
    await pass(60_000);
    expect(release.at).toBe(at);
    if (rejects) expect(release.error).toMatchObject(rejects);
    else expect(release.error).toBeUndefined();
    expect(aborted.at).toBe(0);
    expect((guard.signal.reason as Error).name).toBe("AbortError");
    expect(blob.times("renew")).toEqual([]);
  });

  it("is never rejected to `await using`", async () => {
    const blob = new ScriptedLeasable({ release: given });
    const guard = (await tryAcquireLease(blob))!;
    const disposed = outcomeOf(Promise.resolve(guard[Symbol.asyncDispose]()).then(() => "disposed"));
    await pass(5_000);
    expect(disposed).toEqual({ value: "disposed", at });
    // What failed is released in the background until the lease has expired.
    await pass(60_000);
  });
});

it("is one request however often it is called", async () => {
  const blob = new ScriptedLeasable({ release: after(100, ok) });
  const guard = (await tryAcquireLease(blob))!;
  const releases = Promise.all([guard.release(), guard.release(), guard[Symbol.asyncDispose]()]);
  await pass(100);
  await releases;
  await guard.release();
  expect(blob.times("release")).toEqual([0]);
});

it("waits for the renewal that is under way, and starts no other", async () => {
  const blob = new ScriptedLeasable({ renew: after(700, ok), release: after(3_000, ok) });
  const guard = (await tryAcquireLease(blob, { durationInSeconds: 30, renewIntervalInMs: 1_000 }))!;
  await pass(1_100);
  const release = outcomeOf(guard.release());
  await pass(600);
  expect(blob.times("release")).toEqual([1_700]);
  await pass(10_000);
  expect(release).toMatchObject({ at: 4_700 });
  expect(release.error).toBeUndefined();
  expect(blob.times("renew")).toEqual([1_000]);
});

it("starts no renewal after one that failed", async () => {
  const blob = new ScriptedLeasable({ renew: [after(700, status(503)), mismatch], release: after(3_000, ok) });
  const guard = (await tryAcquireLease(blob))!;
  await pass(10_100);
  const release = outcomeOf(guard.release());
  await pass(10_000);
  expect(release.error).toBeUndefined();
  expect((guard.signal.reason as Error).name).toBe("AbortError");
  expect(blob.times("renew")).toEqual([10_000]);
});

it("rejects with the loss that the renewal under way is answered with", async () => {
  const blob = new ScriptedLeasable({ renew: after(700, mismatch) });
  const guard = (await tryAcquireLease(blob))!;
  await pass(10_100);
  const release = outcomeOf(guard.release());
  await pass(600);
  expect(release).toMatchObject({ at: 10_700, error: { name: "LeaseLostError", reason: "stolen" } });
  expect(blob.times("release")).toEqual([]);
});

it("is no loss if the deadline passes while it is under way: the work was over before", async () => {
  const blob = new ScriptedLeasable({ renew: hang, release: after(4_000, ok) });
  const guard = (await tryAcquireLease(blob, { durationInSeconds: 15 }))!;
  await pass(13_000);
  const release = outcomeOf(guard.release());
  await pass(10_000);
  expect(release.error).toBeUndefined();
  expect(release.at).toBeGreaterThan(14_250);
  expect((guard.signal.reason as Error).name).toBe("AbortError");
});

it("rejects with the loss that nobody had noticed yet, and sends nothing", async () => {
  const blob = new ScriptedLeasable();
  const guard = (await tryAcquireLease(blob))!;
  blockEventLoop(28_500);
  await expect(guard.release()).rejects.toMatchObject({ name: "LeaseLostError", reason: "expired" });
  expect(guard.signal.aborted).toBe(true);
  expect(blob.times("release")).toEqual([]);
});

it("has nothing to say of a loss that the signal has told of", async () => {
  const blob = new ScriptedLeasable({ renew: mismatch });
  const guard = (await tryAcquireLease(blob))!;
  await pass(10_000);
  expect(guard.signal.aborted).toBe(true);
  await guard.release();
  expect(blob.times("release")).toEqual([]);
});

it("can be tried again if the service could not be told", async () => {
  const blob = new ScriptedLeasable({ release: [status(503), ok] });
  const guard = (await tryAcquireLease(blob))!;
  await expect(guard.release()).rejects.toMatchObject({ statusCode: 503 });
  expect(() => guard.assertHeld()).toThrow("released");
  await guard.release();
  expect(blob.times("release")).toHaveLength(2);
});

it("is no loss if an earlier try, of which nothing was heard, has released the lease", async () => {
  const blob = new ScriptedLeasable({ release: [reset, mismatch] });
  const guard = (await tryAcquireLease(blob))!;
  await expect(guard.release()).rejects.toThrow("ECONNRESET");
  await guard.release();
  expect((guard.signal.reason as Error).name).toBe("AbortError");
});

describe("of a lease that never expires", () => {
  it("goes on in the background, and says what is left if somebody has to care", async () => {
    const blob = new ScriptedLeasable({ release: (at) => (at < 20_000 ? status(503) : ok) });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: Infinity }))!;
    const outcome = outcomeOf(guard.release());
    await pass(0);
    expect(outcome.error).toMatchObject({ name: "LeaseReleaseError", code: "LEASE_RELEASE_FAILED", url: "https://account.test/container/blob", leaseId: guard.leaseId, cause: { statusCode: 503 } });
    expect(isConcurrencyError(outcome.error, "LEASE_RELEASE_FAILED")).toBe(true);
    await pass(300_000);
    expect(blob.times("release")).toEqual([0, 1_000, 3_000, 7_000, 15_000, 30_000]);
  });

  it("is tried for two minutes, and no longer", async () => {
    const blob = new ScriptedLeasable({ release: reset });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: Infinity }))!;
    await guard[Symbol.asyncDispose]();
    await pass(600_000);
    expect(blob.times("release")).toEqual([0, 1_000, 3_000, 7_000, 15_000, 30_000, 60_000, 120_000]);
  });

  it("ends in the background when the caller does it", async () => {
    const blob = new ScriptedLeasable({ release: [reset, ok] });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: Infinity }))!;
    await expect(guard.release()).rejects.toThrow("could not be released");
    await guard.release();
    await pass(300_000);
    expect(blob.times("release")).toEqual([0, 0]);
  });

  it("goes on while the credentials are rejected: a token that has expired is renewed", async () => {
    const blob = new ScriptedLeasable({ release: (at) => (at < 5_000 ? status(403, "AuthenticationFailed") : ok) });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: Infinity }))!;
    await expect(guard.release()).rejects.toMatchObject({ name: "LeaseReleaseError", leaseId: guard.leaseId, cause: { statusCode: 403 } });
    await pass(300_000);
    expect(blob.times("release")).toEqual([0, 1_000, 3_000, 7_000]);
  });

  it("is at its end when the service refuses it for good", async () => {
    const blob = new ScriptedLeasable({ release: status(400, "InvalidHeaderValue") });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: Infinity }))!;
    await expect(guard.release()).rejects.toMatchObject({ statusCode: 400 });
    await pass(300_000);
    expect(blob.times("release")).toEqual([0]);
  });
});
