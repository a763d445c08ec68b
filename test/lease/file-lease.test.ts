import { describe, expect, it } from "vitest";
import type { LeasableLike } from "../../src/clients/leasable.js";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { breakLease, inspectLease } from "../../src/lock/inspect-lease.js";
import type { AcquireLeaseOptions } from "../../src/lease/lease-options.js";
import { withLease } from "../../src/lease/with-lease.js";
import { ok, reset, resent, status } from "./fakes/answers.js";
import { ScriptedFile, ScriptedShare } from "./fakes/scripted-file.js";
import { abortTime, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const taken = status(409, "LeaseAlreadyPresent");

describe("the lease of a file", () => {
  it("is asked for every 30 s by a read that names it, and by nothing that could bring it back", async () => {
    const file = new ScriptedFile({ properties: [ok, ok, status(412, "LeaseLostWithFileOperation")] });
    file.service.properties = { leaseState: "leased" };
    const guard = await acquireLease(file);
    const aborted = abortTime(guard.signal);
    await pass(100_000);
    expect(file.reads).toEqual([guard.leaseId, guard.leaseId, guard.leaseId]);
    expect(aborted.at).toBe(90_000);
    expect(guard.signal.reason).toMatchObject({ reason: "broken", url: "https://account.test/share/Some%20dir/F.json" });
    expect(file.service.calls.map(({ operation }) => operation)).toEqual(["acquire", "properties", "properties", "properties"]);
    await guard.release();
  });

  it.each([
    ["another's by now", status(412, "LeaseIdMismatchWithFileOperation"), "stolen"],
    ["never there", status(412, "LeaseNotPresentWithFileOperation"), "broken"],
    ["gone with the file", status(404, "ResourceNotFound"), "deleted"],
  ])("is lost when the read says that it is %s", async (_, answer, reason) => {
    const guard = await acquireLease(new ScriptedFile({ properties: answer }));
    await expect(guard.renew()).rejects.toMatchObject({ name: "LeaseLostError", reason });
  });

  it("is lost when the read is answered, and says that it is broken", async () => {
    const file = new ScriptedFile();
    file.service.properties = { leaseState: "broken" };
    const guard = await acquireLease(file);
    await expect(guard.renew()).rejects.toMatchObject({ reason: "broken" });
  });

  it("is not lost in an outage, however long it takes", async () => {
    const file = new ScriptedFile({ properties: (at) => (at < 600_000 ? reset : ok) });
    const guard = await acquireLease(file);
    await pass(700_000);
    guard.assertHeld();
    await guard.release();
  });

  it("is waited for no longer than a minute without a crash guard, and the error says who may break it", async () => {
    const outcome = outcomeOf(acquireLease(new ScriptedFile({ acquire: taken })));
    await pass(62_000);
    expect(outcome.at).toBe(60_000);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", message: expect.stringMatching(/sure that its holder is dead, call breakLease\(file\).*crashGuard/) as string });
  });

  it("is released when the answer to the first release was lost and the second is refused", async () => {
    const file = new ScriptedFile({ release: resent(status(409, "LeaseIdMismatchWithLeaseOperation")) });
    await withLease(file, () => "done");
    expect(file.service.times("release")).toHaveLength(1);
  });

  it.each<[string, AcquireLeaseOptions, new (message: string) => Error, string]>([
    ["a duration", { durationInSeconds: 30 }, RangeError, "durationInSeconds must be Infinity for a file, whose lease never expires; got 30"],
    ["that it be created", { createIfNotExists: true }, TypeError, "createIfNotExists"],
  ])("is not asked for with %s", async (_, options, type, message) => {
    const file = new ScriptedFile();
    for (const call of [acquireLease(file, options), tryAcquireLease(file, options), withLease(file, () => 1, options)]) {
      const error: unknown = await call.catch((e: unknown) => e);
      expect(error).toBeInstanceOf(type);
      expect((error as Error).message).toContain(message);
    }
    expect(file.service.calls).toEqual([]);
  });

  it("is broken at once or not at all, and has no epoch", async () => {
    const file = new ScriptedFile();
    await expect(breakLease(file, { breakPeriodInSeconds: 5 })).rejects.toThrow(RangeError);
    await expect(breakLease(file, { expectedEpoch: 1 })).rejects.toThrow(TypeError);
    expect(file.service.calls).toEqual([]);
    await expect(breakLease(file)).resolves.toBe(true);
  });
});

describe("the lease of a share", () => {
  it("is looked at and acquired again, at a third of its time", async () => {
    const share = new ScriptedShare();
    share.service.properties = { leaseState: "leased" };
    const guard = await acquireLease(share, { durationInSeconds: 15 });
    await pass(11_000);
    expect(share.service.times("acquire")).toEqual([0, 5_000, 10_000]);
    expect(new Set(share.service.callsOf("acquire").map(({ leaseId }) => leaseId)).size).toBe(1);
    expect(share.reads).toEqual([guard.leaseId, guard.leaseId]);
    await guard.release();
  });

  it.each(["breaking", "broken", "available"])("is not acquired again when it is %s", async (leaseState) => {
    const share = new ScriptedShare();
    share.service.properties = { leaseState };
    const guard = await acquireLease(share);
    await expect(guard.renew()).rejects.toMatchObject({ reason: "broken" });
    expect(share.service.times("acquire")).toHaveLength(1);
  });

  it("is lost when another has it between the look and the renewal", async () => {
    const share = new ScriptedShare({ acquire: [ok, taken] });
    share.service.properties = { leaseState: "leased" };
    const guard = await acquireLease(share);
    await expect(guard.renew()).rejects.toMatchObject({ reason: "stolen" });
  });

  it("of a share that is not there is not blamed on what contains it", async () => {
    const share = new ScriptedShare({ acquire: status(404, "ShareNotFound") });
    await expect(acquireLease(share)).rejects.toThrow("F.json does not exist: create it");
  });
});

describe("what cannot be leased", () => {
  const directory = { url: "https://account.test/share/dir", getProperties: () => ({}), listFilesAndDirectories: () => [], getFileClient: () => ({}) };
  const at = (url: string): object => ({ url, getBlobLeaseClient: () => ({}), getProperties: () => ({}) });
  it.each<[string, object, string]>([
    ["a directory", directory, "a directory cannot be leased"],
    ["a snapshot of a share", Object.assign(Object.create(new ScriptedShare()) as object, { url: "https://a.test/s?sharesnapshot=2020" }), "snapshot"],
    ["a file in one", Object.assign(Object.create(new ScriptedFile()) as object, { url: "https://a.test/s/f?sharesnapshot=2020" }), "snapshot"],
    ["a snapshot of a blob", at("https://a.test/c/b?snapshot=2020"), "snapshot"],
    ["an old version of a blob", at("https://a.test/c/b?sv=1&versionId=2020"), "snapshot"],
    ["a service client", { url: "https://a.test/" }, "not a target for leases"],
  ])("%s is refused before anything is sent", async (_, target, message) => {
    const leasable = target as LeasableLike;
    for (const call of [acquireLease, tryAcquireLease, inspectLease, breakLease]) {
      const error: unknown = await call(leasable).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(TypeError);
      expect((error as Error).message).toContain(message);
    }
  });
});
