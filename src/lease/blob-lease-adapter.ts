import type { BlobLeasableLike, LeaseCallOptions } from "../clients.js";
import { ownerOf } from "../internal/owner.js";
import { displayUrl } from "../internal/url.js";
import { leaseOptions } from "./lease-adapter.js";
import type { LeaseAdapter } from "./lease-adapter.js";

export function isBlobLeasable(target: object): target is BlobLeasableLike {
  return typeof (target as Partial<BlobLeasableLike>).getBlobLeaseClient === "function";
}

/** Leases of blobs and containers. */
export function blobLeaseAdapter(target: BlobLeasableLike): LeaseAdapter {
  return {
    url: displayUrl(target.url),
    owner: ownerOf(target),
    key: target.url,
    kind: "listBlobsFlat" in target ? "container" : "blob",
    acquire: (id, duration, request) => target.getBlobLeaseClient(id).acquireLease(duration, leaseOptions(request)),
    renew: (id, _duration, request) => target.getBlobLeaseClient(id).renewLease(leaseOptions(request)),
    change: (id, proposed, request) => target.getBlobLeaseClient(id).changeLease(proposed, leaseOptions(request)),
    release: (id, request) => target.getBlobLeaseClient(id).releaseLease(leaseOptions(request)),
    breakIt: (period, request, ifMatch) =>
      target.getBlobLeaseClient().breakLease(period, { ...leaseOptions(request), ...(ifMatch !== undefined && { conditions: { ifMatch } }) }),
    look: (request) => target.getProperties(leaseOptions(request)),
    create: creatorOf(target),
  };
}

interface Uploads {
  upload(
    body: Uint8Array,
    contentLength: number,
    options: LeaseCallOptions & { conditions: { ifNoneMatch: string } },
  ): Promise<unknown>;
}

function creatorOf(target: BlobLeasableLike): LeaseAdapter["create"] {
  if (!("upload" in target) || typeof target.upload !== "function") return undefined;
  const blob = target as BlobLeasableLike & Uploads;
  return (request) => blob.upload(new Uint8Array(0), 0, { ...leaseOptions(request), conditions: { ifNoneMatch: "*" } });
}
