import type { RequestOutcome } from "../core/request.js";
import { isLeaseIdMismatch } from "../core/storage-errors.js";
import type { OperationTracingOptions } from "@azure/core-tracing";
import type { LeasableBlobLike, LeaseResponseLike, LeaseCallOptions, LeasePropertiesLike } from "../clients/blob.js";
import type { LeasableShareLike, ShareLike } from "../clients/file.js";
import type { LeasableLike } from "../clients/leasable.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { redactUrl } from "../core/telemetry.js";
import { isSnapshotUrl } from "../core/validate.js";

/** The options of every lease request. */
export interface LeaseRequest {
  readonly abortSignal: AbortSignal;
  readonly tracingOptions?: OperationTracingOptions | undefined;
  /** Called for each request that is sent. */
  readonly onRequest?: (() => void) | undefined;
  /** Of a blob: rejected while it has this ETag. */
  readonly ifNoneMatch?: string | undefined;
}

/** The lease operations of one target: all that the lease code knows of its service. */
export interface LeaseAdapter {
  /** The URL of the target, without the query. */
  readonly url: string;
  /** Identifies the client's credentials: waiters share a poller and a lease only within one owner. */
  readonly owner: object;
  /** Identifies the target within its owner. */
  readonly key: string;
  readonly kind: "blob" | "container" | "share" | "file";
  /**
   * Of an adapter whose `acquire` may consist of several requests, so that the number of its sends says nothing: whether, in its last
   * call, the SDK has sent a request that acquires the lease more than once.
   */
  readonly wasResent?: (() => boolean) | undefined;
  /** `durationInSeconds` is -1 for an infinite lease. */
  acquire(leaseId: string, durationInSeconds: number, request: LeaseRequest): Promise<LeaseResponseLike>;
  /** Extends the lease or, where it cannot be extended, confirms it. Never restores a lease that is gone. */
  renew(leaseId: string, durationInSeconds: number, request: LeaseRequest): Promise<LeaseResponseLike>;
  change(leaseId: string, proposedLeaseId: string, request: LeaseRequest): Promise<LeaseResponseLike>;
  release(leaseId: string, request: LeaseRequest): Promise<unknown>;
  /** Instead of `release`, for a lease without a holder: undoes all that the requests for it may have done. */
  readonly releaseOrphaned?: ((leaseId: string, request: LeaseRequest) => Promise<unknown>) | undefined;
  /** `ifMatch` is for blobs only. */
  break(breakPeriodInSeconds: number, request: LeaseRequest, ifMatch?: string): Promise<unknown>;
  inspect(request: LeaseRequest): Promise<LeasePropertiesLike>;
  /** Creates an empty blob unless one exists; undefined for targets other than block blobs. */
  readonly create: ((request: LeaseRequest) => Promise<unknown>) | undefined;
}

/** The adapter for a client whose target can be leased. Throws a TypeError for everything else. */
export function leaseAdapterOf(target: LeasableLike): LeaseAdapter {
  const given: unknown = target;
  if (typeof given === "object" && given !== null) {
    rejectSnapshot((given as { url?: unknown }).url);
    if (isBlobLeasable(given)) return blobLeaseAdapter(given);
    if (isShareLeasable(given)) return shareLeaseAdapter(given);
    if ("listFilesAndDirectories" in given) {
      throw new TypeError("a directory cannot be leased: pass a ShareFileClient, or the ShareClient");
    }
  }
  throw new TypeError("not a target for leases: pass a blob client, a ContainerClient, a ShareClient or a ShareFileClient");
}

/** The service rejects it, too, but only after a request was sent, and with a code that does not give the reason. */
function rejectSnapshot(url: unknown): void {
  if (isSnapshotUrl(url)) {
    throw new TypeError("A snapshot or an old version of a blob cannot be leased: it cannot be changed.");
  }
}

function isBlobLeasable(target: object): target is LeasableBlobLike {
  return typeof (target as Partial<LeasableBlobLike>).getBlobLeaseClient === "function";
}

