import { leaseHeaders, stampHeaders } from "../entry-headers.js";
import { neverLeased, passLease } from "../lease-machine.js";
import type { Lease } from "../lease-machine.js";
import { metadataHeaders, metadataOf } from "../metadata.js";
import type { Operation, RouteContext } from "../operation.js";
import { leaseIdOf, numberIn } from "../request.js";
import type { FileRequest } from "../request.js";
import { httpDate } from "../response.js";
import { StorageFault } from "../storage-fault.js";
import { newDirectory } from "../tree.js";
import type { Share, Stamped } from "../tree.js";
import { element, xmlDocument } from "../xml.js";
import { parseLeaseRequest, runLease } from "./lease-request.js";

const defaultQuotaInGiB = 5_120;
const maxQuotaInGiB = 102_400;

export const createShare: Operation = {
  level: "share",
  permissions: "cw",
  run: ({ request, state }) => {
    const name = request.target.share ?? "";
    if (!/^(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/.test(name)) throw new StorageFault("InvalidResourceName");
    if (state.shares.has(name)) throw new StorageFault("ShareAlreadyExists");
    const stamp: Stamped = { ...state.stamp(), metadata: metadataOf(request) };
    const accessTier = tierIn(request) ?? "TransactionOptimized";
    const quotaInGiB = quotaIn(request) ?? defaultQuotaInGiB;
    const root = newDirectory("", undefined, { ...stamp, metadata: new Map() });
    state.shares.set(name, { ...stamp, name, root, lease: neverLeased, quotaInGiB, accessTier, accessTierChangedAt: undefined, accessPolicy: undefined });
    return { status: 201, headers: stampHeaders(stamp) };
  },
};

export const getShareProperties: Operation = {
  level: "share",
  permissions: "r",
  run: (context) => {
    const { share } = shareFor(context, "read");
    return {
      status: 200,
      headers: {
        ...stampHeaders(share),
        ...metadataHeaders(share.metadata),
        ...leaseHeaders(share.lease, context.state.clock.now()),
        "x-ms-share-quota": String(share.quotaInGiB),
        "x-ms-access-tier": share.accessTier,
        "x-ms-access-tier-change-time": share.accessTierChangedAt === undefined ? undefined : httpDate(share.accessTierChangedAt),
        "x-ms-enabled-protocols": "SMB",
      },
    };
  },
};

export const getShareMetadata: Operation = {
  level: "share",
  permissions: "r",
  run: (context) => {
    const { share } = shareFor(context, "read");
    return { status: 200, headers: { ...stampHeaders(share), ...metadataHeaders(share.metadata) } };
  },
};

export const deleteShare: Operation = {
  level: "share",
  permissions: "d",
  run: (context) => {
    const { request, state } = context;
    // A deletion whose response was lost can be repeated.
    if (!state.isBeingDeleted(request.target.share ?? "")) state.deleteShare(shareFor(context, "write").share.name);
    return { status: 202 };
  },
};

export const setShareMetadata: Operation = changeShare((share, { request }) => {
  share.metadata = metadataOf(request);
});

export const setShareProperties: Operation = changeShare((share, { request, state }) => {
  const quotaInGiB = quotaIn(request) ?? share.quotaInGiB;
  const accessTier = tierIn(request);
  share.quotaInGiB = quotaInGiB;
  if (accessTier === undefined) return;
  share.accessTier = accessTier;
  share.accessTierChangedAt = state.clock.now();
});

function quotaIn({ headers }: FileRequest): number | undefined {
  const value = headers["x-ms-share-quota"];
  if (value === undefined) return undefined;
  const quota = numberIn(value);
  if (quota < 1 || quota > maxQuotaInGiB) throw new StorageFault("InvalidHeaderValue");
  return quota;
}

function tierIn({ headers }: FileRequest): string | undefined {
  const tier = headers["x-ms-access-tier"];
  if (tier !== undefined && !["TransactionOptimized", "Hot", "Cool", "Premium"].includes(tier)) throw new StorageFault("InvalidHeaderValue");
  return tier;
}

export const setShareAccessPolicy: Operation = changeShare((share, { request }) => {
  // Kept as it is; only what cannot be a list of policies is rejected.
  if (request.body.length > 0 && !/^\ufeff?\s*(<\?xml[^>]*>\s*)?<SignedIdentifiers[\s/>]/.test(request.body.toString())) throw new StorageFault("InvalidXmlDocument");
  share.accessPolicy = request.body;
});

export const getShareAccessPolicy: Operation = {
  level: "share",
  permissions: "r",
  run: (context) => {
    const { share } = shareFor(context, "read");
    const body = share.accessPolicy?.length ? share.accessPolicy : xmlDocument(element("SignedIdentifiers", []));
    return { status: 200, headers: { ...stampHeaders(share), "content-type": "application/xml" }, body };
  },
};

export const leaseShare: Operation = {
  level: "share",
  permissions: "w",
  run: ({ request, state }) => {
    const lease = parseLeaseRequest(request);
    return runLease("share", state.share(request.target.share ?? ""), lease, state.clock.now());
  },
};

/** The share that a request names, and its lease as it is if the request succeeds. */
function shareFor({ request, state }: RouteContext, access: "read" | "write"): { share: Share; lease: Lease } {
  const share = state.share(request.target.share ?? "");
  return { share, lease: passLease("share", share.lease, leaseIdOf(request), access, state.clock.now()) };
}

function changeShare(change: (share: Share, context: RouteContext) => void): Operation {
  return {
    level: "share",
    permissions: "w",
    run: (context) => {
      const { share, lease } = shareFor(context, "write");
      change(share, context);
      share.lease = lease;
      context.state.touch(share);
      return { status: 200, headers: stampHeaders(share) };
    },
  };
}
