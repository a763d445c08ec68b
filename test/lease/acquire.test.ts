import { describe, expect, it } from "vitest";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { withLease } from "../../src/lease/with-lease.js";
import { after, deaf, deafHang, hang, ok, reset, status } from "./fakes/answers.js";
import type { Answer } from "./fakes/answers.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { countedAbort, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const taken = status(409, "LeaseAlreadyPresent");

describe("acquireLease", () => {
  it.each([taken, status(409, "LeaseIsBreakingAndCannotBeAcquired")])("waits while it is taken ($code)", async (answer) => {
    const blob = new ScriptedLeasable({ acquire: (at) => (at < 3_000 ? answer : ok) });
    const outcome = outcomeOf(acquireLease(blob));
    await pass(4_000);
    expect(outcome.at).toBeGreaterThanOrEqual(3_000);
    await outcome.value!.release();
  });

  it("looks again after 25 ms to 1 s, the more seldom the longer it waits, with the same id", async () => {
    const blob = new ScriptedLeasable({ acquire: (at) => (at < 60_000 ? taken : ok) });
    const outcome = outcomeOf(acquireLease(blob));
    await pass(62_000);
    const times = blob.times("acquire");
    const gaps = times.slice(1).map((at, i) => at - times[i]!);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(25);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(1_001);
    expect(Math.max(...gaps.slice(0, 5))).toBeLessThan(200);
    expect(Math.min(...gaps.slice(-10))).toBeGreaterThanOrEqual(300);
    expect(new Set(blob.callsOf("acquire").map((call) => call.leaseId)).size).toBe(1);
    await outcome.value!.release();
  });

  it("gives up after waitInMs, and says what it waited for", async () => {
    const blob = new ScriptedLeasable({ acquire: taken });
    const outcome = outcomeOf(acquireLease(blob, { waitInMs: 2_000 }));
    await pass(10_000);
    expect(outcome.at).toBe(2_000);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", url: "https://account.test/container/blob", waitedInMs: 2_000 });
    expect((outcome.error as Error).message).not.toContain("secret");
    expect(blob.times("acquire").at(-1)).toBeLessThanOrEqual(2_000);
  });

  it("takes a free lease although waitInMs is over before the first answer", async () => {
    const blob = new ScriptedLeasable({ acquire: after(300, ok) });
    const outcome = outcomeOf(acquireLease(blob, { waitInMs: 0 }));
    await pass(300);
    expect(outcome).toMatchObject({ at: 300 });
    await outcome.value!.release();
  });

  it("looks once if it may not wait", async () => {
    const blob = new ScriptedLeasable({ acquire: after(300, taken) });
    const outcome = outcomeOf(acquireLease(blob, { waitInMs: 0 }));
    await pass(10_000);
    expect(outcome).toMatchObject({ at: 300, error: { name: "LeaseUnavailableError" } });
    expect(blob.times("acquire")).toEqual([0]);
  });

  it("says that requests failed if that is why the wait was in vain", async () => {
    const blob = new ScriptedLeasable({ acquire: after(100, status(503)) });
    const outcome = outcomeOf(acquireLease(blob, { waitInMs: 150 }));
    await pass(10_000);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", cause: { statusCode: 503 } });
    expect((outcome.error as Error).message).toContain("the last request failed");
  });

  it("does not wait longer than one request for a service that does not answer", async () => {
    const blob = new ScriptedLeasable({ acquire: deafHang });
    const outcome = outcomeOf(acquireLease(blob, { waitInMs: 1_000, durationInSeconds: 15 }));
    await pass(10_000);
    expect(outcome).toMatchObject({ at: 1_200, error: { name: "LeaseUnavailableError", cause: { name: "RequestTimeoutError" } } });
  });

  it.each([
    ["503", status(503)],
    ["500", status(500)],
    ["408", status(408)],
    ["429", status(429)],
    ["a reset connection", reset],
    ["nothing", hang],
  ])("tries again after %s, with the same id", async (_, answer) => {
    const blob = new ScriptedLeasable({ acquire: [answer, answer, answer, answer, ok] });
    const outcome = outcomeOf(acquireLease(blob, { durationInSeconds: 15 }));
    await pass(120_000);
    expect(outcome.error).toBeUndefined();
    expect(new Set(blob.callsOf("acquire").map((call) => call.leaseId)).size).toBe(1);
    await outcome.value!.release();
  });

  it("gives up after ten seconds of failures", async () => {
    const blob = new ScriptedLeasable({ acquire: (at) => (at < 5_000 ? reset : status(503)) });
    const outcome = outcomeOf(acquireLease(blob));
    await pass(60_000);
    expect(outcome.error).toMatchObject({ statusCode: 503 });
    expect(outcome.at).toBeGreaterThanOrEqual(10_000);
    expect(outcome.at).toBeLessThan(12_000);
  });

  it("outlasts any number of quick failures", async () => {
    const blob = new ScriptedLeasable({ acquire: (at) => (at < 9_000 ? reset : ok) });
    const outcome = outcomeOf(acquireLease(blob));
    await pass(12_000);
    expect(outcome.error).toBeUndefined();
    expect(blob.times("acquire").length).toBeGreaterThan(5);
    await outcome.value!.release();
    await pass(4_000);
  });

  it("gives up after five failures that take long, and not after four", async () => {
    const blob = new ScriptedLeasable({ acquire: after(9_000, reset) });
    const outcome = outcomeOf(acquireLease(blob));
    await pass(90_000);
    expect(outcome.error).toMatchObject({ message: "ECONNRESET" });
    expect(blob.times("acquire")).toHaveLength(5);
  });

  it("does not add up failures with an answer in between", async () => {
    const blob = new ScriptedLeasable({ acquire: (at) => (at < 8_000 ? reset : at < 9_500 ? taken : at < 17_000 ? reset : ok) });
    const outcome = outcomeOf(acquireLease(blob));
    await pass(20_000);
    expect(outcome.error).toBeUndefined();
    await outcome.value!.release();
    await pass(4_000);
  });

  it.each([
    ["403", status(403, "AuthorizationPermissionMismatch"), { statusCode: 403 }],
    ["400", status(400, "InvalidHeaderValue"), { statusCode: 400 }],
    ["404", status(404, "BlobNotFound"), { name: "TargetNotFoundError", url: "https://account.test/container/blob" }],
    ["404 of the container", status(404, "ContainerNotFound"), { name: "TargetNotFoundError", message: expect.stringContaining("The container, table, queue, share or directory of") as string }],
    ["409 of another kind", status(409, "ContainerDisabled"), { statusCode: 409 }],
  ])("is told at once of %s", async (_, answer, error) => {
    const blob = new ScriptedLeasable({ acquire: answer });
    await expect(acquireLease(blob)).rejects.toMatchObject(error);
    expect(blob.calls.map((call) => call.operation)).toEqual(["acquire"]);
  });

  it("gives the lease back that a request without an answer may have acquired", async () => {
    const blob = new ScriptedLeasable({ acquire: reset });
    const outcome = outcomeOf(acquireLease(blob));
    await pass(15_000);
    expect(outcome.error).toMatchObject({ message: "ECONNRESET" });
    // Several requests got no response: the release has undone one of them, and two more undo those that arrive later.
    const { leaseId } = blob.callsOf("acquire")[0]!;
    expect(blob.callsOf("release")).toMatchObject([{ leaseId }, { leaseId }, { leaseId }]);
  });

  it("goes on giving back what it may have acquired, if that never expires, until the service answers", async () => {
    const blob = new ScriptedLeasable({ acquire: hang, release: (at) => (at < 10_000 ? reset : ok) });
    const caller = new AbortController();
    const outcome = outcomeOf(acquireLease(blob, { durationInSeconds: Infinity, abortSignal: caller.signal }));
    await pass(10);
    caller.abort();
    await pass(120_000);
    expect(outcome.error).toBe(caller.signal.reason);
    const releases = blob.callsOf("release");
    expect(new Set([...releases, ...blob.callsOf("acquire")].map(({ leaseId }) => leaseId)).size).toBe(1);
    expect(releases.map(({ at }) => at)).toEqual([10, 1_010, 3_010, 7_010, 15_010]);
  });

  it("does so twice more if it expires", async () => {
    const blob = new ScriptedLeasable({ acquire: hang, release: reset });
    const caller = new AbortController();
    const outcome = outcomeOf(acquireLease(blob, { abortSignal: caller.signal }));
    await pass(10);
    caller.abort();
    await pass(1);
    expect(outcome.error).toBe(caller.signal.reason);
    await pass(120_000);
    expect(blob.times("release")).toEqual([10, 1_010, 4_010]);
  });

  it("asks with the tracing options of whoever is first in line", async () => {
    const blob = new ScriptedLeasable();
    await withLease(blob, () => undefined);
    expect(blob.callsOf("acquire")[0]!.options).toHaveProperty("tracingOptions");
  });
});

