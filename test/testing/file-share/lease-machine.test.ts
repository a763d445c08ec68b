import { describe, expect, it } from "vitest";

import {
  applyLease,
  type Lease,
  leaseAt,
  type LeaseKind,
  type LeaseRequest,
  neverLeased,
  passLease,
} from "../../../src/testing/file-share/lease-machine.js";
import { StorageFault } from "../../../src/testing/file-share/storage-fault.js";

const A = "11111111-1111-1111-1111-111111111111";
const B = "22222222-2222-2222-2222-222222222222";
const C = "33333333-3333-3333-3333-333333333333";
const start = 1_000_000;

const acquire = (id: string, durationInSeconds = -1): LeaseRequest => ({ action: "acquire", id, durationInSeconds });
const renew = (id: string): LeaseRequest => ({ action: "renew", id });
const release = (id: string): LeaseRequest => ({ action: "release", id });
const change = (id: string, proposedId: string): LeaseRequest => ({ action: "change", id, proposedId });
const breakIn = (breakPeriodInSeconds?: number): LeaseRequest => ({ action: "break", breakPeriodInSeconds });
/** Seconds that pass. */
type Step = LeaseRequest | number;

/** Goes through the steps, all of which have to succeed. */
function after(kind: LeaseKind, steps: readonly Step[]): { lease: Lease; now: number } {
  let [lease, now] = [neverLeased, start];
  for (const step of steps) {
    if (typeof step === "number") now += step * 1000;
    else ({ lease } = applyLease(kind, lease, step, now));
  }
  return { lease, now };
}

/** `201 leased A`, `202 breaking A 20`, or `409 LeaseAlreadyPresent`. */
function outcome(kind: LeaseKind, steps: readonly Step[], request: LeaseRequest): string {
  const { lease, now } = after(kind, steps);
  return orFault(() => {
    const { lease: next, status, leaseTime } = applyLease(kind, lease, request, now);
    const id = next.id === undefined ? [] : [next.id.startsWith("1") ? "A" : next.id.startsWith("2") ? "B" : "C"];
    return [status, next.state, ...id, ...(leaseTime === undefined ? [] : [leaseTime])].join(" ");
  });
}

function access(kind: LeaseKind, steps: readonly Step[], id: string | undefined, mode: "read" | "write"): string {
  const { lease, now } = after(kind, steps);
  return orFault(() => passLease(kind, lease, id, mode, now).state);
}

function orFault(run: () => string): string {
  try {
    return run();
  } catch (error) {
    if (error instanceof StorageFault) return `${error.status} ${error.code}`;
    throw error;
  }
}

const never: Step[] = [];
const held: Step[] = [acquire(A)];
const broken: Step[] = [acquire(A), breakIn()];
const released: Step[] = [acquire(A), release(A)];

