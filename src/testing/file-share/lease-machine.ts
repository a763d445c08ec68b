import { StorageFault } from "./storage-fault.js";
import type { FaultCode } from "./storage-fault.js";

/**
 * The lease of a file or a share: a value, and functions from one value to the next. A file has the smaller state machine: its
 * lease never expires, cannot be renewed and breaks at once.
 */
export interface Lease {
  readonly state: LeaseState;
  /** In lower case. Kept while the lease can still be released, also when it is broken or expired. */
  readonly id?: string | undefined;
  /** -1: infinite. */
  readonly durationInSeconds: number;
  /** When the state changes from leased to expired, or from breaking to broken. */
  readonly endsAt: number;
  /** Distinguishes "lost" from "not present" when a request names an id that is not held. */
  readonly everLeased: boolean;
}

export type LeaseKind = "file" | "share";
type LeaseState = "available" | "leased" | "breaking" | "broken" | "expired";

export type LeaseRequest =
  | { readonly action: "acquire"; readonly id: string; readonly durationInSeconds: number }
  | { readonly action: "renew" | "release"; readonly id: string }
  | { readonly action: "change"; readonly id: string; readonly proposedId: string }
  | { readonly action: "break"; readonly breakPeriodInSeconds?: number | undefined };

export interface LeaseOutcome {
  readonly lease: Lease;
  readonly status: 200 | 201 | 202;
  /** Seconds until a breaking lease is broken; 0 in the response to the release of a share lease. */
  readonly leaseTime?: number | undefined;
}

export const neverLeased: Lease = Object.freeze({ state: "available", durationInSeconds: 0, endsAt: Infinity, everLeased: false });

/** The lease at this time. */
export function leaseAt(lease: Lease, now: number): Lease {
  if (now < lease.endsAt) return lease;
  if (lease.state === "leased") return { ...lease, state: "expired", endsAt: Infinity };
  if (lease.state === "breaking") return { ...lease, state: "broken", endsAt: Infinity };
  return lease;
}

/** Carries out a lease request, or throws the error that the service would return. */
export function applyLease(kind: LeaseKind, stored: Lease, request: LeaseRequest, now: number): LeaseOutcome {
  const lease = leaseAt(stored, now);
  const idMatches = "id" in request && request.id === lease.id;
  switch (request.action) {
    case "acquire": {
      checkDuration(kind, request.durationInSeconds);
      if (lease.state === "leased" && !idMatches) throw rejection(kind, "LeaseAlreadyPresent");
      if (lease.state === "breaking") throw rejection(kind, idMatches ? "LeaseIsBreakingAndCannotBeAcquired" : "LeaseAlreadyPresent");
      return { lease: leased(request.id, request.durationInSeconds, now), status: 201 };
    }
    case "renew": {
      if (kind === "file") throw rejection(kind, "InvalidHeaderValue");
      if (lease.state === "available") throw rejection(kind, "LeaseNotPresentWithLeaseOperation");
      if (!idMatches) throw rejection(kind, "LeaseIdMismatchWithLeaseOperation");
      if (lease.state === "breaking" || lease.state === "broken") throw rejection(kind, "LeaseIsBrokenAndCannotBeRenewed");
      return { lease: leased(request.id, lease.durationInSeconds, now), status: 200 };
    }
    case "change": {
      if (lease.state !== "leased" && lease.state !== "breaking") throw rejection(kind, "LeaseNotPresentWithLeaseOperation");
      // The new id is accepted instead of the old one: a change whose response was lost can be repeated.
      if (!idMatches && request.proposedId !== lease.id) throw rejection(kind, "LeaseIdMismatchWithLeaseOperation");
      if (lease.state === "breaking") throw rejection(kind, "LeaseIsBreakingAndCannotBeChanged");
      return { lease: { ...lease, id: request.proposedId }, status: 200 };
    }
    case "release": {
      if (!idMatches) throw rejection(kind, "LeaseIdMismatchWithLeaseOperation");
      return { lease: available(), status: 200, ...(kind === "share" && { leaseTime: 0 }) };
    }
    case "break":
      return breakLease(kind, lease, request.breakPeriodInSeconds, now);
  }
}

/**
 * Throws if the lease rejects a request on the file or share itself; returns the lease as it is afterwards. Reads need no id, but
 * an id that is given must match.
 */
export function passLease(kind: LeaseKind, stored: Lease, id: string | undefined, access: "read" | "write", now: number): Lease {
  const lease = leaseAt(stored, now);
  const operation = kind === "file" ? "FileOperation" : "ContainerOperation";
  const lost = kind === "file" ? "LeaseLostWithFileOperation" : "LeaseLost";
  if (isLocked(lease)) {
    if (id === undefined && access === "write") throw rejection(kind, "LeaseIdMissing");
    if (id !== undefined && id !== lease.id) throw rejection(kind, `LeaseIdMismatchWith${operation}`);
    return lease;
  }
  if (id !== undefined) throw rejection(kind, lease.everLeased ? lost : `LeaseNotPresentWith${operation}`);
  // A write ends the broken lease of a file. The lease of a share stays broken or expired, and its holder can still release it.
  return kind === "file" && access === "write" && lease.state !== "available" ? available() : lease;
}

export function isLocked(lease: Lease): boolean {
  return lease.state === "leased" || lease.state === "breaking";
}

function breakLease(kind: LeaseKind, lease: Lease, period: number | undefined, now: number): LeaseOutcome {
  if (lease.state === "available") throw rejection(kind, "LeaseNotPresentWithLeaseOperation");
  if (period !== undefined && !(Number.isInteger(period) && period >= 0 && period <= 60)) throw rejection(kind, "InvalidHeaderValue");
  const broken: LeaseOutcome = { lease: { ...lease, state: "broken", endsAt: Infinity }, status: 202, leaseTime: 0 };
  if (kind === "file" || !isLocked(lease)) return broken;

  const infinite = lease.endsAt === Infinity;
  // A break shortens the remaining time and never extends it; an infinite lease has no remaining time to wait for.
  const endsAt = Math.min(lease.endsAt, period === undefined ? (infinite ? now : Infinity) : now + period * 1000);
  // Whole seconds that are left: a break right after a lease of 15 seconds was acquired reports 14.
  return endsAt <= now ? broken : { lease: { ...lease, state: "breaking", endsAt }, status: 202, leaseTime: Math.floor((endsAt - now) / 1000) };
}

function leased(id: string, durationInSeconds: number, now: number): Lease {
  const endsAt = durationInSeconds === -1 ? Infinity : now + durationInSeconds * 1000;
  return { state: "leased", id, durationInSeconds, endsAt, everLeased: true };
}

function available(): Lease {
  return { ...neverLeased, everLeased: true };
}

function checkDuration(kind: LeaseKind, seconds: number): void {
  const fixed = kind === "share" && Number.isInteger(seconds) && seconds >= 15 && seconds <= 60;
  if (seconds !== -1 && !fixed) throw rejection(kind, "InvalidHeaderValue");
}

function rejection(kind: LeaseKind, code: FaultCode): StorageFault {
  return new StorageFault(code, { resource: kind === "file" ? "file" : "file share" });
}
