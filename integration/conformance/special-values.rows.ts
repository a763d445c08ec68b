import type { ContainerClient } from "@azure/storage-blob";

import type { Answered } from "./exchange.js";
import type { Row } from "./row.js";

/** A container with a blob of each kind: `block`, `page` (sequence number 5), `append` (3 bytes), and `leased`. */
export interface SpecialSubject {
  readonly container: ContainerClient;
  readonly leaseId: string;
}

export interface SpecialValueRow extends Row {
  readonly answer: string;
  readonly azuriteAnswer?: string;
  readonly call: (subject: SpecialSubject) => Promise<Answered>;
}

const stale = '"0x8D0000000000000"';
const put = ({ container }: SpecialSubject, blob: string, conditions: object): Promise<Answered> =>
  container.getBlockBlobClient(blob).upload("new", 3, { conditions });
const putPage = ({ container }: SpecialSubject, conditions: object): Promise<Answered> =>
  container.getPageBlobClient("page").uploadPages(Buffer.alloc(512), 0, 512, { conditions });
const append = ({ container }: SpecialSubject, conditions: object): Promise<Answered> =>
  container.getAppendBlobClient("append").appendBlock("xyz", 3, { conditions });

const create = "`createIfNotExists`";

/** Conditions with a meaning of their own, and those of one kind of blob. */
export const specialValueRows: readonly SpecialValueRow[] = [
  { operation: "Put Blob, If-None-Match: *, no such blob", answer: "201", helper: create, call: (s) => put(s, "new", { ifNoneMatch: "*" }) },
  {
    operation: "Put Blob, If-None-Match: *, the blob exists",
    answer: "409 BlobAlreadyExists",
    helper: create,
    call: (s) => put(s, "block", { ifNoneMatch: "*" }),
  },
  {
    operation: "Put Blob, If-None-Match: *, the blob is leased, no id",
    answer: "412 LeaseIdMissing",
    azuriteAnswer: "409 BlobAlreadyExists",
    azurite: "409 BlobAlreadyExists",
    helper: create,
    call: (s) => put(s, "leased", { ifNoneMatch: "*" }),
  },
  {
    operation: "Put Blob, If-None-Match: *, the blob is leased, with its id",
    answer: "201",
    azuriteAnswer: "409 BlobAlreadyExists",
    note: "overwrites",
    azurite: "409 BlobAlreadyExists",
    call: (s) => put(s, "leased", { ifNoneMatch: "*", leaseId: s.leaseId }),
  },
  { operation: "Put Blob, If-Match: *, the blob exists", answer: "201", call: (s) => put(s, "block", { ifMatch: "*" }) },
  {
    operation: "Put Blob, If-Match: *, no such blob",
    answer: "412 ConditionNotMet",
    azuriteAnswer: "201",
    azurite: "201: creates it",
    call: (s) => put(s, "new", { ifMatch: "*" }),
  },
  { operation: "Put Blob, If-Match: an ETag, no such blob", answer: "412 ConditionNotMet", call: (s) => put(s, "new", { ifMatch: stale }) },
  {
    operation: "Put Blob, If-Match does not hold, and the blob is leased, no id",
    answer: "412 LeaseIdMissing",
    azuriteAnswer: "412 ConditionNotMet",
    azurite: "412 ConditionNotMet: checks the conditions before the lease",
    helper: "`optimisticUpdate` throws a `LeaseUnavailableError` if the lease is the reason",
    call: (s) => put(s, "leased", { ifMatch: stale }),
  },
  { operation: "Append Block, the position is right", answer: "201", helper: "`appendExactlyOnce`", call: (s) => append(s, { appendPosition: 3 }) },
  {
    operation: "Append Block, the position is not",
    answer: "412 AppendPositionConditionNotMet",
    helper: "`appendExactlyOnce`",
    call: (s) => append(s, { appendPosition: 2 }),
  },
  { operation: "Append Block, within the maximal size", answer: "201", call: (s) => append(s, { maxSize: 6 }) },
  { operation: "Append Block, beyond the maximal size", answer: "412 MaxBlobSizeConditionNotMet", call: (s) => append(s, { maxSize: 5 }) },
  { operation: "Put Page, sequence number equal", answer: "201", helper: "`claimPages`", call: (s) => putPage(s, { ifSequenceNumberEqualTo: 5 }) },
  {
    operation: "Put Page, sequence number not equal",
    answer: "412 SequenceNumberConditionNotMet",
    helper: "`claimPages`",
    call: (s) => putPage(s, { ifSequenceNumberEqualTo: 4 }),
  },
  { operation: "Put Page, sequence number at most this", answer: "201", call: (s) => putPage(s, { ifSequenceNumberLessThanOrEqualTo: 5 }) },
  {
    operation: "Put Page, sequence number more than this",
    answer: "412 SequenceNumberConditionNotMet",
    call: (s) => putPage(s, { ifSequenceNumberLessThanOrEqualTo: 4 }),
  },
  { operation: "Put Page, sequence number less than this", answer: "201", call: (s) => putPage(s, { ifSequenceNumberLessThan: 6 }) },
  {
    operation: "Put Page, sequence number not less than this",
    answer: "412 SequenceNumberConditionNotMet",
    call: (s) => putPage(s, { ifSequenceNumberLessThan: 5 }),
  },
  {
    operation: "Get Blob, x-ms-if-tags does not hold",
    answer: "412 ConditionNotMet",
    call: (s) => s.container.getBlockBlobClient("block").getProperties({ conditions: { tagConditions: "\"a\" = 'other'" } }),
  },
  {
    operation: "Put Blob, x-ms-if-tags does not hold",
    answer: "412 ConditionNotMet",
    call: (s) => put(s, "block", { tagConditions: "\"a\" = 'other'" }),
  },
  {
    operation: "Set Blob Metadata, x-ms-if-tags does not hold",
    answer: "412 ConditionNotMet",
    call: (s) => s.container.getBlockBlobClient("block").setMetadata({}, { conditions: { tagConditions: "\"a\" = 'other'" } }),
  },
];
