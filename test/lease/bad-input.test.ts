import { describe, expect, it } from "vitest";
import type { LeasableBlobLike } from "../../src/clients/blob.js";
import type { LeasableLike } from "../../src/clients/leasable.js";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { breakLease, inspectLease } from "../../src/lock/inspect-lease.js";
import type { BreakLeaseOptions } from "../../src/lock/inspect-lease.js";
import type { AcquireLeaseOptions } from "../../src/lease/lease-options.js";
import { withLease } from "../../src/lease/with-lease.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { useFakeClock } from "./fakes/time.js";

useFakeClock();

const bad: readonly [string, AcquireLeaseOptions, typeof TypeError | typeof RangeError, string][] = [
  ["a duration of 14 s", { durationInSeconds: 14 }, RangeError, "durationInSeconds"],
  ["a duration of 61 s", { durationInSeconds: 61 }, RangeError, "durationInSeconds"],
  ["a duration of 15.5 s", { durationInSeconds: 15.5 }, RangeError, "durationInSeconds"],
  ["a duration of 0", { durationInSeconds: 0 }, RangeError, "durationInSeconds"],
  ["a duration of -1, the service's way to say infinite", { durationInSeconds: -1 }, RangeError, "durationInSeconds"],
  ["a duration of -Infinity", { durationInSeconds: -Infinity }, RangeError, "durationInSeconds"],
  ["a duration that is NaN", { durationInSeconds: NaN }, TypeError, "durationInSeconds"],
  ["a duration that is text", { durationInSeconds: "30" as unknown as number }, TypeError, "durationInSeconds"],
  ["a lease id that is no GUID", { leaseId: "my-lease" }, RangeError, "leaseId must be a GUID"],
  ["an empty lease id", { leaseId: "" }, RangeError, "leaseId"],
  ["a lease id in braces", { leaseId: "{11111111-1111-1111-1111-111111111111}" }, RangeError, "leaseId"],
  ["a lease id that is no text", { leaseId: 1 as unknown as string }, RangeError, "leaseId"],
  ["a negative renewal interval", { renewIntervalInMs: -1 }, RangeError, "renewIntervalInMs"],
  ["a renewal interval that would flood the service", { renewIntervalInMs: 10 }, RangeError, "renewIntervalInMs"],
  ["a renewal interval that is NaN", { renewIntervalInMs: NaN }, TypeError, "renewIntervalInMs"],
  ["a renewal interval of more than half the lease", { renewIntervalInMs: 15_001 }, RangeError, "renewIntervalInMs"],
  ["a negative margin", { safetyMarginInMs: -1 }, RangeError, "safetyMarginInMs"],
  ["a margin of more than half the lease", { safetyMarginInMs: 15_001 }, RangeError, "safetyMarginInMs"],
  ["a renewal that comes when the margin begins", { renewIntervalInMs: 15_000, safetyMarginInMs: 15_000 }, RangeError, "renewIntervalInMs"],
];

describe.each(bad)("%s", (_, options, type, message) => {
  it("is refused before anything is sent", async () => {
    const blob = new ScriptedLeasable();
    for (const call of [acquireLease, tryAcquireLease, (b: LeasableLike, o: AcquireLeaseOptions) => withLease(b, () => 1, o)]) {
      const error = await call(blob, options).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(type);
      expect((error as Error).message).toContain(message);
    }
    expect(blob.calls).toEqual([]);
  });
});

it.each([[-1], [NaN], ["5" as unknown as number]])("a wait of %s is refused before anything is sent", async (waitInMs) => {
  const blob = new ScriptedLeasable();
  await expect(acquireLease(blob, { waitInMs })).rejects.toThrow("waitInMs");
  await expect(withLease(blob, () => 1, { waitInMs })).rejects.toThrow("waitInMs");
  expect(blob.calls).toEqual([]);
});

it.each([15, 60, Infinity])("a duration of %s s is accepted", async (durationInSeconds) => {
  const blob = new ScriptedLeasable();
  await withLease(blob, () => undefined, { durationInSeconds });
  expect(blob.calls).toHaveLength(2);
});

it.each([undefined, null, "https://account.test/c/b", {}, { url: "https://account.test/c/b" }])("%j is not a client", async (target) => {
  const blob = target as unknown as LeasableLike;
  for (const call of [acquireLease, tryAcquireLease, inspectLease, breakLease]) {
    await expect(call(blob)).rejects.toThrow(new TypeError("not a target for leases: pass a blob client, a ContainerClient, a ShareClient or a ShareFileClient"));
  }
  await expect(withLease(blob, () => 1)).rejects.toThrow(TypeError);
});

it.each([undefined, null, "fn", {}])("%j is not a function to run", async (fn) => {
  const blob = new ScriptedLeasable();
  await expect(withLease(blob, fn as () => void)).rejects.toThrow(new TypeError("withLease: fn must be a function"));
  expect(blob.calls).toEqual([]);
});

it("a client that cannot make a block blob is told so", async () => {
  const blob = new ScriptedLeasable();
  const container: LeasableBlobLike = {
    url: blob.url,
    getBlobLeaseClient: (id) => blob.getBlobLeaseClient(id),
    getProperties: (options) => blob.getProperties(options),
  };
  await expect(acquireLease(container, { createIfNotExists: true })).rejects.toThrow(TypeError);
  await expect(tryAcquireLease(container, { createIfNotExists: true })).rejects.toThrow("createIfNotExists");
  expect(blob.calls).toEqual([]);
});

it.each<[string, BreakLeaseOptions]>([
  ["a negative period", { breakPeriodInSeconds: -1 }],
  ["a period of 61 s", { breakPeriodInSeconds: 61 }],
  ["half a second", { breakPeriodInSeconds: 0.5 }],
  ["an epoch that is NaN", { expectedEpoch: NaN }],
  ["an epoch of 0", { expectedEpoch: 0 }],
  ["an epoch of 1.5", { expectedEpoch: 1.5 }],
])("%s breaks nothing", async (_, options) => {
  const blob = new ScriptedLeasable();
  await expect(breakLease(blob, options)).rejects.toThrow(/breakPeriodInSeconds|expectedEpoch/);
  expect(blob.calls).toEqual([]);
});

it("a new id that is no GUID is refused before anything is sent", async () => {
  const blob = new ScriptedLeasable();
  const guard = await acquireLease(blob);
  await expect(guard.change("mine")).rejects.toThrow(new RangeError("proposedLeaseId must be a GUID"));
  expect(blob.times("change")).toEqual([]);
  await guard.release();
});
