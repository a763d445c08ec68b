import type { BlockBlobLike } from "../clients/blob.js";
import type { TimedCallOptions } from "../clients/call.js";
import { Deadline, throwIfAborted } from "../core/deadline.js";
import { request } from "../core/request.js";
import { isDefinitive, isNotFound, toConcurrencyError } from "../core/storage-errors.js";
import { withAttempts } from "../core/telemetry.js";
import type { Attempts, CallSpan, SpanDetails } from "../core/telemetry.js";
import { checkOptions, requireETag } from "../core/validate.js";
import { createError, CommitUnknownError, ConflictError, OperationTimeoutError, TargetNotFoundError } from "../errors.js";
import type { AnyInput, RequestContext, ServiceAdapter, Target, UpdateTarget } from "../target/target.js";
import { commit } from "./commit.js";
import { checkTargetSettings, checkTimeout, requireConditional, resolveTarget, targetOptionNames } from "./options.js";
import type { TargetOptions, TargetSettings } from "./options.js";

/** Options of {@link overwrite}. */
export type WriteTargetOptions = TargetOptions;

/**
 * Stores the value unconditionally, and creates the target if it does not exist: the last writer wins. Costs 1 request (3 for a
 * file). Reads nothing, and so preserves nothing: existing headers, metadata, tags or properties are lost. An update in
 * progress in another call or process detects the write and starts again from this value.
 *
 * @example
 * ```ts
 * await overwrite(jsonBlob<Settings>(blob), { level: "info" });
 * ```
 * @throws {@link CommitUnknownError} if the time was over while the write was in flight.
 * @throws {@link OperationTimeoutError} if the time was over before: nothing was written.
 * @throws {@link SchemaError} if the value does not match the schema: nothing was written.
 * @throws {@link LeaseUnavailableError} if another client has leased the target: nothing was written.
 */
export async function overwrite<I>(
  target: Target<AnyInput, I> | BlockBlobLike,
  value: I,
  options: WriteTargetOptions = {},
): Promise<{ readonly etag: string }> {
  checkOptions("overwrite", options, targetOptionNames);
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget<unknown>(target, settings);
  return runCall("overwrite", options, settings, adapter.url, async (context, { markWrite }) => {
    const encoded = adapter.encode(value, undefined);
    const raw = adapter.validate ? await adapter.validate(encoded, "write") : encoded;
    return { etag: await markWrite(() => overwriteOnce(adapter, raw, context)) };
  }, { targetKind: adapter.kind });
}

/**
 * A rejection proves that nothing was written only if it belongs to the only send: the SDK may have sent the write before, and lost
 * the response. Targets that need several requests for a write resolve that themselves.
 */
async function overwriteOnce(adapter: ServiceAdapter<unknown, unknown>, raw: unknown, context: RequestContext): Promise<string> {
  if (adapter.requiresLease) return adapter.overwrite(raw, context);
  const sent = await request((abortSignal) => adapter.overwrite(raw, { ...context, abortSignal }), { abortSignal: context.abortSignal });
  if (sent.kind === "ok") return sent.value;
  const { error } = sent;
  if (sent.kind === "rejected" || !isDefinitive(error)) throw error;
  const message = `The outcome of a write to ${adapter.url} is unknown: the request was sent several times, and the last one was rejected.`;
  throw createError(CommitUnknownError, message, { url: adapter.url, attempts: 1, cause: error });
}

/**
 * Deletes the target if it still has this ETag. If the response was lost and the target does not exist now, it counts as deleted.
 * Costs 1 request.
 *
 * @example
 * ```ts
 * const { value, etag } = await readTarget<Job>(blob);
 * if (value.state === "done") await deleteIfUnchanged(blob, etag);
 * ```
 * @throws {@link ConflictError} if it was changed: nothing was deleted.
 * @throws {@link TargetNotFoundError} if it does not exist.
 * @throws {@link CommitUnknownError} if it cannot be known whether it was deleted.
 */
export async function deleteIfUnchanged(
  target: UpdateTarget<AnyInput, AnyInput> | BlockBlobLike,
  etag: string,
  options: TargetOptions = {},
): Promise<void> {
  checkOptions("deleteIfUnchanged", options, targetOptionNames);
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget<unknown>(target, settings);
  requireConditional(adapter, "deleteIfUnchanged");
  requireETag(etag, adapter.url);
  if (etag === "*") throw new TypeError('deleteIfUnchanged: an ETag of "*" would delete any version.');
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
        throw createError(CommitUnknownError, `It is unknown whether ${adapter.url} was deleted: it exists, but another client may have created it again.`, {
          url: adapter.url,
          attempts: 1,
          cause: outcome.error,
        });
      case "conflict":
        if (isNotFound(outcome.error)) {
          throw createError(TargetNotFoundError, `${adapter.url} does not exist.`, { url: adapter.url, cause: outcome.error });
        }
        throw createError(ConflictError, `${adapter.url} was changed by another client. It was not deleted.`, {
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
  options: TimedCallOptions,
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
  const cause = createError(OperationTimeoutError, `The call on ${url} timed out after ${timeoutInMs} ms (timeoutInMs). Nothing was written.`, {
    url,
    elapsedInMs: performance.now() - started,
  });
  if (!inFlight) return cause;
  return createError(CommitUnknownError, 
    `The outcome of a write to ${url} is unknown: the request was sent but no response arrived within ${timeoutInMs} ms (timeoutInMs).`,
    { url, attempts: 1, cause },
  );
}
