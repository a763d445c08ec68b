import type { LeaseRow } from "./blob-lease.js";
import { type ContainerRow, containerRows } from "./container.js";

export interface ContainerLeaseRow extends LeaseRow {
  readonly row: ContainerRow;
  /** Whether the SDK sends the id at all. */
  readonly sendsId: boolean;
}

function row(operation: string, lease: LeaseRow["lease"], more: Partial<ContainerLeaseRow> = {}): ContainerLeaseRow {
  const found = containerRows.find((each) => each.operation === operation);
  if (found === undefined) throw new Error(`no row for ${operation}`);
  return { operation, lease, row: found, sendsId: true, ...(found.helper === undefined ? {} : { helper: found.helper }), ...more };
}

const notSent = "optional for the service; the SDK accepts an id but does not send it";

/** Container operations on a leased container: only the deletion is guarded. */
export const containerLeaseRows: readonly ContainerLeaseRow[] = [
  row("Delete Container", "required"),
  row("Get Container Properties", "optional", { sendsId: false, note: notSent }),
  row("Get Container Metadata", "optional", { sendsId: false, note: notSent }),
  row("Set Container Metadata", "optional"),
  row("Get Container ACL", "optional"),
  row("Set Container ACL", "optional"),
  row("List Blobs", "optional", { sendsId: false, note: "accepts no lease id; neither does any write to a blob in the container" }),
];

/** What is returned to an id that does not belong, or to none. */
export const containerLeaseResponses = {
  missing: "412 LeaseIdMissing",
  mismatch: "412 LeaseIdMismatchWithContainerOperation",
  neverLeased: "412 LeaseNotPresentWithContainerOperation",
  expired: { azure: "412 LeaseLost", azurite: "412 LeaseNotPresentWithContainerOperation" },
} as const;
