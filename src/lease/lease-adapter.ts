import type { OperationTracingOptions } from "@azure/core-tracing";
import type { LeasableLike, LeaseAnswerLike, LeaseCallOptions } from "../clients.js";
import { ownerOf } from "../internal/owner.js";
import { displayUrl } from "../internal/url.js";

/** What goes with every request about a lease. */
export interface LeaseRequest {
  readonly abortSignal: AbortSignal;
  readonly tracingOptions?: OperationTracingOptions | undefined;
  /** Called for each request that is made. */
  readonly onRequest?: (() => void) | undefined;
}

/** All that leases know of a service: the five operations. */
export interface LeaseAdapter {
  /** Where it is, without the query. */
  readonly url: string;
  /** Stands for the client's credentials: waiters share a poller, and a lease, within one owner only. */
  readonly owner: object;
  /** Identifies the resource within its owner. */
  readonly key: string;
  /** -1: without end. */
  acquire(leaseId: string, durationInSeconds: number, request: LeaseRequest): Promise<LeaseAnswerLike>;
  renew(leaseId: string, request: LeaseRequest): Promise<LeaseAnswerLike>;
  change(leaseId: string, proposedLeaseId: string, request: LeaseRequest): Promise<LeaseAnswerLike>;
  release(leaseId: string, request: LeaseRequest): Promise<unknown>;
  /** Makes an empty blob unless there is one; undefined where that makes no sense. */
  readonly create: ((request: LeaseRequest) => Promise<unknown>) | undefined;
}

/** The adapter of a blob or container client. */
export function leaseAdapterOf(target: LeasableLike): LeaseAdapter {
  checkLeasable(target);
  return {
    url: displayUrl(target.url),
    owner: ownerOf(target),
    key: target.url,
    acquire: (id, duration, request) => target.getBlobLeaseClient(id).acquireLease(duration, leaseOptions(request)),
    renew: (id, request) => target.getBlobLeaseClient(id).renewLease(leaseOptions(request)),
    change: (id, proposed, request) => target.getBlobLeaseClient(id).changeLease(proposed, leaseOptions(request)),
    release: (id, request) => target.getBlobLeaseClient(id).releaseLease(leaseOptions(request)),
    create: creatorOf(target),
  };
}

export function checkLeasable(target: LeasableLike): void {
  if (typeof (target as Partial<LeasableLike> | null | undefined)?.getBlobLeaseClient !== "function") {
    throw new TypeError("not a target for leases: pass a blob client or a ContainerClient");
  }
}

/** The options of one request, which is counted here. */
export function leaseOptions(request: LeaseRequest): LeaseCallOptions {
  request.onRequest?.();
  return {
    abortSignal: request.abortSignal,
    ...(request.tracingOptions && { tracingOptions: request.tracingOptions }),
  };
}

interface Uploads {
  upload(
    body: Uint8Array,
    contentLength: number,
    options: LeaseCallOptions & { conditions: { ifNoneMatch: string } },
  ): Promise<unknown>;
}

function creatorOf(target: LeasableLike): LeaseAdapter["create"] {
  if (!("upload" in target) || typeof target.upload !== "function") return undefined;
  const blob = target as LeasableLike & Uploads;
  return (request) => blob.upload(new Uint8Array(0), 0, { ...leaseOptions(request), conditions: { ifNoneMatch: "*" } });
}