describe("createIfNotExists", () => {
  const missing = status(404, "BlobNotFound");

  it("makes an empty blob and leases it", async () => {
    const server = new FakeLeaseServer();
    const outcome = outcomeOf(acquireLease(server.blob(), { createIfNotExists: true }));
    await pass(3);
    expect(server.requests.map((request) => request.operation)).toEqual(["acquire", "create", "acquire"]);
    const release = outcome.value!.release();
    await pass(1);
    await release;
  });

  it("takes it well if somebody else was faster", async () => {
    const blob = new ScriptedLeasable({ acquire: [missing, ok], create: status(409, "BlobAlreadyExists") });
    await (await acquireLease(blob, { createIfNotExists: true })).release();
    expect(blob.times("acquire")).toHaveLength(2);
  });

  it.each([
    ["the container is missing", status(404, "ContainerNotFound"), ok],
    ["creating is forbidden", missing, status(403)],
    ["it vanishes all the time", missing, ok],
  ])("gives up if %s", async (_, acquire, create) => {
    const blob = new ScriptedLeasable({ acquire, create });
    await expect(acquireLease(blob, { createIfNotExists: true })).rejects.toThrow();
    expect(blob.times("create").length).toBeLessThanOrEqual(1);
  });
});

describe("tryAcquireLease", () => {
  it("is null if it is taken, after one request", async () => {
    const blob = new ScriptedLeasable({ acquire: taken });
    await expect(tryAcquireLease(blob)).resolves.toBeUndefined();
    expect(blob.calls).toHaveLength(1);
  });

  it("is null without a request while this process holds it", async () => {
    const blob = new ScriptedLeasable();
    const guard = (await tryAcquireLease(blob))!;
    await expect(tryAcquireLease(blob)).resolves.toBeUndefined();
    expect(blob.times("acquire")).toHaveLength(1);
    await guard.release();
    const again = (await tryAcquireLease(blob))!;
    await again.release();
  });

  it("rejects on a failure, also a passing one", async () => {
    await expect(tryAcquireLease(new ScriptedLeasable({ acquire: status(503) }))).rejects.toMatchObject({ statusCode: 503 });
    await expect(tryAcquireLease(new ScriptedLeasable({ acquire: status(403) }))).rejects.toMatchObject({ statusCode: 403 });
  });

  it("does not give up for those who came while it looked and are willing to wait", async () => {
    const blob = new ScriptedLeasable({ acquire: (at) => (at < 2_000 ? after(100, taken) : ok) });
    const impatient = outcomeOf(tryAcquireLease(blob));
    const patient = outcomeOf(acquireLease(blob));
    await pass(1_000);
    expect(impatient).toMatchObject({ value: undefined, at: 100 });
    expect(patient.at).toBeUndefined();
    await pass(3_000);
    expect(patient.error).toBeUndefined();
    await patient.value!.release();
  });

  it("leaves those who are willing to wait alone when its look fails, or is cut off", async () => {
    const blob = new ScriptedLeasable({ acquire: [after(100, status(503)), ok] });
    const impatient = outcomeOf(tryAcquireLease(blob));
    const patient = outcomeOf(acquireLease(blob));
    await pass(1_000);
    expect(impatient.error).toMatchObject({ statusCode: 503 });
    await patient.value!.release();
    await pass(4_000);

    const caller = countedAbort();
    blob.script = { acquire: [after(100, taken), taken, taken, ok] };
    const cutOff = outcomeOf(tryAcquireLease(blob, { abortSignal: caller.signal }));
    const second = outcomeOf(acquireLease(blob));
    caller.abort(new Error("enough"));
    await pass(2_000);
    expect(cutOff.error).toMatchObject({ message: "enough" });
    await second.value!.release();
  });
});

