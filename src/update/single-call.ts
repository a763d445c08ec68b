import type { BlockBlobLike } from "../clients.js";
import { throwIfAborted } from "../core/abort.js";
import { explain, isMissing } from "../core/storage-errors.js";
import { withAttempts } from "../core/telemetry.js";
import type { Attempts, CallSpan, SpanFacts } from "../core/telemetry.js";
import { TimeLimit } from "../core/time-limit.js";
import { CommitUnknownError, ConflictError, DeadlineError, TargetNotFoundError } from "../errors.js";
import { requireETag } from "../target/target.js";
import type { GuardedTarget, RequestContext, UpdateTarget } from "../target/target.js";
import { commit } from "./commit.js";
import { checkGroupSettings, checkTimeout, requireConditional, resolveTarget } from "./options.js";
import type { RequestOptions, TargetConditions } from "./options.js";
import type { GroupSettings } from "./update-queue.js";

/** Runs what sends a write: if the time is over meanwhile, nobody knows whether it landed. */
export type Writing = <W>(send: () => Promise<W>) => Promise<W>;

/** What a helper works with, besides the context of its requests. */
export interface RequestCall {
  readonly writing: Writing;
  readonly attempts: Attempts;
  readonly span: CallSpan;
}

/**
 * Runs a helper that is no loop: a span, a time limit, the caller's signal, and errors that name the target. One that
 * does try several times ends an attempt and begins the next itself.
 */
export function withRequestContext<R>(
  name: string,
  options: RequestOptions,
  settings: GroupSettings,
  url: string,
  run: (context: RequestContext, call: RequestCall) => Promise<R>,
  facts: SpanFacts = {},
): Promise<R> {
  const timeoutInMs = checkTimeout(options.timeoutInMs);
  return withAttempts(name, options, async (attempts, span) => {
    throwIfAborted(options.abortSignal);
    const controller = new AbortController();
    const started = performance.now();
    let inFlight = false;
    const limit = new TimeLimit(
      timeoutInMs,
      options.abortSignal,
      () => tooLate(url, timeoutInMs, started, inFlight),
      (reason) => controller.abort(reason),
    );
    const writing: Writing = async (send) => {
      inFlight = true;
      try {
        return await send();
      } finally {
        inFlight = false;
      }
    };
    const context: RequestContext = {
      abortSignal: controller.signal,
      get tracingOptions() {
        return attempts.tracingOptions;
      },
      leaseId: settings.leaseId,
      journalName: settings.journalName,
      onRequest: () => attempts.countRequest(),
    };
    try {
      attempts.begin();
      return await limit.during(run(context, { writing, attempts, span }));
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      throw explain(error, url);
    } finally {
      limit.letGo();
    }
  }, { url, ...facts });
}

function tooLate(url: string, timeoutInMs: number, started: number, inFlight: boolean): Error {
  const cause = new DeadlineError(`${url}: no result within ${timeoutInMs} ms (timeoutInMs). Nothing was written.`, {
    elapsedInMs: performance.now() - started,
  });
  if (!inFlight) return cause;
  return new CommitUnknownError(
    `a write to ${url} was sent, but not answered within ${timeoutInMs} ms (timeoutInMs): whether it landed is not known`,
    { attempts: 1, cause },
  );
}

/** Options of {@link overwrite}. */
export interface OverwriteOptions extends RequestOptions {
  /** The id of a lease that the caller holds on the blob. */
  conditions?: TargetConditions | undefined;
}

/**
 * Last writer wins: stores the value whatever is there, creating the target if need be. Costs 1 request (3 for a
 * file), reads nothing, and so preserves nothing: other headers, metadata, tags or properties are gone afterwards. An update that
 * is under way elsewhere notices it and starts again from this value.
 */
export async function overwrite<T>(
  target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike,
  value: T,
  options: OverwriteOptions = {},
): Promise<{ etag: string }> {
  const settings = checkGroupSettings(options);
  const adapter = resolveTarget(target, settings);
  return withRequestContext("overwrite", options, settings, adapter.url, async (context, { writing }) => {
    const raw = adapter.encode(value, undefined);
    await adapter.check?.(value, "write");
    return { etag: await writing(() => adapter.overwrite(raw, context)) };
  }, { targetKind: adapter.kind });
}

/**
 * Deletes the target if it still has this ETag. Changed since: `ConflictError`. Not there: `TargetNotFoundError`
 * (but not if the answer was lost and it is gone now: that is what was asked for). Costs 1 request.
 */
export async function removeIfUnchanged<T>(
  target: UpdateTarget<T> | BlockBlobLike,
  etag: string,
  options: OverwriteOptions = {},
): Promise<void> {
  const settings = checkGroupSettings(options);
  const adapter = resolveTarget(target, settings);
  requireConditional(adapter, "removeIfUnchanged");
  requireETag(etag, adapter.url);
  if (etag === "*") throw new TypeError('an ETag of "*" would delete whatever is there');
  await withRequestContext("removeIfUnchanged", options, settings, adapter.url, async (context, { writing }) => {
    const started = performance.now();
    const base = { etag, raw: undefined, journal: undefined };
    const verdict = await writing(() => commit(adapter, { base, draft: undefined, journaling: false }, context));
    switch (verdict.kind) {
      case "landed":
        return;
      case "refused":
        throw verdict.error;
      case "unknown":
        throw new CommitUnknownError(`whether ${adapter.url} was deleted cannot be known: it exists, but may have been made anew`, {
          attempts: 1,
          cause: verdict.error,
        });
      case "race":
        if (isMissing(verdict.error)) {
          throw new TargetNotFoundError(`${adapter.url} does not exist`, { url: adapter.url, cause: verdict.error });
        }
        throw new ConflictError(`${adapter.url} was changed since it was read. It was not deleted.`, {
          attempts: 1,
          elapsedInMs: performance.now() - started,
          lastETag: etag,
          cause: verdict.error,
        });
    }
  }, { targetKind: adapter.kind });
}
