import type { OperationTracingOptions } from "@azure/core-tracing";
import type { BlobLeasableLike, LeaseAnswerLike, LeaseCallOptions, LeasePropertiesLike } from "../clients/blob.js";
import type { FileLeasableLike, ShareLeasableLike } from "../clients/file.js";
import type { LeasableLike } from "../clients/leasable.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { redactUrl } from "../core/telemetry.js";

/** What goes with every request about a lease. */
export interface LeaseRequest {
  readonly abortSignal: AbortSignal;
  readonly tracingOptions?: OperationTracingOptions | undefined;
  /** Called for each request that is made. */
  readonly onRequest?: (() => void) | undefined;
}

/** All that leases know of a service: its operations. */
export interface LeaseAdapter {
  /** Where it is, without the query. */
  readonly url: string;
  /** Stands for the client's credentials: waiters share a poller, and a lease, within one owner only. */
  readonly owner: object;
  /** Identifies the resource within its owner. */
  readonly key: string;
  readonly kind: "blob" | "container" | "share" | "file";
  /** -1: without end. */
  acquire(leaseId: string, durationInSeconds: number, request: LeaseRequest): Promise<LeaseAnswerLike>;
  /** Extends the lease, or where there is nothing to extend, confirms it. Never brings back one that is gone. */
  renew(leaseId: string, durationInSeconds: number, request: LeaseRequest): Promise<LeaseAnswerLike>;
  change(leaseId: string, proposedLeaseId: string, request: LeaseRequest): Promise<LeaseAnswerLike>;
  release(leaseId: string, request: LeaseRequest): Promise<unknown>;
  /** `ifMatch` is for blobs only. */
  break(periodInSeconds: number, request: LeaseRequest, ifMatch?: string): Promise<unknown>;
  inspect(request: LeaseRequest): Promise<LeasePropertiesLike>;
  /** Makes an empty blob unless there is one; undefined where that makes no sense. */
  readonly create: ((request: LeaseRequest) => Promise<unknown>) | undefined;
}

/** The options of one request, which is counted here. */
export function leaseOptions(request: LeaseRequest): LeaseCallOptions {
  request.onRequest?.();
  return {
    abortSignal: request.abortSignal,
    ...(request.tracingOptions && { tracingOptions: request.tracingOptions }),
  };
}

/** The adapter of what can be leased. Everything else is a TypeError. */
export function leaseAdapterOf(target: LeasableLike): LeaseAdapter {
  const given: unknown = target;
  if (typeof given === "object" && given !== null) {
    refuseSnapshot((given as { url?: unknown }).url);
    if (isBlobLeasable(given)) return blobLeaseAdapter(given);
    if (isShareLeasable(given)) return shareLeaseAdapter(given);
    if ("listFilesAndDirectories" in given) {
      throw new TypeError("a directory cannot be leased: pass a ShareFileClient, or the ShareClient");
    }
  }
  throw new TypeError("not a target for leases: pass a blob client, a ContainerClient, a ShareClient or a ShareFileClient");
}

/** The service refuses it too, but only once a request has been sent, and with a code that does not say why. */
function refuseSnapshot(url: unknown): void {
  if (typeof url === "string" && /[?&](snapshot|sharesnapshot|versionid)=/i.test(url)) {
    throw new TypeError("a snapshot or an old version cannot be leased: nobody can change it");
  }
}

export function isBlobLeasable(target: object): target is BlobLeasableLike {
  return typeof (target as Partial<BlobLeasableLike>).getBlobLeaseClient === "function";
}

/** Leases of blobs and containers. */
export function blobLeaseAdapter(target: BlobLeasableLike): LeaseAdapter {
  return {
    url: redactUrl(target.url),
    owner: credentialScopeOf(target),
    key: target.url,
    kind: "listBlobsFlat" in target ? "container" : "blob",
    acquire: (id, duration, request) => target.getBlobLeaseClient(id).acquireLease(duration, leaseOptions(request)),
    renew: (id, _duration, request) => target.getBlobLeaseClient(id).renewLease(leaseOptions(request)),
    change: (id, proposed, request) => target.getBlobLeaseClient(id).changeLease(proposed, leaseOptions(request)),
    release: (id, request) => target.getBlobLeaseClient(id).releaseLease(leaseOptions(request)),
    break: (period, request, ifMatch) =>
      target.getBlobLeaseClient().breakLease(period, { ...leaseOptions(request), ...(ifMatch !== undefined && { conditions: { ifMatch } }) }),
    inspect: (request) => target.getProperties(leaseOptions(request)),
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

export function isShareLeasable(target: object): target is ShareLeasableLike | FileLeasableLike {
  return typeof (target as Partial<FileLeasableLike>).getShareLeaseClient === "function";
}

/** Leases of Azure Files: those of a share expire as those of a blob do, that of a file never. */
export function shareLeaseAdapter(target: ShareLeasableLike | FileLeasableLike): LeaseAdapter {
  const kind = "getDirectoryClient" in target ? "share" : "file";
  return {
    url: redactUrl(target.url),
    owner: credentialScopeOf(target),
    key: target.url,
    kind,
    acquire: (id, duration, request) => target.getShareLeaseClient(id).acquireLease(duration, leaseOptions(request)),
    renew: (id, duration, request) => (kind === "share" ? renewShare(target, id, duration, request) : confirm(target, id, request)),
    change: (id, proposed, request) => target.getShareLeaseClient(id).changeLease(proposed, leaseOptions(request)),
    release: (id, request) => target.getShareLeaseClient(id).releaseLease(leaseOptions(request)),
    break: (period, request) => {
      // Without a period the lease of a share would go on for the time that is left. The SDK's types do not know it,
      // but it is what the request is made of.
      const options = { ...leaseOptions(request), ...(kind === "share" && { breakPeriod: period }) };
      return target.getShareLeaseClient().breakLease(options);
    },
    inspect: (request) => target.getProperties(leaseOptions(request)),
    create: undefined,
  };
}

/**
 * Whether the lease is there still, by a read that names it: refused once it is broken, released or another's. Acquiring
 * again with the same id would not tell: it succeeds on what was broken, and brings back what somebody took away.
 */
async function confirm(target: FileLeasableLike, leaseId: string, request: LeaseRequest): Promise<LeaseAnswerLike> {
  const { leaseState } = await target.getProperties({ ...leaseOptions(request), leaseAccessConditions: { leaseId } });
  return { leaseId, leaseState };
}

/**
 * The SDK's `renewLease` throws, and so it is acquired again with the same id, which starts its time anew. Not without
 * a look: a lease that was broken in the meantime would come back to life. What remains is the moment between the two.
 */
async function renewShare(share: FileLeasableLike, leaseId: string, duration: number, request: LeaseRequest): Promise<LeaseAnswerLike> {
  const confirmed = await confirm(share, leaseId, request);
  if (confirmed.leaseState !== undefined && confirmed.leaseState !== "leased") return confirmed;
  return share.getShareLeaseClient(leaseId).acquireLease(duration, leaseOptions(request));
}
