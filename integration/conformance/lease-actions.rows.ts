import type { BlobLeaseClient } from "@azure/storage-blob";

import type { Answered } from "./exchange.js";
import type { Row } from "./row.js";

export type LeaseState = "available" | "leased" | "breaking" | "broken" | "expired";

export interface LeaseActionRow extends Row {
  readonly given: LeaseState;
  readonly answer: string;
  readonly azuriteAnswer?: string;
  /** The lease is held, or was held, with the id of the first client. */
  readonly call: (own: BlobLeaseClient, other: BlobLeaseClient) => Promise<Answered>;
}

/** Lease Blob and Lease Container, which answer alike. */
export const leaseActionRows: readonly LeaseActionRow[] = [
  { operation: "acquire", given: "available", answer: "201", call: (own) => own.acquireLease(-1) },
  { operation: "acquire by another", given: "leased", answer: "409 LeaseAlreadyPresent", call: (_own, other) => other.acquireLease(15) },
  { operation: "acquire again with the same id", given: "leased", answer: "201", call: (own) => own.acquireLease(-1) },
  { operation: "renew", given: "leased", answer: "200", call: (own) => own.renewLease() },
  { operation: "renew by another", given: "leased", answer: "409 LeaseIdMismatchWithLeaseOperation", call: (_own, other) => other.renewLease() },
  { operation: "change by another", given: "leased", answer: "409 LeaseIdMismatchWithLeaseOperation", call: (_own, other) => other.changeLease(thirdId) },
  { operation: "release", given: "leased", answer: "200", call: (own) => own.releaseLease() },
  { operation: "release by another", given: "leased", answer: "409 LeaseIdMismatchWithLeaseOperation", call: (_own, other) => other.releaseLease() },
  { operation: "break, which needs no id", given: "leased", answer: "202", call: (_own, other) => other.breakLease(0) },
  { operation: "break", given: "available", answer: "409 LeaseNotPresentWithLeaseOperation", call: (_own, other) => other.breakLease(0) },
  { operation: "renew", given: "breaking", answer: "409 LeaseIsBrokenAndCannotBeRenewed", call: (own) => own.renewLease() },
  { operation: "acquire by another", given: "breaking", answer: "409 LeaseAlreadyPresent", call: (_own, other) => other.acquireLease(15) },
  { operation: "acquire again with the same id", given: "breaking", answer: "409 LeaseIsBreakingAndCannotBeAcquired", call: (own) => own.acquireLease(15) },
  { operation: "release", given: "breaking", answer: "200", call: (own) => own.releaseLease() },
  { operation: "renew", given: "broken", answer: "409 LeaseIsBrokenAndCannotBeRenewed", call: (own) => own.renewLease() },
  { operation: "acquire by another", given: "broken", answer: "201", call: (_own, other) => other.acquireLease(15) },
  { operation: "renew", given: "expired", note: "if no client has acquired the lease or written since", answer: "200", call: (own) => own.renewLease() },
  { operation: "acquire by another", given: "expired", answer: "201", call: (_own, other) => other.acquireLease(15) },
  {
    operation: "renew by another",
    given: "expired",
    answer: "409 LeaseIdMismatchWithLeaseOperation",
    azuriteAnswer: "200",
    azurite: "200, with the id of the holder",
    helper: "`LeaseHandle` treats a response with another id as a loss",
    call: (_own, other) => other.renewLease(),
  },
];

export const ownId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d01";
export const otherId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d02";
const thirdId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d03";
