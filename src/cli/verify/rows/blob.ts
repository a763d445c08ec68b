import type { AppendBlobClient, BlockBlobClient, PageBlobClient } from "@azure/storage-blob";

import type { SdkResponse } from "../exchange.js";
import { allConditions, type ConditionName, type Conditions, type ConditionRow, none } from "../row.js";

/** One blob, through the client of each kind; only that of the row's kind will do. */
export interface BlobSubject {
  readonly block: BlockBlobClient;
  readonly page: PageBlobClient;
  readonly append: AppendBlobClient;
  /** Another block blob, to copy from. */
  readonly source: BlockBlobClient;
}

/** `leaseId` is a condition like the others, to the SDK. */
export type BlobConditions = Conditions & { leaseId?: string };

export interface BlobRow extends ConditionRow {
  /** @defaultValue "block" */
  readonly kind?: "block" | "page" | "append";
  /** What must be there before the call; it leaves the ETag as it is. */
  readonly before?: (subject: BlobSubject) => Promise<unknown>;
  /** The conditions are about the source of the copy. */
  readonly ofSource?: boolean;
  readonly call: (subject: BlobSubject, conditions: BlobConditions) => Promise<SdkResponse>;
}

export const blobLeaseId = "0d4d1ac1-90a2-4b8a-9d9c-4f3b4c1c4f11";
const otherLeaseId = "7b8b7e0e-6f7c-4d3e-8a59-3a3d0a3a7a22";
const blockId = Buffer.from("block").toString("base64");
const pageOfZeros = Buffer.alloc(512);

const lease = ({ block }: BlobSubject): Promise<unknown> => block.getBlobLeaseClient(blobLeaseId).acquireLease(-1);
const stage = ({ block }: BlobSubject): Promise<unknown> => block.stageBlock(blockId, "x", 1);

/** Azurite treats some operations as reads that are none. */
const asRead = { "If-None-Match": "304 ConditionNotMet", "If-Modified-Since": "304 ConditionNotMet" } as const;
const allRejectedWith = (response: string): Record<ConditionName, string> => ({
  "If-Match": response, "If-None-Match": response, "If-Modified-Since": response, "If-Unmodified-Since": response,
});

