import type { ContainerClient } from "@azure/storage-blob";

import type { SdkResponse } from "../exchange.js";
import { type Conditions, type ConditionRow, none, untyped } from "../row.js";

export interface ContainerRow extends ConditionRow {
  /** The container does not exist yet, or is leased with `leaseId`. */
  readonly given?: "missing" | "leased";
  readonly call: (container: ContainerClient, conditions: Conditions) => Promise<SdkResponse>;
}

export const leaseId = "5f5a2e4c-0b0f-4c59-9b34-0c1b7f0f5d5e";

const dates = ["If-Modified-Since", "If-Unmodified-Since"] as const;
const throwsOnETags = { "If-Match": "throws", "If-None-Match": "throws" } as const;

/** Container operations: who returns an ETag and who takes conditions. */
export const containerRows: readonly ContainerRow[] = [
  {
    operation: "Create Container",
    returnsETag: true,
    accepts: none,
    given: "missing",
    call: (container, conditions) => container.create(untyped(conditions)),
  },
  {
    operation: "Get Container Properties",
    returnsETag: true,
    changesETag: false,
    accepts: none,
    helper: "`inspectLease`",
    call: (container, conditions) => container.getProperties(untyped(conditions)),
  },
  {
    operation: "Get Container Metadata",
    returnsETag: true,
    changesETag: false,
    accepts: none,
    note: "the SDK has no separate call: the metadata is returned with the properties",
    helper: "`readTarget(containerMetadata)`",
    call: (container, conditions) => container.getProperties(untyped(conditions)),
  },
  {
    operation: "Set Container Metadata",
    returnsETag: true,
    changesETag: true,
    accepts: ["If-Modified-Since"],
    unsupported: { "If-Unmodified-Since": "throws" },
    note: "the article says that it accepts conditional headers. It accepts only this one, which does not prevent lost updates; the SDK omits an `ifMatch` without an error",
    helper: "`leasedUpdate(containerMetadata)`",
    call: (container, conditions) => container.setMetadata({ a: "b" }, { conditions }),
  },
  {
    operation: "Get Container ACL",
    returnsETag: true,
    changesETag: false,
    accepts: none,
    helper: "`readTarget(containerAccessPolicy)`",
    call: (container, conditions) => container.getAccessPolicy(untyped(conditions)),
  },
  {
    operation: "Set Container ACL",
    returnsETag: true,
    changesETag: true,
    accepts: dates,
    note: "dates have a resolution of one second: two writers within the same second do not detect each other. Permissions take up to 30 s to take effect",
    helper: "`leasedUpdate(containerAccessPolicy)`",
    call: (container, conditions) => container.setAccessPolicy(undefined, [], { conditions }),
  },
  {
    operation: "Delete Container",
    returnsETag: false,
    accepts: dates,
    azurite: "a container of the same name can be created at once; Azure responds with 409 ContainerBeingDeleted for 30 s or more",
    call: (container, conditions) => container.delete({ conditions }),
  },
  {
    operation: "Lease Container: acquire",
    returnsETag: true,
    changesETag: false,
    accepts: dates,
    unsupported: throwsOnETags,
    helper: "`withLease`, `acquireLease`",
    call: (container, conditions) => container.getBlobLeaseClient(leaseId).acquireLease(15, { conditions }),
  },
  {
    operation: "Lease Container: renew",
    returnsETag: true,
    changesETag: false,
    accepts: dates,
    unsupported: throwsOnETags,
    given: "leased",
    helper: "`withLease`",
    call: (container, conditions) => container.getBlobLeaseClient(leaseId).renewLease({ conditions }),
  },
  {
    operation: "Lease Container: change",
    returnsETag: true,
    changesETag: false,
    accepts: dates,
    unsupported: throwsOnETags,
    given: "leased",
    helper: "`LeaseHandle.change`",
    call: (container, conditions) => container.getBlobLeaseClient(leaseId).changeLease(leaseId.replace("5", "6"), { conditions }),
  },
  {
    operation: "Lease Container: release",
    returnsETag: true,
    changesETag: false,
    accepts: dates,
    unsupported: throwsOnETags,
    given: "leased",
    helper: "`withLease`",
    call: (container, conditions) => container.getBlobLeaseClient(leaseId).releaseLease({ conditions }),
  },
  {
    operation: "Lease Container: break",
    returnsETag: true,
    changesETag: false,
    accepts: dates,
    unsupported: throwsOnETags,
    given: "leased",
    helper: "`breakLease`",
    call: (container, conditions) => container.getBlobLeaseClient(leaseId).breakLease(0, { conditions }),
  },
  {
    operation: "List Blobs",
    returnsETag: false,
    changesETag: false,
    accepts: none,
    helper: "`BlobLocks.list`",
    call: async (container, conditions) => (await container.listBlobsFlat(untyped(conditions)).byPage().next()).value as SdkResponse,
  },
];
