import { blobRows, type BlobRow } from "./blob.js";
import type { Row } from "../row.js";

/**
 * `required`: on a leased blob the id must be given. `optional`: it need not be, but is checked if it is.
 */
export type LeaseUse = "required" | "optional";

export interface LeaseRow extends Row {
  readonly lease: LeaseUse;
  /** Where Azurite differs. */
  readonly azuriteLease?: LeaseUse;
}

export interface BlobLeaseRow extends LeaseRow {
  /** How it is called: as in the list of conditions. */
  readonly row: BlobRow;
}

function row(operation: string, lease: LeaseUse, more: Partial<BlobLeaseRow> = {}, as = operation): BlobLeaseRow {
  const found = blobRows.find((each) => each.operation === as);
  if (found === undefined) throw new Error(`no row for ${as}`);
  return { operation, lease, row: found, ...(found.helper === undefined ? {} : { helper: found.helper }), ...more };
}

/** Blob operations on a leased blob. */
export const blobLeaseRows: readonly BlobLeaseRow[] = [
  row("Put Blob", "required"),
  row("Get Blob", "optional"),
  row("Get Blob Properties", "optional"),
  row("Set Blob Properties", "required"),
  row("Get Blob Metadata", "optional"),
  row("Set Blob Metadata", "required"),
  row("Delete Blob", "required"),
  row("Put Block", "required"),
  row("Put Block List", "required"),
  row("Get Block List", "optional"),
  row("Put Page", "required"),
  row("Get Page Ranges", "optional"),
  row("Snapshot Blob", "optional"),
  row("Copy Blob", "required", { note: "that of the destination; a lease on the source does not matter" }, "Copy Blob: conditions on the destination"),
  row("Abort Copy Blob", "required", {
    note: "with an infinite lease on the destination",
    azuriteLease: "optional",
    azurite: "optional, whatever the lease. Azurite never has a pending copy, so the two responses of Azure to one (204 with the id, 412 without) cannot be tested on it",
  }),
  row("Append Block", "required", { note: "not in the article's list" }),
  row("Get Blob Tags", "optional", { note: "not in the article's list" }),
  row("Set Blob Tags", "required", { note: "not in the article's list; Microsoft documents 403 without the id", source: "documented; measured on Azurite: 412 without the id" }),
];

/** What is returned to an id that does not belong, or to none. */
export const leaseResponses = {
  missing: "412 LeaseIdMissing",
  mismatch: "412 LeaseIdMismatchWithBlobOperation",
  neverLeased: "412 LeaseNotPresentWithBlobOperation",
  /** Azure says that the lease was lost; the code of Azurite is the one for blobs that were never leased. */
  expired: { azure: "412 LeaseLost", azurite: "412 LeaseNotPresentWithBlobOperation" },
} as const;