describe("the lease of a file", () => {
  it.each<[string, Step[], LeaseRequest, string]>([
    ["acquire when free", never, acquire(A), "201 leased A"],
    ["acquire for a time", never, acquire(A, 20), "400 InvalidHeaderValue"],
    ["acquire for 60 s", never, acquire(A, 60), "400 InvalidHeaderValue"],
    ["acquire again with the same id", held, acquire(A), "201 leased A"],
    ["acquire by another", held, acquire(B), "409 LeaseAlreadyPresent"],
    ["acquire when broken, by another", broken, acquire(B), "201 leased B"],
    ["acquire when broken, by the same", broken, acquire(A), "201 leased A"],
    ["acquire when released", released, acquire(B), "201 leased B"],
    ["renew", held, renew(A), "400 InvalidHeaderValue"],
    ["change", held, change(A, B), "200 leased B"],
    ["change that had been done already", [acquire(A), change(A, B)], change(A, B), "200 leased B"],
    ["change with a wrong id", held, change(B, C), "409 LeaseIdMismatchWithLeaseOperation"],
    ["change when never leased", never, change(A, B), "409 LeaseNotPresentWithLeaseOperation"],
    ["change when released", released, change(A, B), "409 LeaseNotPresentWithLeaseOperation"],
    ["change when broken", broken, change(A, B), "409 LeaseNotPresentWithLeaseOperation"],
    ["release", held, release(A), "200 available"],
    ["release with a wrong id", held, release(B), "409 LeaseIdMismatchWithLeaseOperation"],
    ["release twice", released, release(A), "409 LeaseIdMismatchWithLeaseOperation"],
    ["release when broken", broken, release(A), "200 available"],
    ["break", held, breakIn(), "202 broken A 0"],
    ["break has no period", held, breakIn(30), "202 broken A 0"],
    ["break again", broken, breakIn(), "202 broken A 0"],
    ["break when never leased", never, breakIn(), "409 LeaseNotPresentWithLeaseOperation"],
    ["break when released", released, breakIn(), "409 LeaseNotPresentWithLeaseOperation"],
    ["a year later it is still held", [acquire(A), 31_536_000], acquire(B), "409 LeaseAlreadyPresent"],
  ])("%s", (_name, steps, request, expected) => {
    expect(outcome("file", steps, request)).toBe(expected);
  });

  it.each<[string, Step[], string | undefined, "read" | "write", string]>([
    ["write without an id, never leased", never, undefined, "write", "available"],
    ["write without an id, leased", held, undefined, "write", "412 LeaseIdMissing"],
    ["write with the id", held, A, "write", "leased"],
    ["write with a wrong id", held, B, "write", "412 LeaseIdMismatchWithFileOperation"],
    ["read without an id, leased", held, undefined, "read", "leased"],
    ["read with a wrong id", held, B, "read", "412 LeaseIdMismatchWithFileOperation"],
    ["an id, never leased", never, A, "read", "412 LeaseNotPresentWithFileOperation"],
    ["an id, released since", released, A, "write", "412 LeaseLostWithFileOperation"],
    ["an id, broken since", broken, A, "write", "412 LeaseLostWithFileOperation"],
    ["write without an id when broken makes it available", broken, undefined, "write", "available"],
    ["read without an id when broken leaves it broken", broken, undefined, "read", "broken"],
  ])("%s", (_name, steps, id, mode, expected) => {
    expect(access("file", steps, id, mode)).toBe(expected);
  });
});

