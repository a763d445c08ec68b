import { LeaseUnavailableError, TargetNotFoundError } from "../errors.js";
import { isLeaseConflict, isMissingParent, isOtherKind, leaseProblemOf } from "../internal/storage-errors.js";

/** Turns what the service says about leases and missing parents into errors that name the target and the remedy. */
export function explain(error: unknown, url: string): unknown {
  if (isLeaseConflict(error)) {
    return new LeaseUnavailableError(`${url} ${leaseProblems[leaseProblemOf(error)]}`, { url, cause: error });
  }
  if (isOtherKind(error)) {
    return new TargetNotFoundError(`there is no file ${url}: a directory has that name`, { url, cause: error });
  }
  if (isMissingParent(error)) {
    return new TargetNotFoundError(`what contains ${url} does not exist: create it first`, { url, cause: error });
  }
  return error;
}

const leaseProblems = {
  missing: "is leased: pass conditions: { leaseId } if the lease is yours, or wait until it is released",
  absent: "is not leased: the lease that conditions.leaseId names has ended, or was on something else",
  mismatch: "is leased by somebody else: conditions.leaseId is not the id of its lease",
} as const;
