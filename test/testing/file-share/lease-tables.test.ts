import { describe, expect, it } from "vitest";

import { applyLease, type Lease, leaseAt, type LeaseKind, type LeaseRequest, neverLeased, passLease } from "../../../src/testing/file-share/lease-machine.js";
import { StorageFault } from "../../../src/testing/file-share/storage-fault.js";

/**
 * The outcomes that Microsoft documents for "Lease File" and "Lease Share", by state of the lease: all rows and columns. A, B and C are lease
 * ids, X is one that the service creates. These are the 140 cells of the two articles, and 5 for a break of a share without a period. Where the documentation has 409 for the id of another lease, the service was recorded with 412.
 */
const ids = {
  A: "11111111-1111-1111-1111-111111111111",
  B: "22222222-2222-2222-2222-222222222222",
  C: "33333333-3333-3333-3333-333333333333",
  X: "44444444-4444-4444-4444-444444444444",
} as const;
type Id = keyof typeof ids;

const acquire = (id: Id, durationInSeconds: number): LeaseRequest => ({ action: "acquire", id: ids[id], durationInSeconds });
const start = 1_000_000;

interface Held {
  readonly lease: Lease;
  readonly now: number;
}

const fileStates = (() => {
  const leased = applyLease("file", neverLeased, acquire("A", -1), start).lease;
  return {
    available: { lease: neverLeased, now: start },
    leased: { lease: leased, now: start },
    broken: { lease: applyLease("file", leased, { action: "break" }, start).lease, now: start },
  } satisfies Record<string, Held>;
})();

const shareStates = (() => {
  const leased = applyLease("share", neverLeased, acquire("A", 60), start).lease;
  const breaking = applyLease("share", leased, { action: "break", breakPeriodInSeconds: 20 }, start).lease;
  return {
    available: { lease: neverLeased, now: start },
    leased: { lease: leased, now: start + 10_000 },
    breaking: { lease: breaking, now: start + 10_000 },
    broken: { lease: breaking, now: start + 20_000 },
    expired: { lease: leased, now: start + 60_000 },
  } satisfies Record<string, Held>;
})();

/** `leased A`, `breaking A 10`, or `409 LeaseAlreadyPresent`. */
function described(run: () => { lease: Lease; leaseTime?: number | undefined }): string {
  try {
    const { lease, leaseTime } = run();
    const id = Object.entries(ids).find(([, value]) => value === lease.id)?.[0];
    return [lease.state, id, leaseTime].filter((part) => part !== undefined).join(" ");
  } catch (error) {
    if (error instanceof StorageFault) return `${error.status} ${error.code}`;
    throw error;
  }
}

const operate = (kind: LeaseKind, { lease, now }: Held, request: LeaseRequest): string => described(() => applyLease(kind, lease, request, now));
const use = (kind: LeaseKind, { lease, now }: Held, id: Id | undefined, access: "read" | "write"): string =>
  described(() => ({ lease: passLease(kind, lease, id && ids[id], access, now) }));

type LeaseStep = [name: string, request: LeaseRequest];
const requests = {
  "Acquire, no proposed id": acquire("X", -1),
  "Acquire A": acquire("A", -1),
  "Acquire B": acquire("B", -1),
  "Break": { action: "break" },
  "Break, period 0": { action: "break", breakPeriodInSeconds: 0 },
  "Break, period 10": { action: "break", breakPeriodInSeconds: 10 },
  "Change A to B": { action: "change", id: ids.A, proposedId: ids.B },
  "Change B to A": { action: "change", id: ids.B, proposedId: ids.A },
  "Change B to C": { action: "change", id: ids.B, proposedId: ids.C },
  "Renew A": { action: "renew", id: ids.A },
  "Renew B": { action: "renew", id: ids.B },
  "Release A": { action: "release", id: ids.A },
  "Release B": { action: "release", id: ids.B },
} as const satisfies Record<LeaseStep[0], LeaseRequest>;

const present = "409 LeaseAlreadyPresent";
const absent = "409 LeaseNotPresentWithLeaseOperation";
const otherId = "409 LeaseIdMismatchWithLeaseOperation";

describe("Lease File: lease operations by lease state", () => {
  const table: [keyof typeof requests, Record<keyof typeof fileStates, string>][] = [
    ["Acquire, no proposed id", { available: "leased X", leased: present, broken: "leased X" }],
    ["Acquire A", { available: "leased A", leased: "leased A", broken: "leased A" }],
    ["Acquire B", { available: "leased B", leased: present, broken: "leased B" }],
    ["Break", { available: absent, leased: "broken A 0", broken: "broken A 0" }],
    ["Change A to B", { available: absent, leased: "leased B", broken: absent }],
    ["Change B to A", { available: absent, leased: "leased A", broken: absent }],
    ["Change B to C", { available: absent, leased: otherId, broken: absent }],
    ["Release A", { available: otherId, leased: "available", broken: "available" }],
    ["Release B", { available: otherId, leased: otherId, broken: otherId }],
  ];
  it.each(rows(table, fileStates))("%s, %s: %s", (request, state, expected) => {
    expect(operate("file", fileStates[state], requests[request])).toBe(expected);
  });
});

