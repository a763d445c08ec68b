import { describe, expect, it } from "vitest";
import { breakLease, inspectLease } from "../../src/lock/inspect-lease.js";
import { acquireLease } from "../../src/lease/with-lease.js";
import { formatLockRecord, nextEpoch, parseLockRecord } from "../../src/lock/lock-record.js";
import { deafHang, hang, ok, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { ScriptedLeasable } from "../lease/fakes/scripted-leasable.js";
import { abortTime, countedAbort, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

const unused = parseLockRecord(undefined);

async function run<R>(promise: Promise<R>): Promise<R> {
  promise.catch(() => undefined);
  await pass(10);
  return promise;
}

describe("inspectLease", () => {
  it("tells free from held", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    expect(await run(inspectLease(server.blob()))).toEqual({ state: "available", duration: undefined, holder: undefined, acquiredOn: undefined, epoch: undefined, etag: expect.any(String) as string });
    const guard = await run(acquireLease(server.blob(), { durationInSeconds: Infinity }));
    expect(await run(inspectLease(server.blob()))).toMatchObject({ state: "leased", duration: "infinite" });
    await run(guard.release());
  });

  it("says that the target is missing", async () => {
    const blob = new ScriptedLeasable({ properties: status(404, "ContainerNotFound") });
    await expect(inspectLease(blob)).rejects.toMatchObject({ name: "TargetNotFoundError", url: "https://account.test/container/blob" });
  });

  it("ends with the caller's reason", async () => {
    const caller = countedAbort();
    const outcome = outcomeOf(inspectLease(new ScriptedLeasable({ properties: hang }), { abortSignal: caller.signal }));
    await pass(100);
    caller.abort(new Error("enough"));
    await pass(0);
    expect(outcome.error).toMatchObject({ message: "enough" });
    expect(caller.listeners()).toBe(0);
  });

  it("repeats a try without a response, and ends when its time is over", async () => {
    const blob = new ScriptedLeasable({ properties: deafHang });
    const outcome = outcomeOf(inspectLease(blob));
    const short = outcomeOf(inspectLease(blob, { timeoutInMs: 1_000, tryTimeoutInMs: 300 }));
    await pass(1_000);
    expect(short.error).toMatchObject({ code: "OPERATION_TIMEOUT", committed: false, url: "https://account.test/container/blob" });
    await pass(7_500);
    blob.script = {};
    await pass(20_000);
    expect(outcome.value).toMatchObject({ state: "available" });
    expect(outcome.at).toBeLessThan(25_100);
    const never = new ScriptedLeasable({ properties: deafHang });
    const ended = outcomeOf(inspectLease(never));
    await pass(30_000);
    expect(ended.error).toMatchObject({ code: "OPERATION_TIMEOUT" });
    expect((ended.error as Error).message).toContain("30000 ms (timeoutInMs)");
  });
});

describe("breakLease", () => {
  it("ends when its time is over, and does not know then whether the lease was broken", async () => {
    const outcome = outcomeOf(breakLease(new ScriptedLeasable({ break: deafHang })));
    const short = outcomeOf(breakLease(new ScriptedLeasable({ break: deafHang }), { timeoutInMs: 500 }));
    await pass(500);
    expect(short.error).toMatchObject({ code: "OPERATION_TIMEOUT", committed: "unknown" });
    await pass(29_500);
    expect(outcome.error).toMatchObject({ code: "OPERATION_TIMEOUT", committed: "unknown", elapsedInMs: 30_000 });
  });

  it("takes the lease away, and the holder learns at its next renewal that it was broken", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const guard = await run(acquireLease(server.blob()));
    const aborted = abortTime(guard.signal);
    await expect(run(breakLease(server.blob(), { breakPeriodInSeconds: 20 }))).resolves.toBe(true);
    expect(await run(inspectLease(server.blob()))).toMatchObject({ state: "breaking" });
    await pass(10_000);
    expect(aborted.at).toBeLessThan(10_010);
    expect(guard.signal.reason).toMatchObject({ reason: "broken" });
    await pass(11_000);
    expect(await run(inspectLease(server.blob()))).toMatchObject({ state: "broken" });
  });

  it("is false if there is none", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    await expect(run(breakLease(server.blob()))).resolves.toBe(false);
  });

  it("is false if it was broken before: the service accepts that again", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    await run(acquireLease(server.blob(), { autoRenew: false }));
    await expect(run(breakLease(server.blob()))).resolves.toBe(true);
    await expect(run(breakLease(server.blob()))).resolves.toBe(false);
    await expect(run(breakLease(server.blob()))).resolves.toBe(false);
    await pass(30_000);
  });

  it("is sent whatever was found before: that may be outdated, or not readable for this client", async () => {
    const stale = new ScriptedLeasable();
    stale.properties = { leaseState: "broken" };
    await expect(breakLease(stale)).resolves.toBe(false);
    const silent = new ScriptedLeasable({ properties: deafHang });
    const unreadable = new ScriptedLeasable({ properties: status(403) });
    const breaks = [outcomeOf(breakLease(silent)), outcomeOf(breakLease(unreadable))];
    await pass(10_000);
    expect(breaks.map(({ value }) => value)).toEqual([true, true]);
    expect([stale, silent, unreadable].map((blob) => blob.times("break").length)).toEqual([1, 1, 1]);
  });

  it("is false if the lock has another number by now, or gets one meanwhile", async () => {
    const blob = new ScriptedLeasable();
    const metadata = formatLockRecord({ ...unused, epoch: 7, reserved: 3, holder: "h" });
    blob.properties = { etag: "e", leaseState: "leased", metadata };
    for (const expectedEpoch of [6, 10]) await expect(breakLease(blob, { expectedEpoch })).resolves.toBe(false);
    expect(blob.times("break")).toEqual([]);
    for (const expectedEpoch of [7, 9]) await expect(breakLease(blob, { expectedEpoch })).resolves.toBe(true);
    expect(blob.callsOf("break")[0]!.options).toMatchObject({ conditions: { ifMatch: "e" } });
    blob.script = { break: status(412, "ConditionNotMet") };
    await expect(breakLease(blob, { expectedEpoch: 7 })).resolves.toBe(false);
    await expect(breakLease(blob)).rejects.toMatchObject({ statusCode: 412 });
  });

  it("is repeated if the holder that is meant has written its record in between", async () => {
    const blob = new ScriptedLeasable({ break: [status(412, "ConditionNotMet"), ok] });
    const metadata = formatLockRecord({ ...unused, epoch: 7, reserved: 3, holder: "h" });
    blob.properties = { etag: "e", leaseState: "leased", metadata };
    await expect(breakLease(blob, { expectedEpoch: 8 })).resolves.toBe(true);
    expect([blob.times("properties").length, blob.times("break").length]).toEqual([2, 2]);
  });

  it("breaks nothing unconditionally for want of an ETag", async () => {
    const blob = new ScriptedLeasable();
    const metadata = formatLockRecord({ ...unused, epoch: 7, reserved: 1, holder: "h" });
    blob.properties = { leaseState: "leased", metadata };
    await expect(breakLease(blob, { expectedEpoch: 7 })).rejects.toThrow("no ETag");
    expect(blob.times("break")).toEqual([]);
  });

  it.each(["available", "expired", "broken"])("breaks nothing if the one that was looked at is %s by now", async (leaseState) => {
    const blob = new ScriptedLeasable();
    const metadata = formatLockRecord({ ...unused, epoch: 7, reserved: 1, holder: "h" });
    blob.properties = { leaseState, etag: '"1"', metadata };
    expect(await breakLease(blob, { expectedEpoch: 7 })).toBe(false);
    expect(blob.times("break")).toEqual([]);
  });

  it("passes on what else the service says", async () => {
    await expect(breakLease(new ScriptedLeasable({ break: status(403) }))).rejects.toMatchObject({ statusCode: 403 });
    await expect(breakLease(new ScriptedLeasable({ break: status(404, "BlobNotFound") }))).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });
});

