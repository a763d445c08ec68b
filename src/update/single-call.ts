import type { BlockBlobLike } from "../clients/blob.js";
import { Deadline, throwIfAborted } from "../core/deadline.js";
import { isNotFound, toConcurrencyError } from "../core/storage-errors.js";
import { withAttempts } from "../core/telemetry.js";
import type { Attempts, CallSpan, SpanDetails } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { createError, CommitUnknownError, ConflictError, OperationTimeoutError, TargetNotFoundError } from "../errors.js";
import type { LeasedTarget, RequestContext, UpdateTarget } from "../target/target.js";
import { commit } from "./commit.js";
import { checkTargetSettings, checkTimeout, requireConditional, resolveTarget } from "./options.js";
import type { RequestOptions, LeaseCondition, TargetSettings } from "./options.js";

/** Options of {@link overwrite}. */
export interface WriteTargetOptions extends RequestOptions {
  /** The id of a lease that the caller holds on the blob. */
  conditions?: LeaseCondition | undefined;
}

/**
 * Last writer wins: stores the value unconditionally, and creates the target if it does not exist. Costs 1 request (3 for a
 * file). Reads nothing, and so preserves nothing: existing headers, metadata, tags or properties are lost. An update in
 * progress in another call or process detects the write and starts again from this value.
 */
export async function overwrite<T>(
  target: UpdateTarget<T> | LeasedTarget<T> | BlockBlobLike,
  value: T,
  options: WriteTargetOptions = {},
): Promise<{ etag: string }> {
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget(target, settings);
  return runCall("overwrite", options, settings, adapter.url, async (context, { markWrite }) => {
    const raw = adapter.encode(value, undefined);
    await adapter.check?.(value, "write");
    return { etag: await markWrite(() => adapter.overwrite(raw, context)) };
  }, { targetKind: adapter.kind });
}

/**
 * Deletes the target if it still has this ETag. Changed since: `ConflictError`. Not found: `TargetNotFoundError` (but not if
 * the response was lost and the target does not exist now: it counts as deleted). Costs 1 request.
 */
export async function deleteIfUnchanged<T>(
  target: UpdateTarget<T> | BlockBlobLike,
  etag: string,
  options: WriteTargetOptions = {},
): Promise<void> {
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget(target, settings);
  requireConditional(adapter, "deleteIfUnchanged");
  requireETag(etag, adapter.url);
  if (etag === "*") throw new TypeError('an ETag of "*" would delete whatever is there');
  await runCall("deleteIfUnchanged", options, settings, adapter.url, async (context, { markWrite }) => {
    const started = performance.now();
    const base = { etag, raw: undefined, journal: undefined };
    const outcome = await markWrite(() => commit(adapter, { base, draft: undefined, journaling: false }, context));
    switch (outcome.kind) {
      case "committed":
        return;
      case "rejected":
        throw outcome.error;
      case "unknown":
        throw createError(CommitUnknownError, `whether ${adapter.url} was deleted cannot be known: it exists, but may have been made anew`, {
          url: adapter.url,
          attempts: 1,
          cause: outcome.error,
        });
      case "conflict":
        if (isNotFound(outcome.error)) {
          throw createError(TargetNotFoundError, `${adapter.url} does not exist`, { url: adapter.url, cause: outcome.error });
        }
        throw createError(ConflictError, `${adapter.url} was changed since it was read. It was not deleted.`, {
          url: adapter.url,
          attempts: 1,
          elapsedInMs: performance.now() - started,
          currentETag: outcome.found?.etag,
          cause: outcome.error,
        });
    }
  }, { targetKind: adapter.kind });
}

/**
 * Runs the part of a call that sends a write: if the deadline passes meanwhile, the outcome is unknown. `onConflict` is for
 * `commit`: the service has rejected the write, so its outcome is known from then on.
 */
export type MarkWrite = <W>(send: (onConflict: () => number) => Promise<W>) => Promise<W>;

/** What a helper gets besides the context of its requests. */
export interface SingleCall {
  readonly markWrite: MarkWrite;
  readonly attempts: Attempts;
  readonly span: CallSpan;
}

/**
 * Runs a helper without a loop, with a span, a deadline, the caller's signal, and errors that name the target. A helper that
 * makes several attempts ends each and begins the next itself.
 */
export function runCall<R>(
  name: string,
  options: RequestOptions,
  settings: TargetSettings,
  url: string,
  run: (context: RequestContext, call: SingleCall) => Promise<R>,
  details: SpanDetails = {},
): Promise<R> {
  const timeoutInMs = checkTimeout(options.timeoutInMs);
  return withAttempts(name, options, async (attempts, span) => {
    throwIfAborted(options.abortSignal);
    const started = performance.now();
    let inFlight = false;
    const deadline = new Deadline(timeoutInMs, () => timeoutError(url, timeoutInMs, started, inFlight), options.abortSignal);
    const markWrite: MarkWrite = async (send) => {
      inFlight = true;
      try {
        return await send(() => {
          inFlight = false;
          return 0;
        });
      } finally {
        inFlight = false;
      }
    };
    const context: RequestContext = {
      abortSignal: deadline.signal,
      get tracingOptions() {
        return attempts.tracingOptions;
      },
      leaseId: settings.leaseId,
      journalName: settings.journalName,
      onRequest: () => attempts.countRequest(),
    };
    try {
      attempts.begin();
      return await deadline.race(run(context, { markWrite, attempts, span }));
    } catch (error) {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      throw toConcurrencyError(error, url);
    } finally {
      deadline.dispose();
    }
  }, { url, ...details });
}

function timeoutError(url: string, timeoutInMs: number, started: number, inFlight: boolean): Error {
  const cause = createError(OperationTimeoutError, `${url}: no result within ${timeoutInMs} ms (timeoutInMs). Nothing was written.`, {
    url,
    elapsedInMs: performance.now() - started,
  });
  if (!inFlight) return cause;
  return createError(CommitUnknownError, 
    `a write to ${url} was sent, but not answered within ${timeoutInMs} ms (timeoutInMs): whether it landed is not known`,
    { url, attempts: 1, cause },
  );
}
