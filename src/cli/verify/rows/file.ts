import type { ShareFileClient } from "@azure/storage-file-share";

import type { LeaseUse } from "./blob-lease.js";
import type { SdkResponse } from "../exchange.js";
import type { Row } from "../row.js";

/** Options as a caller would give them who takes files for blobs: the conditions go nowhere. */
export interface FileOptions {
  readonly conditions?: { readonly ifMatch: string };
  readonly leaseAccessConditions?: { readonly leaseId: string };
}

export interface FileRow extends Row {
  readonly returnsETag: boolean;
  readonly lease: LeaseUse;
  /** Whether it succeeds while an SMB client has the file open and lets others read only; else 409 SharingViolation. */
  readonly passesOpen: boolean;
  /** The same, if the SMB client lets others do nothing. */
  readonly passesExclusive: boolean;
  readonly call: (file: ShareFileClient, options: FileOptions, value: string) => Promise<SdkResponse>;
  /** What the last call wrote. */
  readonly read?: (file: ShareFileClient) => Promise<string | undefined>;
}

const content = async (file: ShareFileClient): Promise<string> => (await file.downloadToBuffer(0, 1)).toString();
const write = { returnsETag: true, lease: "required", passesOpen: false, passesExclusive: false } as const;
const read = { returnsETag: true, lease: "optional", passesOpen: true } as const;

/** File operations of REST. None takes a condition: the last writer wins, unless a lease or an SMB client is in the way. */
export const fileRows: readonly FileRow[] = [
  { operation: "Create File", ...write, helper: "`createIfNotExists(jsonFile)`, `leasedUpdate(bytesFile)`", call: (file, options) => file.create(1, options) },
  {
    operation: "Put Range: update",
    ...write,
    helper: "`leasedUpdate(jsonFile | textFile | bytesFile)`",
    call: (file, options, value) => file.uploadRange(value, 0, 1, options),
    read: content,
  },
  { operation: "Put Range: clear", ...write, call: (file, options) => file.clearRange(0, 1, options) },
  {
    operation: "Get File",
    ...read,
    passesExclusive: false,
    helper: "`readTarget(jsonFile)`, `watch`, `retryWhileInUse`",
    call: async (file, options) => {
      const response = await file.download(0, undefined, options);
      response.readableStreamBody?.resume();
      return response;
    },
  },
  { operation: "Get File Properties", ...read, passesExclusive: true, helper: "`readTarget(fileMetadata | fileHttpHeaders)`, `inspectLease`", call: (file, options) => file.getProperties(options) },
  { operation: "List Ranges", ...read, passesExclusive: false, call: (file, options) => file.getRangeList(options) },
  {
    operation: "Set File Properties",
    ...write,
    helper: "`leasedUpdate(fileHttpHeaders)`",
    call: (file, options, value) => file.setHttpHeaders({ fileContentType: `text/${value}` }, options),
    read: async (file) => (await file.getProperties()).contentType?.replace("text/", ""),
  },
  {
    operation: "Set File Metadata",
    ...write,
    helper: "`leasedUpdate(fileMetadata)`",
    call: (file, options, value) => file.setMetadata({ value }, options),
    read: async (file) => (await file.getProperties()).metadata?.["value"],
  },
  {
    operation: "Delete File",
    ...write,
    returnsETag: false,
    note: "409 while any SMB client has the file open, whatever it shares; over REST the deletion is complete with the response: 404 from then on",
    helper: "`leasedUpdate` with `DELETE`, `retryWhileInUse`",
    call: (file, options) => file.delete(options),
  },
];
