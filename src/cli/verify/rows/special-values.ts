import type { SdkResponse } from "../exchange.js";
import type { Row } from "../row.js";
import type { BlobSubject } from "./blob.js";

/** A blob of three bytes, a page blob with sequence number 5, an append blob of three bytes, a block blob with a lease, or none. */
export type SpecialState = "none" | "block" | "page" | "append" | "leased";

export interface SpecialValueRow extends Row {
  readonly response: string;
  readonly azuriteResponse?: string;
  readonly given: SpecialState;
  readonly call: (subject: BlobSubject) => Promise<SdkResponse>;
}

export const specialLeaseId = "3a3a1b1e-5d8e-4c55-9f5c-1d2e3f4a5b66";

type Call = Pick<SpecialValueRow, "given" | "call">;

const stale = '"0x8D0000000000000"';
const put = (given: SpecialState, conditions: object): Call => ({ given, call: ({ block }) => block.upload("new", 3, { conditions }) });
const putPage = (conditions: object): Call => ({ given: "page", call: ({ page }) => page.uploadPages(Buffer.alloc(512), 0, 512, { conditions }) });
const append = (conditions: object): Call => ({ given: "append", call: ({ append: blob }) => blob.appendBlock("xyz", 3, { conditions }) });
const otherTags = { conditions: { tagConditions: "\"a\" = 'other'" } };

const create = "`createIfNotExists`";

/** Conditions with a meaning of their own, and those of one kind of blob. */
export const specialValueRows: readonly SpecialValueRow[] = [
  { operation: "Put Blob, If-None-Match: *, no such blob", response: "201", helper: create, ...put("none", { ifNoneMatch: "*" }) },
  {
    operation: "Put Blob, If-None-Match: *, the blob exists",
    source: "recorded",
    response: "409 BlobAlreadyExists",
    helper: create,
    ...put("block", { ifNoneMatch: "*" }),
  },
  {
    operation: "Put Blob, If-None-Match: *, the blob is leased, no id",
    source: "recorded",
    response: "412 LeaseIdMissing",
    azuriteResponse: "409 BlobAlreadyExists",
    azurite: "409 BlobAlreadyExists",
    helper: create,
    ...put("leased", { ifNoneMatch: "*" }),
  },
  {
    operation: "Put Blob, If-None-Match: *, the blob is leased, with its id",
    source: "recorded",
    response: "201",
    azuriteResponse: "409 BlobAlreadyExists",
    note: "overwrites",
    azurite: "409 BlobAlreadyExists",
    ...put("leased", { ifNoneMatch: "*", leaseId: specialLeaseId }),
  },
  { operation: "Put Blob, If-Match: *, the blob exists", source: "measured on Azurite", response: "201", ...put("block", { ifMatch: "*" }) },
  {
    operation: "Put Blob, If-Match: *, no such blob",
    source: "believed",
    response: "412 ConditionNotMet",
    azuriteResponse: "201",
    azurite: "201: creates it",
    ...put("none", { ifMatch: "*" }),
  },
  { operation: "Put Blob, If-Match: an ETag, no such blob", source: "measured on Azurite", response: "412 ConditionNotMet", ...put("none", { ifMatch: stale }) },
  {
    operation: "Put Blob, If-Match does not hold, and the blob is leased, no id",
    source: "believed",
    response: "412 LeaseIdMissing",
    azuriteResponse: "412 ConditionNotMet",
    note: "that the lease is checked before the conditions is recorded for If-None-Match: * only",
    azurite: "412 ConditionNotMet: checks the conditions before the lease",
    helper: "`optimisticUpdate` throws a `LeaseUnavailableError` if the lease is the reason",
    ...put("leased", { ifMatch: stale }),
  },
  { operation: "Append Block, the position is right", response: "201", helper: "`appendExactlyOnce`", ...append({ appendPosition: 3 }) },
  {
    operation: "Append Block, the position is not",
    response: "412 AppendPositionConditionNotMet",
    helper: "`appendExactlyOnce`",
    ...append({ appendPosition: 2 }),
  },
  { operation: "Append Block, within the maximal size", response: "201", ...append({ maxSize: 6 }) },
  { operation: "Append Block, beyond the maximal size", response: "412 MaxBlobSizeConditionNotMet", ...append({ maxSize: 5 }) },
  { operation: "Put Page, sequence number equal", response: "201", helper: "`claimPages`", ...putPage({ ifSequenceNumberEqualTo: 5 }) },
  {
    operation: "Put Page, sequence number not equal",
    response: "412 SequenceNumberConditionNotMet",
    helper: "`claimPages`",
    ...putPage({ ifSequenceNumberEqualTo: 4 }),
  },
  { operation: "Put Page, sequence number at most this", response: "201", ...putPage({ ifSequenceNumberLessThanOrEqualTo: 5 }) },
  {
    operation: "Put Page, sequence number more than this",
    response: "412 SequenceNumberConditionNotMet",
    ...putPage({ ifSequenceNumberLessThanOrEqualTo: 4 }),
  },
  { operation: "Put Page, sequence number less than this", response: "201", ...putPage({ ifSequenceNumberLessThan: 6 }) },
  {
    operation: "Put Page, sequence number not less than this",
    response: "412 SequenceNumberConditionNotMet",
    ...putPage({ ifSequenceNumberLessThan: 5 }),
  },
  {
    operation: "Get Blob, x-ms-if-tags does not hold",
    response: "412 ConditionNotMet",
    given: "block",
    call: ({ block }) => block.getProperties(otherTags),
  },
  {
    operation: "Put Blob, x-ms-if-tags does not hold",
    response: "412 ConditionNotMet",
    ...put("block", otherTags.conditions),
  },
  {
    operation: "Set Blob Metadata, x-ms-if-tags does not hold",
    response: "412 ConditionNotMet",
    given: "block",
    call: ({ block }) => block.setMetadata({}, otherTags),
  },
];