describe("Lease File: use of the file by lease state", () => {
  const never = "412 LeaseNotPresentWithFileOperation";
  const lost = "412 LeaseLostWithFileOperation";
  const other = "412 LeaseIdMismatchWithFileOperation";
  const uses = {
    "write with A": ["A", "write"],
    "write with B": ["B", "write"],
    "write without an id": [undefined, "write"],
    "read with A": ["A", "read"],
    "read with B": ["B", "read"],
    "read without an id": [undefined, "read"],
  } as const;
  const table: [keyof typeof uses, Record<keyof typeof fileStates, string>][] = [
    ["write with A", { available: never, leased: "leased A", broken: lost }],
    ["write with B", { available: never, leased: other, broken: lost }],
    ["write without an id", { available: "available", leased: "412 LeaseIdMissing", broken: "available" }],
    ["read with A", { available: never, leased: "leased A", broken: lost }],
    ["read with B", { available: never, leased: other, broken: lost }],
    ["read without an id", { available: "available", leased: "leased A", broken: "broken A" }],
  ];
  it.each(rows(table, fileStates))("%s, %s: %s", (name, state, expected) => {
    const [id, access] = uses[name];
    expect(use("file", fileStates[state], id, access)).toBe(expected);
  });
});

describe("Lease Share: lease operations by lease state", () => {
  const breaking = "409 LeaseIsBreakingAndCannotBeAcquired";
  const unchangeable = "409 LeaseIsBreakingAndCannotBeChanged";
  const broken = "409 LeaseIsBrokenAndCannotBeRenewed";
  const table: [keyof typeof requests, Record<keyof typeof shareStates, string>][] = [
    ["Acquire, no proposed id", { available: "leased X", leased: present, breaking: present, broken: "leased X", expired: "leased X" }],
    ["Acquire A", { available: "leased A", leased: "leased A", breaking, broken: "leased A", expired: "leased A" }],
    ["Acquire B", { available: "leased B", leased: present, breaking: present, broken: "leased B", expired: "leased B" }],
    ["Break", { available: absent, leased: "breaking A 50", breaking: "breaking A 10", broken: "broken A 0", expired: "broken A 0" }],
    ["Break, period 0", { available: absent, leased: "broken A 0", breaking: "broken A 0", broken: "broken A 0", expired: "broken A 0" }],
    ["Break, period 10", { available: absent, leased: "breaking A 10", breaking: "breaking A 10", broken: "broken A 0", expired: "broken A 0" }],
    ["Change A to B", { available: absent, leased: "leased B", breaking: unchangeable, broken: absent, expired: absent }],
    ["Change B to A", { available: absent, leased: "leased A", breaking: unchangeable, broken: absent, expired: absent }],
    ["Change B to C", { available: absent, leased: otherId, breaking: otherId, broken: absent, expired: absent }],
    ["Renew A", { available: absent, leased: "leased A", breaking: broken, broken, expired: "leased A" }],
    ["Renew B", { available: absent, leased: otherId, breaking: otherId, broken: otherId, expired: otherId }],
    ["Release A", { available: otherId, leased: "available 0", breaking: "available 0", broken: "available 0", expired: "available 0" }],
    ["Release B", { available: otherId, leased: otherId, breaking: otherId, broken: otherId, expired: otherId }],
  ];
  it.each(rows(table, shareStates))("%s, %s: %s", (request, state, expected) => {
    expect(operate("share", shareStates[state], requests[request])).toBe(expected);
  });

  it.each([
    ["available", "available"],
    ["leased", "expired A"],
    ["breaking", "broken A"],
    ["broken", "broken A"],
    ["expired", "expired A"],
  ] as const)("the time is over, %s: %s", (state, expected) => {
    const { lease, now } = shareStates[state];
    expect(described(() => ({ lease: leaseAt(lease, now + 60_000) }))).toBe(expected);
  });
});

describe("Lease Share: use of the share by lease state", () => {
  const never = "412 LeaseNotPresentWithContainerOperation";
  const lost = "412 LeaseLost";
  const other = "412 LeaseIdMismatchWithContainerOperation";
  const missing = "412 LeaseIdMissing";
  const uses = {
    "write with A": ["A", "write"],
    "write with B": ["B", "write"],
    "write without an id": [undefined, "write"],
    "read with A": ["A", "read"],
    "read with B": ["B", "read"],
    "read without an id": [undefined, "read"],
  } as const;
  const table: [keyof typeof uses, Record<keyof typeof shareStates, string>][] = [
    ["write with A", { available: never, leased: "leased A", breaking: "breaking A", broken: lost, expired: lost }],
    ["write with B", { available: never, leased: other, breaking: other, broken: lost, expired: lost }],
    ["write without an id", { available: "available", leased: missing, breaking: missing, broken: "broken A", expired: "expired A" }],
    ["read with A", { available: never, leased: "leased A", breaking: "breaking A", broken: lost, expired: lost }],
    ["read with B", { available: never, leased: other, breaking: other, broken: lost, expired: lost }],
    ["read without an id", { available: "available", leased: "leased A", breaking: "breaking A", broken: "broken A", expired: "expired A" }],
  ];
  it.each(rows(table, shareStates))("%s, %s: %s", (name, state, expected) => {
    const [id, access] = uses[name];
    expect(use("share", shareStates[state], id, access)).toBe(expected);
  });
});

/** One row for each cell of a table. */
function rows<Name extends string, State extends string>(table: readonly [Name, Record<State, string>][], states: Record<State, unknown>): [Name, State, string][] {
  return table.flatMap(([name, cells]) => (Object.keys(states) as State[]).map((state): [Name, State, string] => [name, state, cells[state]]));
}
