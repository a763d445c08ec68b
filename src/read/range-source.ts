import type { OperationTracingOptions } from "@azure/core-tracing";
import type { BlobCallOptions, BlobDownloadLike, DownloadableLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import { abortReason, Deadline, onAbort, RequestTimeoutError } from "../core/deadline.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import { callListener } from "../core/failures.js";
import { createError, ContentChangedError, OperationTimeoutError } from "../errors.js";
import { discardBody, holdBody } from "../target/content.js";
import type { DownloadSettings } from "./download-options.js";

/** What the requests for ranges of one blob share. */
export interface RangeSource {
  readonly blob: DownloadableLike;
  readonly url: string;
  readonly settings: DownloadSettings;
  readonly tracingOptions: OperationTracingOptions | undefined;
  /** Aborts all requests, with the first error as the reason: if one range fails, the others are not needed. */
  readonly stop: AbortController;
}

/** How many attempts in a row may make no progress. More if they fail quickly: see `PinnedRange.fetch`. */
export const maxAttemptsWithoutProgress = 5;

/** The time limit and the cancellation of one request, whose body is read after its response has arrived. */
export function rangeDeadline({ settings: { tryTimeoutInMs }, stop }: RangeSource): Deadline {
  return new Deadline(tryTimeoutInMs, () => new RequestTimeoutError(tryTimeoutInMs, "not complete"), stop.signal);
}

/**
 * Requests a range. A response that comes after the deadline is discarded: a client that ignores its signal delivers it
 * nevertheless, and a body without a listener ends the process when its request is aborted.
 */
export async function requestRange(source: RangeSource, deadline: Deadline, offset: number, count: number | undefined, ifMatch?: string): Promise<BlobDownloadLike> {
  const requested = source.blob.download(offset, count, requestOptions(source, deadline.signal, ifMatch));
  try {
    const response = await deadline.race(requested);
    holdBody(response);
    return response;
  } catch (error) {
    requested.then(discardBody, () => undefined);
    throw error;
  }
}

function requestOptions({ settings, tracingOptions }: RangeSource, abortSignal: AbortSignal, ifMatch?: string): BlobCallOptions {
  return {
    abortSignal,
    ...(tracingOptions && { tracingOptions }),
    conditions: { ...(ifMatch !== undefined && { ifMatch }), ...(settings.leaseId !== undefined && { leaseId: settings.leaseId }) },
  };
}

/** Reports the bytes that arrive. An error of the caller's function ends the download. */
export function progressOf(source: RangeSource, totalBytes: number, restarts: number): (count: number) => void {
  const { onProgress } = source.settings;
  if (!onProgress) return () => undefined;
  let loadedBytes = 0;
  return (count) => {
    loadedBytes += count;
    callListener(onProgress, { loadedBytes, totalBytes, restarts }, (error) => source.stop.abort(error));
  };
}

export function stopOnAbort(source: RangeSource, { abortSignal }: CallOptions): () => void {
  return onAbort(abortSignal, () => abortSignal && source.stop.abort(abortReason(abortSignal)));
}

/** The version that is being downloaded is not stored any more. */
export class VersionChangedError extends Error {
  override readonly name = "VersionChangedError";
  readonly etag: string;

  constructor(etag: string, cause?: unknown) {
    super("the blob is no longer the version that is being read", { cause });
    this.etag = etag;
  }
}

/** Several attempts in a row brought nothing. */
export class NoProgressError extends Error {
  override readonly name = "NoProgressError";
  readonly attempts: number;
  readonly elapsedInMs: number;

  constructor(attempts: number, elapsedInMs: number, cause: unknown) {
    super("the download makes no progress", { cause });
    this.attempts = attempts;
    this.elapsedInMs = elapsedInMs;
  }
}

/** The error that a caller gets. */
export function toDownloadError(error: unknown, { url, settings }: RangeSource, restarts: number): unknown {
  if (error instanceof VersionChangedError) {
    const after = restarts === 0 ? "" : `, after ${restarts} restarts`;
    return createError(ContentChangedError, 
      `${url} was rewritten or deleted during the download${after}. Retry later, or download a snapshot.`,
      { url, etag: error.etag, restarts, cause: error.cause },
    );
  }
  if (error instanceof NoProgressError) {
    const { attempts, elapsedInMs, cause } = error;
    const message = `The download of ${url} made no progress: ${attempts} requests in a row over ${Math.round(elapsedInMs)} ms brought nothing of the requested range (tryTimeoutInMs: ${settings.tryTimeoutInMs}).`;
    return createError(OperationTimeoutError, message, { url, elapsedInMs, cause });
  }
  return toConcurrencyError(error, url);
}