describe("the lease of a share", () => {
  const fixed: Step[] = [acquire(A, 30)];
  const breaking: Step[] = [acquire(A, 60), breakIn(20)];
  const expired: Step[] = [acquire(A, 15), 15];

  it.each<[string, Step[], LeaseRequest, string]>([
    ["acquire for 15 s", never, acquire(A, 15), "201 leased A"],
    ["acquire for 60 s", never, acquire(A, 60), "201 leased A"],
    ["acquire for ever", never, acquire(A, -1), "201 leased A"],
    ["acquire for 14 s", never, acquire(A, 14), "400 InvalidHeaderValue"],
    ["acquire for 61 s", never, acquire(A, 61), "400 InvalidHeaderValue"],
    ["acquire for 0 s", never, acquire(A, 0), "400 InvalidHeaderValue"],
    ["acquire again, for another time", fixed, acquire(A, 60), "201 leased A"],
    ["acquire by another", fixed, acquire(B, 60), "409 LeaseAlreadyPresent"],
    ["acquire just before it expires", [acquire(A, 15), 14.999], acquire(B), "409 LeaseAlreadyPresent"],
    ["acquire as it expires", expired, acquire(B), "201 leased B"],
    ["acquire while breaking", breaking, acquire(A), "409 LeaseIsBreakingAndCannotBeAcquired"],
    ["acquire by another while breaking", breaking, acquire(B), "409 LeaseAlreadyPresent"],
    ["acquire when the break ran out", [...breaking, 20], acquire(B), "201 leased B"],
    ["renew", fixed, renew(A), "200 leased A"],
    ["renew restarts the time", [acquire(A, 15), 10, renew(A), 10], acquire(B), "409 LeaseAlreadyPresent"],
    ["acquire again restarts the time", [acquire(A, 15), 10, acquire(A, 15), 10], acquire(B), "409 LeaseAlreadyPresent"],
    ["renew when expired", expired, renew(A), "200 leased A"],
    ["renew with a wrong id", fixed, renew(B), "409 LeaseIdMismatchWithLeaseOperation"],
    ["renew when never leased", never, renew(A), "409 LeaseNotPresentWithLeaseOperation"],
    ["renew while breaking", breaking, renew(A), "409 LeaseIsBrokenAndCannotBeRenewed"],
    ["renew when broken", broken, renew(A), "409 LeaseIsBrokenAndCannotBeRenewed"],
    ["change", fixed, change(A, B), "200 leased B"],
    ["change while breaking", breaking, change(A, B), "409 LeaseIsBreakingAndCannotBeChanged"],
    ["change when expired", expired, change(A, B), "409 LeaseNotPresentWithLeaseOperation"],
    ["release", fixed, release(A), "200 available 0"],
    ["release while breaking", breaking, release(A), "200 available 0"],
    ["release when expired", expired, release(A), "200 available 0"],
    ["break an infinite one without a period", held, breakIn(), "202 broken A 0"],
    ["break an infinite one with a period", held, breakIn(20), "202 breaking A 20"],
    ["break a fixed one without a period: what is left", [...fixed, 10], breakIn(), "202 breaking A 20"],
    ["break a fixed one without a period: whole seconds", [acquire(A, 15), 0.001], breakIn(), "202 breaking A 14"],
    ["break in the last second", [acquire(A, 15), 14.5], breakIn(), "202 breaking A 0"],
    ["break a fixed one with a shorter period", fixed, breakIn(5), "202 breaking A 5"],
    ["break a fixed one with a longer period", fixed, breakIn(60), "202 breaking A 30"],
    ["break at once", fixed, breakIn(0), "202 broken A 0"],
    ["break again: what is left", [...breaking, 5], breakIn(), "202 breaking A 15"],
    ["break again, sooner", breaking, breakIn(3), "202 breaking A 3"],
    ["break again, later: does not prolong it", breaking, breakIn(60), "202 breaking A 20"],
    ["break when expired", expired, breakIn(10), "202 broken A 0"],
    ["break for 61 s", fixed, breakIn(61), "400 InvalidHeaderValue"],
    ["break when never leased", never, breakIn(), "409 LeaseNotPresentWithLeaseOperation"],
  ])("%s", (_name, steps, request, expected) => {
    expect(outcome("share", steps, request)).toBe(expected);
  });

  it.each<[string, Step[], string | undefined, "read" | "write", string]>([
    ["write without an id, leased", fixed, undefined, "write", "412 LeaseIdMissing"],
    ["write without an id, breaking", breaking, undefined, "write", "412 LeaseIdMissing"],
    ["write with the id, breaking", breaking, A, "write", "breaking"],
    ["wrong id", fixed, B, "write", "412 LeaseIdMismatchWithContainerOperation"],
    ["an id, never leased", never, A, "write", "412 LeaseNotPresentWithContainerOperation"],
    ["an id, after the break ran out", [...breaking, 20], A, "write", "412 LeaseLost"],
    ["an id, expired", expired, A, "write", "412 LeaseLost"],
    ["write without an id when expired leaves it expired", expired, undefined, "write", "expired"],
  ])("%s", (_name, steps, id, mode, expected) => {
    expect(access("share", steps, id, mode)).toBe(expected);
  });

  it.each<[string, Step[], string]>([
    ["leased until its time is over", [acquire(A, 15), 14.999], "leased"],
    ["expired then", expired, "expired"],
    ["breaking until the period is over", [...breaking, 19.999], "breaking"],
    ["broken then", [...breaking, 20], "broken"],
    ["broken, not expired, when both times are over", [acquire(A, 30), breakIn(), 31], "broken"],
  ])("is %s", (_name, steps, state) => {
    const { lease, now } = after("share", steps);
    expect(leaseAt(lease, now).state).toBe(state);
  });
});
