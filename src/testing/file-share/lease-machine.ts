import { StorageFault } from "./storage-fault.js";
import type { FaultCode } from "./storage-fault.js";

/**
 * The lease of a file or a share: a value, and functions from one value to the next. A file has the smaller machine:
 * its lease never expires, cannot be renewed and breaks at once.
 */
export interface Lease {
  readonly state: LeaseState;
  /** Lower case. Kept while it can still be released, also when broken or expired. */
  readonly id?: string | undefined;
  /** -1 is for ever. */
  readonly durationInSeconds: number;
  /** When a leased one expires, or a breaking one is broken. */
  readonly endsAt: number;
  /** Tells "lost" from "not present" when somebody names an id that is not held. */
  readonly everLeased: boolean;
}

export type LeaseKind = "file" | "share";
type LeaseState = "available" | "leased" | "breaking" | "broken" | "expired";

export type LeaseRequest =
  | { readonly action: "acquire"; readonly id: string; readonly durationInSeconds: number }
  | { readonly action: "renew" | "release"; readonly id: string }
  | { readonly action: "change"; readonly id: string; readonly proposedId: string }
  | { readonly action: "break"; readonly periodInSeconds?: number | undefined };

export interface LeaseOutcome {
  readonly lease: Lease;
  readonly status: 200 | 201 | 202;
  /** Seconds until a broken lease is really broken. */
  readonly leaseTime?: number | undefined;
}

export const neverLeased: Lease = Object.freeze({ state: "available", durationInSeconds: 0, endsAt: Infinity, everLeased: false });

/** What has become of a lease by now. */
export function leaseAt(lease: Lease, now: number): Lease {
  if (now < lease.endsAt) return lease;
  if (lease.state === "leased") return { ...lease, state: "expired", endsAt: Infinity };
  if (lease.state === "breaking") return { ...lease, state: "broken", endsAt: Infinity };
  return lease;
}

/** Carries out a lease request, or throws the fault that the service would answer with. */
export function applyLease(kind: LeaseKind, stored: Lease, request: LeaseRequest, now: number): LeaseOutcome {
  const lease = leaseAt(stored, now);
  const ours = "id" in request && request.id === lease.id;
  switch (request.action) {
    case "acquire": {
      checkDuration(kind, request.durationInSeconds);
      if (lease.state === "leased" && !ours) throw refusal(kind, "LeaseAlreadyPresent");
      if (lease.state === "breaking") throw refusal(kind, ours ? "LeaseIsBreakingAndCannotBeAcquired" : "LeaseAlreadyPresent");
      return { lease: leased(request.id, request.durationInSeconds, now), status: 201 };
    }
    case "renew": {
      if (kind === "file") throw refusal(kind, "InvalidHeaderValue");
      if (lease.state === "available") throw refusal(kind, "LeaseNotPresentWithLeaseOperation");
      if (!ours) throw refusal(kind, "LeaseIdMismatchWithLeaseOperation");
      if (lease.state === "breaking" || lease.state === "broken") throw refusal(kind, "LeaseIsBrokenAndCannotBeRenewed");
      return { lease: leased(request.id, lease.durationInSeconds, now), status: 200 };
    }
    case "change": {
      if (lease.state !== "leased" && lease.state !== "breaking") throw refusal(kind, "LeaseNotPresentWithLeaseOperation");
      // The new id is accepted for the old one: a change whose answer was lost can be repeated.
      if (!ours && request.proposedId !== lease.id) throw refusal(kind, "LeaseIdMismatchWithLeaseOperation");
      if (lease.state === "breaking") throw refusal(kind, "LeaseIsBreakingAndCannotBeChanged");
      return { lease: { ...lease, id: request.proposedId }, status: 200 };
    }
    case "release": {
      if (!ours) throw refusal(kind, "LeaseIdMismatchWithLeaseOperation");
      return { lease: available(), status: 200 };
    }
    case "break":
      return breakLease(kind, lease, request.periodInSeconds, now);
  }
}

/**
 * Whether a request on the file or share itself passes the lease; returns the lease as it is afterwards. Reads need
 * no id, but one that is named must be right.
 */
export function passLease(kind: LeaseKind, stored: Lease, id: string | undefined, access: "read" | "write", now: number): Lease {
  const lease = leaseAt(stored, now);
  const operation = kind === "file" ? "FileOperation" : "ContainerOperation";
  if (isLocked(lease)) {
    if (id === undefined && access === "write") throw refusal(kind, "LeaseIdMissing");
    if (id !== undefined && id !== lease.id) throw refusal(kind, `LeaseIdMismatchWith${operation}`);
    return lease;
  }
  if (id !== undefined) throw refusal(kind, lease.everLeased ? `LeaseLostWith${operation}` : `LeaseNotPresentWith${operation}`);
  return access === "write" && lease.state !== "available" ? available() : lease;
}

export function isLocked(lease: Lease): boolean {
  return lease.state === "leased" || lease.state === "breaking";
}

function breakLease(kind: LeaseKind, lease: Lease, period: number | undefined, now: number): LeaseOutcome {
  if (lease.state === "available") throw refusal(kind, "LeaseNotPresentWithLeaseOperation");
  if (period !== undefined && !(Number.isInteger(period) && period >= 0 && period <= 60)) throw refusal(kind, "InvalidHeaderValue");
  const broken: LeaseOutcome = { lease: { ...lease, state: "broken", endsAt: Infinity }, status: 202, leaseTime: 0 };
  if (kind === "file" || !isLocked(lease)) return broken;

  const infinite = lease.endsAt === Infinity;
  // A break shortens what is left and never prolongs it; an infinite lease has no rest that could be waited for.
  const endsAt = Math.min(lease.endsAt, period === undefined ? (infinite ? now : Infinity) : now + period * 1000);
  const leaseTime = Math.ceil((endsAt - now) / 1000);
  return leaseTime <= 0 ? broken : { lease: { ...lease, state: "breaking", endsAt }, status: 202, leaseTime };
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
  if (seconds !== -1 && !fixed) throw refusal(kind, "InvalidHeaderValue");
}

function refusal(kind: LeaseKind, code: FaultCode): StorageFault {
  return new StorageFault(code, { resource: kind === "file" ? "file" : "file share" });
}