/** Leases of blobs and containers. */
function blobLeaseAdapter(target: LeasableBlobLike): LeaseAdapter {
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

function creatorOf(target: LeasableBlobLike): LeaseAdapter["create"] {
  if (!("upload" in target) || typeof target.upload !== "function") return undefined;
  const blob = target as LeasableBlobLike & Uploads;
  return (request) => blob.upload(new Uint8Array(0), 0, { ...leaseOptions(request), conditions: { ifNoneMatch: "*" } });
}

function isShareLeasable(target: object): target is ShareLike | LeasableShareLike {
  return typeof (target as Partial<LeasableShareLike>).getShareLeaseClient === "function";
}

/** Leases of Azure Files: the lease of a share expires as that of a blob does; the lease of a file never expires. */
function shareLeaseAdapter(target: ShareLike | LeasableShareLike): LeaseAdapter {
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
      // Without a period, the lease of a share would continue for its remaining time. The SDK's types do not have the option,
      // but the SDK sends it.
      const options = { ...leaseOptions(request), ...(kind === "share" && { breakPeriod: period }) };
      return target.getShareLeaseClient().breakLease(options);
    },
    inspect: (request) => target.getProperties(leaseOptions(request)),
    create: undefined,
  };
}

/**
 * Checks that the lease still exists, by a read that names its id: the service rejects it once the lease is broken, released or
 * held by another client. Acquiring again with the same id would not show this: it succeeds after a break, and so would
 * restore a lease that another client has taken away on purpose.
 */
async function confirm(target: LeasableShareLike, leaseId: string, request: LeaseRequest): Promise<LeaseResponseLike> {
  const { leaseState } = await target.getProperties({ ...leaseOptions(request), leaseAccessConditions: { leaseId } });
  return { leaseId, leaseState };
}

/**
 * The SDK's `renewLease` throws, so the lease is acquired again with the same id, which restarts its duration. A read comes
 * first: without it, a lease that was broken in the meantime would be restored. The window between the two requests remains.
 */
async function renewShare(share: LeasableShareLike, leaseId: string, duration: number, request: LeaseRequest): Promise<LeaseResponseLike> {
  const confirmed = await confirm(share, leaseId, request);
  if (confirmed.leaseState !== undefined && confirmed.leaseState !== "leased") return confirmed;
  return share.getShareLeaseClient(leaseId).acquireLease(duration, leaseOptions(request));
}

/** The SDK's options of one request. Counts the request. */
function leaseOptions(request: LeaseRequest): LeaseCallOptions {
  request.onRequest?.();
  return {
    abortSignal: request.abortSignal,
    ...(request.tracingOptions && { tracingOptions: request.tracingOptions }),
    ...(request.ifNoneMatch !== undefined && { conditions: { ifNoneMatch: request.ifNoneMatch } }),
  };
}

/** The id of a lease; two ids after a change whose outcome is unknown. */
export class LeaseIds {
  #current: string;
  #other: string | undefined;

  constructor(leaseId: string) {
    this.#current = leaseId;
  }

  get current(): string {
    return this.#current;
  }

  get all(): string[] {
    return this.#other === undefined ? [this.#current] : [this.#current, this.#other];
  }

  /** The lease has this id. The other one is kept: an abandoned change request may still arrive. */
  becomes(leaseId: string): void {
    this.#other = this.#current;
    this.#current = leaseId;
  }

  mayBecome(leaseId: string): void {
    this.#other = leaseId;
  }

  /** Sends a request with the current id; if the service knows the lease by the other id, with that one. */
  async use<R>(send: (leaseId: string) => Promise<RequestOutcome<R>>): Promise<RequestOutcome<R>> {
    const outcome = await send(this.#current);
    if (outcome.kind === "ok" || this.#other === undefined || !isLeaseIdMismatch(outcome.error)) return outcome;
    const other = this.#other;
    const again = await send(other);
    // Neither matches: the response for the expected id counts.
    if (again.kind !== "ok") return outcome;
    this.becomes(other);
    return again;
  }
}

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** The service accepts only GUIDs, and Azurite accepts anything: checked before a request is sent. */
export function checkLeaseId(name: string, leaseId: string): void {
  if (typeof leaseId !== "string" || !guid.test(leaseId)) throw new RangeError(`${name} must be a GUID`);
}