describe("a caller that aborts", () => {
  const enough = new Error("enough");

  async function abortAt<R>(at: number, start: (signal: AbortSignal) => Promise<R>) {
    const caller = countedAbort();
    const outcome = outcomeOf(start(caller.signal));
    await pass(at);
    const listeners = caller.listeners();
    caller.abort(enough);
    await pass(0);
    return { outcome, caller, listeners };
  }

  it("sends nothing if it had aborted before", async () => {
    const blob = new ScriptedLeasable();
    const caller = countedAbort();
    caller.abort(enough);
    await expect(acquireLease(blob, { abortSignal: caller.signal })).rejects.toBe(enough);
    await expect(tryAcquireLease(blob, { abortSignal: caller.signal })).rejects.toBe(enough);
    await expect(withLease(blob, () => 1, { abortSignal: caller.signal })).rejects.toBe(enough);
    expect(blob.calls).toEqual([]);
    expect(caller.listeners()).toBe(0);
  });

  it("stops waiting", async () => {
    const blob = new ScriptedLeasable({ acquire: taken });
    const { outcome, caller, listeners } = await abortAt(5_000, (abortSignal) => acquireLease(blob, { abortSignal }));
    expect(listeners).toBe(1);
    expect(outcome).toMatchObject({ error: enough, at: 5_000 });
    expect(caller.listeners()).toBe(0);
    const { length } = blob.calls;
    await pass(10_000);
    expect(blob.calls).toHaveLength(length);
  });

  it.each([
    ["that listens to the abort", after(400, ok)],
    ["that does not", deaf(after(400, ok))],
  ])("while the request is under way gives back what it may have acquired, with a client %s", async (_, answer: Answer) => {
    const server = new FakeLeaseServer();
    server.addBlob();
    server.disturb = (operation) => (operation === "acquire" ? answer : undefined);
    const { outcome, caller } = await abortAt(200, (abortSignal) => acquireLease(server.blob(), { abortSignal }));
    expect(outcome).toMatchObject({ error: enough, at: 200 });
    expect(caller.listeners()).toBe(0);
    await pass(500);
    expect(server.requests.map((request) => request.operation)).toEqual(["acquire", "release"]);
    expect(server.isLeased()).toBe(false);
  });

  it("does not disturb the work", async () => {
    const blob = new ScriptedLeasable();
    const work = (): Promise<string> => new Promise((resolve) => setTimeout(resolve, 25_000, "result"));
    const { outcome, caller } = await abortAt(5_000, (abortSignal) => withLease(blob, work, { abortSignal }));
    expect(caller.listeners()).toBe(0);
    await pass(20_000);
    expect(outcome).toMatchObject({ value: "result", at: 25_000 });
    expect(blob.times("renew")).toEqual([10_000, 20_000]);
  });

  it("does not disturb the release, and waits for it a moment only", async () => {
    const blob = new ScriptedLeasable({ release: after(1_000, ok) });
    const { outcome, caller } = await abortAt(500, (abortSignal) => withLease(blob, () => "result", { abortSignal }));
    await pass(500);
    expect(outcome).toMatchObject({ value: "result", at: 700 });
    expect(blob.times("release")).toEqual([0]);
    expect(caller.listeners()).toBe(0);
  });
});
