import type { OperationTracingOptions } from "@azure/core-tracing";
import type { LeaseAnswerLike, LeaseCallOptions, LeasePropertiesLike } from "../clients.js";

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
  breakIt(periodInSeconds: number, request: LeaseRequest, ifMatch?: string): Promise<unknown>;
  look(request: LeaseRequest): Promise<LeasePropertiesLike>;
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
