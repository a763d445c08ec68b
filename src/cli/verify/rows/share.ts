import type { ShareClient } from "@azure/storage-file-share";

import type { LeaseUse } from "./blob-lease.js";
import type { SdkResponse } from "../exchange.js";
import type { FileOptions } from "./file.js";
import type { Row } from "../row.js";

export interface ShareRow extends Row {
  readonly returnsETag: boolean;
  /** Whether the ETag is another one afterwards; nothing if there is none left. */
  readonly changesETag?: boolean;
  /** Nothing: there is no lease on what is not there. */
  readonly lease?: LeaseUse;
  readonly given?: "missing";
  readonly call: (share: ShareClient, options: FileOptions, value: string) => Promise<SdkResponse>;
  /** What the last call wrote. */
  readonly read?: (share: ShareClient) => Promise<string | undefined>;
}

const read = { returnsETag: true, changesETag: false, lease: "optional" } as const;
const write = { returnsETag: true, changesETag: true, lease: "required" } as const;

/** Share operations. None takes a condition; other than a container, a share under a lease guards more than its deletion. */
export const shareRows: readonly ShareRow[] = [
  { operation: "Create Share", returnsETag: true, given: "missing", call: (share, options: object) => share.create(options) },
  { operation: "Get Share Properties", ...read, helper: "`readTarget(shareMetadata)`, `inspectLease`", call: propertiesOf },
  {
    operation: "Set Share Properties",
    source: "documented",
    ...write,
    call: (share, options, value) => share.setProperties({ ...options, quotaInGB: Number(value) }),
    read: async (share) => String((await share.getProperties()).quota),
  },
  {
    operation: "Set Share Metadata",
    ...write,
    note: "protected by the lease, unlike that of a container",
    helper: "`leasedUpdate(shareMetadata)`",
    call: (share, options, value) => share.setMetadata({ value }, options),
    read: async (share) => (await share.getProperties()).metadata?.["value"],
  },
  { operation: "Get Share ACL", ...read, source: "documented", call: (share, options) => share.getAccessPolicy(options) },
  {
    operation: "Set Share ACL",
    source: "documented",
    ...write,
    helper: "`withLease`",
    call: (share, options, value) => share.setAccessPolicy([{ id: value, accessPolicy: { permissions: "r", startsOn: new Date(0), expiresOn: new Date(1_000) } }], options),
    read: async (share) => (await share.getAccessPolicy()).signedIdentifiers.map(({ id }) => id).join(),
  },
  { operation: "Delete Share", returnsETag: false, lease: "required", helper: "`withLease`", call: (share, options) => share.delete(options) },
];

/** The SDK's own result has lost the `_response`. */
async function propertiesOf(share: ShareClient, options: FileOptions): Promise<SdkResponse> {
  let response: unknown;
  await share.getProperties({ ...options, onResponse: (raw: unknown) => (response = raw) } as object);
  return { _response: response };
}

/** What is returned to an id that does not belong, or to none. */
export const shareLeaseResponses = {
  missing: "412 LeaseIdMissing",
  mismatch: "412 LeaseIdMismatchWithContainerOperation",
  neverLeased: "412 LeaseNotPresentWithContainerOperation",
  expired: "412 LeaseLost",
} as const;
