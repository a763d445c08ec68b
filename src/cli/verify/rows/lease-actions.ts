import type { BlobLeaseClient } from "@azure/storage-blob";

import type { SdkResponse } from "../exchange.js";
import type { Row } from "../row.js";

export type LeaseState = "available" | "leased" | "breaking" | "broken" | "expired";

export interface LeaseActionRow extends Row {
  readonly given: LeaseState;
  readonly response: string;
  readonly azuriteResponse?: string;
  /** The lease is held, or was held, with the id of the first client. */
  readonly call: (own: BlobLeaseClient, other: BlobLeaseClient) => Promise<SdkResponse>;
}

/** Lease Blob and Lease Container, which response alike. */
export const leaseActionRows: readonly LeaseActionRow[] = [
  { operation: "acquire", given: "available", response: "201", call: (own) => own.acquireLease(-1) },
  { operation: "acquire by another", given: "leased", response: "409 LeaseAlreadyPresent", call: (_own, other) => other.acquireLease(15) },
  { operation: "acquire again with the same id", given: "leased", response: "201", call: (own) => own.acquireLease(-1) },
  { operation: "renew", given: "leased", response: "200", call: (own) => own.renewLease() },
  { operation: "renew by another", given: "leased", source: "documented; measured on Azurite: the code", response: "409 LeaseIdMismatchWithLeaseOperation", call: (_own, other) => other.renewLease() },
  { operation: "change by another", given: "leased", source: "documented; measured on Azurite: the code", response: "409 LeaseIdMismatchWithLeaseOperation", call: (_own, other) => other.changeLease(thirdId) },
  { operation: "release", given: "leased", response: "200", call: (own) => own.releaseLease() },
  { operation: "release by another", given: "leased", source: "documented; measured on Azurite: the code", response: "409 LeaseIdMismatchWithLeaseOperation", call: (_own, other) => other.releaseLease() },
  { operation: "break, which needs no id", given: "leased", response: "202", call: (_own, other) => other.breakLease(0) },
  { operation: "break", given: "available", response: "409 LeaseNotPresentWithLeaseOperation", call: (_own, other) => other.breakLease(0) },
  { operation: "renew", given: "breaking", response: "409 LeaseIsBrokenAndCannotBeRenewed", call: (own) => own.renewLease() },
  { operation: "acquire by another", given: "breaking", response: "409 LeaseAlreadyPresent", call: (_own, other) => other.acquireLease(15) },
  { operation: "acquire again with the same id", given: "breaking", response: "409 LeaseIsBreakingAndCannotBeAcquired", call: (own) => own.acquireLease(15) },
  { operation: "release", given: "breaking", response: "200", call: (own) => own.releaseLease() },
  { operation: "renew", given: "broken", response: "409 LeaseIsBrokenAndCannotBeRenewed", call: (own) => own.renewLease() },
  { operation: "acquire by another", given: "broken", response: "201", call: (_own, other) => other.acquireLease(15) },
  { operation: "renew", given: "expired", note: "if no client has acquired the lease or written since", response: "200", call: (own) => own.renewLease() },
  {
    operation: "acquire by another",
    given: "expired",
    note: "Microsoft documents that a client may have to wait for up to one minute after the expiry; with the expired id, it can renew at once",
    azurite: "never has to wait",
    response: "201",
    call: (_own, other) => other.acquireLease(15),
  },
  {
    operation: "renew by another",
    given: "expired",
    source: "documented; believed: the code",
    response: "409 LeaseIdMismatchWithLeaseOperation",
    azuriteResponse: "200",
    azurite: "200, with the id of the holder",
    helper: "`LeaseHandle` treats a response with another id as a loss",
    call: (_own, other) => other.renewLease(),
  },
];

export const ownId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d01";
export const otherId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d02";
const thirdId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d03";
