import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LeaderElection } from "../../src/lock/leader-election.js";
import { blobNameOf, lockDataOf, lockNameOf, parseLockRecord } from "../../src/lock/lock-record.js";
import { Semaphore } from "../../src/lock/semaphore.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { anyText } from "../support/any-text.js";
import { locksOn } from "./support.js";

const wellFormed = anyText({ minLength: 1, maxLength: 60 });

describe("the name of a lock's blob", () => {
  it("is safe and can be turned back, for any well-formed name", () => {
    fc.assert(
      fc.property(wellFormed, fc.constantFrom("locks/", "", "a/b/"), (name, prefix) => {
        const blobName = blobNameOf(prefix, name);
        expect(blobName.slice(prefix.length)).toMatch(/^[A-Za-z0-9_~-]+$/);
        expect(lockNameOf(prefix, blobName)).toBe(name);
      }),
      { numRuns: 2_000 },
    );
  });

  it("differs for names that differ", () => {
    fc.assert(
      fc.property(wellFormed, wellFormed, (a, b) => {
        expect(blobNameOf("", a) === blobNameOf("", b)).toBe(a === b);
      }),
    );
  });

  it.each([
    ["orders", "locks/orders"],
    ["Order_1-a", "locks/Order_1-a"],
    ["../../etc", "locks/~2E~2E~2F~2E~2E~2Fetc"],
    ["a/b\\c", "locks/a~2Fb~5Cc"],
    [".", "locks/~2E"],
    ["a\u0000\n\u007f", "locks/a~00~0A~7F"],
    ["🔒", "locks/~F0~9F~94~92"],
    ["ü", "locks/~C3~BC"],
    ["100%~", "locks/100~25~7E"],
    ["!'()*", "locks/~21~27~28~29~2A"],
    [" ", "locks/~20"],
  ])("for %j is %s", (name, blobName) => {
    expect(blobNameOf("locks/", name)).toBe(blobName);
    expect(lockNameOf("locks/", blobName)).toBe(name);
  });

  it.each([
    ["empty", "", "not empty"],
    ["of 2,000 characters", "x".repeat(2_000), "too long"],
    ["too long once it is encoded", "🔒".repeat(100), "too long"],
    ["half of a surrogate pair", "a\ud83d", "surrogate"],
    ["no text", 5 as unknown as string, "must be a string"],
    ["missing", undefined as unknown as string, "must be a string"],
  ])("is refused if the name is %s", (_, name, message) => {
    expect(() => blobNameOf("locks/", name)).toThrow(RangeError);
    expect(() => blobNameOf("locks/", name)).toThrow(message);
  });

  it("may be as long as that of a blob", () => {
    expect(blobNameOf("locks/", "x".repeat(1_018))).toHaveLength(1_024);
    expect(() => blobNameOf("locks/", "x".repeat(1_019))).toThrow(RangeError);
  });

  it("is checked with the prefix, and for a semaphore with the number of the slot, before anything is sent", () => {
    const locks = locksOn(new FakeLeaseServer());
    const onElected = (): void => undefined;
    expect(new LeaderElection(locks, "x".repeat(1_018), onElected).isLeader).toBe(false);
    expect(() => new LeaderElection(locks, "x".repeat(1_019), onElected)).toThrow(RangeError);
    // "/999" takes six characters: the slash is encoded.
    expect(new Semaphore(locks, "x".repeat(1_012), 1_000).slots).toBe(1_000);
    expect(() => new Semaphore(locks, "x".repeat(1_013), 1_000)).toThrow(RangeError);
  });

  it.each(["other/orders", "locks/", "locks/a.b", "locks/a/b", "locks/a~2", "locks/a~2f", "locks/~41", "locks/~FF", "locks/%41"])(
    "%s is not the blob of a lock",
    (blobName) => {
      expect(lockNameOf("locks/", blobName)).toBeUndefined();
    },
  );

  it("is only what the name of a lock would have been stored as", () => {
    const units = fc.constantFrom("~", "2", "F", "f", "D", "4", "1", "5", "a", "-", "_", ".", "/", "C", "3", "A", "9", "%", "ä");
    fc.assert(
      fc.property(fc.string({ unit: units, maxLength: 8 }), (text) => {
        const name = lockNameOf("p/", `p/${text}`);
        if (name !== undefined) expect(blobNameOf("p/", name)).toBe(`p/${text}`);
      }),
      { numRuns: 10_000 },
    );
  });
});

describe("the data of a holder", () => {
  it("are the same as in the whole record, in any case of the name, as the service may change it", () => {
    for (const metadata of [{ ASC_Data: "a%20b", asc_epoch: "3" }, { asc_data: "%E0%A4%A" }, { asc_epoch: "1" }, {}]) expect(lockDataOf(metadata)).toBe(parseLockRecord(metadata).data);
    expect(lockDataOf(undefined)).toBeUndefined();
  });
});