/** Blob operations: who returns an ETag, who changes it, and who takes conditions. */
export const blobRows: readonly BlobRow[] = [
  {
    operation: "Put Blob",
    returnsETag: true,
    changesETag: true,
    accepts: allConditions,
    helper: "`optimisticUpdate(jsonBlob | textBlob | bytesBlob)`, `createIfNotExists`, `overwrite`",
    call: ({ block }, conditions) => block.upload("new", 3, { conditions }),
  },
  {
    operation: "Get Blob",
    returnsETag: true,
    changesETag: false,
    reads: true,
    accepts: allConditions,
    helper: "`readTarget`, `watch`, `downloadConsistent`",
    call: async ({ block }, conditions) => {
      const response = await block.download(0, undefined, { conditions });
      response.readableStreamBody?.resume();
      return response;
    },
  },
  {
    operation: "Get Blob Properties",
    returnsETag: true,
    changesETag: false,
    reads: true,
    accepts: allConditions,
    helper: "`readTarget(blobHttpHeaders)`, `inspectLease`",
    call: ({ block }, conditions) => block.getProperties({ conditions }),
  },
  {
    operation: "Set Blob Properties",
    returnsETag: true,
    changesETag: true,
    accepts: allConditions,
    helper: "`optimisticUpdate(blobHttpHeaders)`",
    call: ({ block }, conditions) => block.setHTTPHeaders({ blobContentType: "text/plain" }, { conditions }),
  },
  {
    operation: "Get Blob Metadata",
    returnsETag: true,
    changesETag: false,
    reads: true,
    accepts: allConditions,
    note: "the SDK has no separate call: the metadata is returned with the properties and with the content",
    helper: "`readTarget(blobMetadata)`",
    call: ({ block }, conditions) => block.getProperties({ conditions }),
  },
  {
    operation: "Set Blob Metadata",
    returnsETag: true,
    changesETag: true,
    accepts: allConditions,
    helper: "`optimisticUpdate(blobMetadata)`",
    call: ({ block }, conditions) => block.setMetadata({ a: "b" }, { conditions }),
  },
  {
    operation: "Lease Blob: acquire",
    source: "documented; recorded: the ETag",
    returnsETag: true,
    changesETag: false,
    accepts: allConditions,
    helper: "`withLease`, `acquireLease`, `BlobLocks`",
    call: ({ block }, conditions) => block.getBlobLeaseClient(otherLeaseId).acquireLease(-1, { conditions }),
  },
  {
    operation: "Lease Blob: renew",
    source: "documented; recorded: the ETag",
    returnsETag: true,
    changesETag: false,
    accepts: allConditions,
    before: lease,
    helper: "`withLease`, `BlobLocks`",
    call: ({ block }, conditions) => block.getBlobLeaseClient(blobLeaseId).renewLease({ conditions }),
  },
  {
    operation: "Lease Blob: change",
    source: "documented; recorded: the ETag",
    returnsETag: true,
    changesETag: false,
    accepts: allConditions,
    before: lease,
    helper: "`LeaseHandle.change`",
    call: ({ block }, conditions) => block.getBlobLeaseClient(blobLeaseId).changeLease(otherLeaseId, { conditions }),
  },
  {
    operation: "Lease Blob: release",
    source: "documented; recorded: the ETag",
    returnsETag: true,
    changesETag: false,
    accepts: allConditions,
    before: lease,
    helper: "`withLease`, `BlobLocks`",
    call: ({ block }, conditions) => block.getBlobLeaseClient(blobLeaseId).releaseLease({ conditions }),
  },
  {
    operation: "Lease Blob: break",
    source: "documented; recorded: the ETag",
    returnsETag: true,
    changesETag: false,
    accepts: allConditions,
    before: lease,
    helper: "`breakLease`, `BlobLocks.break`",
    call: ({ block }, conditions) => block.getBlobLeaseClient().breakLease(0, { conditions }),
  },
  {
    operation: "Snapshot Blob",
    source: "documented; believed: 412 for If-None-Match and If-Modified-Since",
    returnsETag: true,
    changesETag: false,
    accepts: allConditions,
    azuriteRejections: asRead,
    azurite: "rejects If-None-Match and If-Modified-Since with 304, as for a read; Azure with 412",
    call: ({ block }, conditions) => block.createSnapshot({ conditions }),
  },
  {
    operation: "Copy Blob: conditions on the destination",
    returnsETag: true,
    changesETag: true,
    accepts: allConditions,
    rejections: allRejectedWith("412 TargetConditionNotMet"),
    azuriteRejections: allRejectedWith("412 ConditionNotMet"),
    note: "the error code of Azure is TargetConditionNotMet",
    azurite: "the error code is ConditionNotMet",
    call: async ({ block, source }, conditions) => startedCopy(block, source, { conditions }),
  },
  {
    operation: "Copy Blob: conditions on the source",
    returnsETag: true,
    changesETag: false,
    accepts: allConditions,
    ofSource: true,
    headerPrefix: "x-ms-source-",
    rejections: allRejectedWith("412 SourceConditionNotMet"),
    azuriteRejections: { ...allRejectedWith("412 ConditionNotMet"), ...asRead },
    note: "the error code of Azure is SourceConditionNotMet, always with 412",
    azurite: "rejects If-None-Match and If-Modified-Since with 304; the error code of the others is ConditionNotMet",
    call: async ({ block, source }, sourceConditions) => startedCopy(block, source, { sourceConditions }),
  },
  {
    operation: "Abort Copy Blob",
    returnsETag: false,
    changesETag: false,
    accepts: none,
    passes: "409 NoPendingCopyOperation",
    azurite: "a copy has ended when the response is sent, so there is never one to abort: 409 NoPendingCopyOperation. Azure responds the same for a small copy within an account, and 204 for a pending one",
    call: async ({ block }, conditions) => block.abortCopyFromURL((await block.getProperties()).copyId ?? "", { conditions }),
  },
  {
    operation: "Delete Blob",
    returnsETag: false,
    accepts: allConditions,
    helper: "`deleteIfUnchanged`, `optimisticUpdate` with `DELETE`",
    call: ({ block }, conditions) => block.delete({ conditions }),
  },
  {
    operation: "Put Block",
    returnsETag: false,
    changesETag: false,
    accepts: none,
    note: "only Put Block List makes a block part of the content and checks conditions",
    call: ({ block }, conditions) => block.stageBlock(blockId, "x", 1, { conditions }),
  },
  {
    operation: "Put Block List",
    source: "documented; believed: InvalidBlockList for the loser",
    returnsETag: true,
    changesETag: true,
    accepts: allConditions,
    before: stage,
    note: "the commit of another writer discards uncommitted blocks: the loser may get 400 InvalidBlockList",
    call: ({ block }, conditions) => block.commitBlockList([blockId], { conditions }),
  },
  {
    operation: "Get Block List",
    returnsETag: true,
    changesETag: false,
    accepts: none,
    call: ({ block }, conditions) => block.getBlockList("committed", { conditions }),
  },
  {
    operation: "Put Page",
    kind: "page",
    returnsETag: true,
    changesETag: true,
    accepts: allConditions,
    note: "also accepts conditions on the sequence number",
    helper: "`claimPages`",
    call: ({ page }, conditions) => page.uploadPages(pageOfZeros, 0, 512, { conditions }),
  },
  {
    operation: "Get Page Ranges",
    kind: "page",
    returnsETag: true,
    changesETag: false,
    reads: true,
    accepts: allConditions,
    call: ({ page }, conditions) => page.getPageRanges(0, 512, { conditions }),
  },
  {
    operation: "Append Block",
    kind: "append",
    returnsETag: true,
    changesETag: true,
    accepts: allConditions,
    note: "not in the article's list; also accepts a condition on the position",
    helper: "`appendExactlyOnce`",
    call: ({ append }, conditions) => append.appendBlock("x", 1, { conditions }),
  },
  {
    operation: "Set Blob Tier",
    returnsETag: false,
    changesETag: false,
    accepts: none,
    note: "not in the article's list",
    call: ({ block }, conditions) => block.setAccessTier("Cool", { conditions }),
  },
  {
    operation: "Get Blob Tags",
    source: "believed",
    returnsETag: false,
    changesETag: false,
    reads: true,
    accepts: allConditions,
    headerPrefix: "x-ms-blob-",
    azuriteRejections: allRejectedWith("200"),
    note: "not in the article's list; conditions only in the newest API versions",
    azurite: "ignores these conditions and succeeds",
    helper: "`readTarget(blobTags)`",
    call: ({ block }, conditions) => block.getTags({ conditions }),
  },
  {
    operation: "Set Blob Tags",
    source: "believed; documented: the ETag",
    returnsETag: false,
    changesETag: false,
    accepts: allConditions,
    headerPrefix: "x-ms-blob-",
    azuriteRejections: allRejectedWith("204"),
    note: "not in the article's list; conditions only in the newest API versions, and of little use: tags do not change the ETag",
    azurite: "ignores these conditions and succeeds",
    helper: "`optimisticUpdate(blobTags)`",
    call: ({ block }, conditions) => block.setTags({ a: "b" }, { conditions }),
  },
];

/** The response to Copy Blob itself: a rejection would be an response to it too, so there is nothing to poll for. */
async function startedCopy(block: BlockBlobClient, source: BlockBlobClient, options: object): Promise<SdkResponse> {
  const poller = await block.beginCopyFromURL(source.url, { ...options, intervalInMs: 1 });
  return poller.getOperationState().result ?? (await poller.pollUntilDone());
}
