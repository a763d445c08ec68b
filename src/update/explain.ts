import { LeaseUnavailableError, TargetNotFoundError } from "../errors.js";
import { isLeaseConflict, isMissingParent, isOtherKind } from "../internal/storage-errors.js";

/** Turns what the service says about leases and missing parents into errors that name the target and the remedy. */
export function explain(error: unknown, url: string): unknown {
  if (isLeaseConflict(error)) {
    return new LeaseUnavailableError(
      `${url} is leased: pass conditions: { leaseId } if the lease is yours, or wait until it is released`,
      { url, cause: error },
    );
  }
  if (isOtherKind(error)) {
    return new TargetNotFoundError(`there is no file ${url}: a directory has that name`, { url, cause: error });
  }
  if (isMissingParent(error)) {
    return new TargetNotFoundError(`what contains ${url} does not exist: create it first`, { url, cause: error });
  }
  return error;
}