describe("the record of a lock", () => {
  it("survives the way through metadata, whatever the case of their names", () => {
    const acquiredOn = new Date("2026-01-02T03:04:05.678Z");
    const record = { epoch: 12, reserved: 4, nextTicket: 8, holder: "höst/1/✓", acquiredOn, served: 9, fair: true, data: "tür ✓", lowestGuarding: 11 };
    const metadata = formatLockRecord(record);
    expect(Object.values(metadata).join("")).toMatch(/^[\x20-\x7e]*$/);
    expect(parseLockRecord(metadata)).toEqual(record);
    const shouted = Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name.toUpperCase(), value]));
    expect(parseLockRecord(shouted)).toEqual(record);
    expect(nextEpoch(record)).toBe(16);
  });

  it("starts at 1", () => {
    expect(nextEpoch(parseLockRecord(undefined))).toBe(1);
    expect(nextEpoch(parseLockRecord({}))).toBe(1);
  });

  it("takes what others wrote into it for what it is", () => {
    const record = parseLockRecord({ asc_epoch: "5", asc_holder: "%E0%A4%A", asc_since: "yesterday" });
    expect(record).toEqual({ ...unused, epoch: 5, reserved: 1, holder: "%E0%A4%A" });
    expect(parseLockRecord({ asc_epoch: "5", asc_served: "-2", asc_guarding: "1.5" })).toMatchObject({ served: undefined, lowestGuarding: undefined });
    expect(parseLockRecord({ asc_epoch: "-1", asc_reserved: "x" })).toMatchObject({ epoch: 0, reserved: 0 });
  });
});
