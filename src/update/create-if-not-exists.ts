import type { BlockBlobLike } from "../clients/blob.js";
import { throwIfAborted } from "../core/deadline.js";
import { retry } from "../core/retry.js";
import { isLeaseConflict, isUnauthorizedOverwrite } from "../core/storage-errors.js";
import { describeSpan, logger } from "../core/telemetry.js";
import { checkOptions } from "../core/validate.js";
import { createError, CommitUnknownError, ConflictError } from "../errors.js";
import { newWriteId } from "../target/journal.js";
import { checkedResult, readSnapshot } from "../target/target.js";
import type { Snapshot, Target } from "../target/target.js";
import type { UpdateResult } from "./mutator.js";
import { commit, tokensOf } from "./commit.js";
import { checkTargetSettings, requireWritable, resolveTarget, targetOptionNames } from "./options.js";
import type { TargetOptions } from "./options.js";
import { runCall } from "./run-call.js";

/** The number of attempts if the target exists at one moment and does not at the next. */
const maxAttempts = 10;

/**
 * Creates the target with this value unless it exists. Returns what is stored; `outcome` is `"created"` or `"unchanged"`.
 * Costs 1 request if it is created, 2 if it exists (a file: 3 and 6).
 *
 * @example
 * ```ts
 * const { value, outcome } = await createIfNotExists(jsonBlob<Settings>(blob), { level: "info" });
 * ```
 * @throws {@link CommitUnknownError} if it cannot be known whether this call created it.
 * @throws {@link ConflictError} if other clients create and delete it again and again: this call created nothing.
 * @throws {@link SchemaError} if the value, or what is stored, does not match the schema.
 * @throws {@link OperationTimeoutError} if the time was over before a write was sent: nothing was written.
 */
export async function createIfNotExists<I, T = I>(target: Target<T, I> | BlockBlobLike, value: I, options: TargetOptions = {}): Promise<UpdateResult<T>> {
  checkOptions("createIfNotExists", options, targetOptionNames);
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget(target, settings);
  requireWritable(adapter, "createIfNotExists");
  return runCall("createIfNotExists", options, settings, adapter.url, async (context, { markWrite, attempts: trace, span }) => {
    // The adapter accepts a value without the keys of its entity.
    const encoded = adapter.encode(value as unknown as T, undefined);
    const draft = adapter.validate ? await adapter.validate(encoded, "write") : encoded;
    // Before the write: a codec of the application may throw, and then nothing must be stored.
    const created = adapter.decode(draft);
    const existing = async (found: Snapshot<unknown>, attempts: number): Promise<UpdateResult<T>> => ({
      ...(await checkedResult(adapter, found, context.journalName)),
      outcome: "unchanged",
      attempts,
      operationId: newWriteId(),
    });
    const started = performance.now();
    const conflictError = (cause: unknown): ConflictError => {
      const details = { url: adapter.url, attempts: maxAttempts, elapsedInMs: performance.now() - started, currentETag: undefined, cause };
      return createError(ConflictError, `${adapter.url} was not created: other clients create and delete it again and again.`, details);
    };
    const createOnce = async (attempts: number): Promise<UpdateResult<T>> => {
      trace.begin();
      const writeId = newWriteId();
      const plan = { base: undefined, draft, journaling: settings.journaling, writeId };
      const operationId = tokensOf(adapter, plan)(undefined);
      const outcome = await markWrite(operationId, (onConflict) => commit(adapter, plan, context, onConflict));
      // Rejected because of a lease, or because a SAS may only create: the target exists, and can be read.
      if (outcome.kind === "rejected" && !isLeaseConflict(outcome.error) && !isUnauthorizedOverwrite(outcome.error)) throw outcome.error;
      if (outcome.kind === "committed") {
        const etag = outcome.found && !outcome.superseded ? outcome.found.etag : adapter.staleETag;
        return { value: created, etag, outcome: "created", attempts, operationId: writeId };
      }
      // This call may or may not have written what is stored now: "unchanged" could be as wrong as "created".
      if (outcome.kind === "unknown") {
        throw createError(CommitUnknownError, `It is unknown whether this call created ${adapter.url}: the request was sent but its response was lost.`, { url: adapter.url, attempts, operationId, cause: outcome.error });
      }
      throwIfAborted(context.abortSignal);
      const found = outcome.kind === "conflict" && outcome.found !== undefined ? outcome.found : await readSnapshot(adapter, context);
      if (found) return existing(found, attempts);
      trace.end("conflict");
      logger.verbose(`a write to ${adapter.url} met a conflict`);
      throw conflictError(outcome.error);
    };
    // A leased target exists. With the lease id in the request, the service would let If-None-Match overwrite it.
    const leased = settings.leaseId === undefined ? undefined : await readSnapshot(adapter, context);
    const shouldRetry = (error: unknown): boolean => error instanceof ConflictError;
    const result = leased
      ? await existing(leased, 0)
      : await retry(createOnce, { maxAttempts, shouldRetry, abortSignal: context.abortSignal });
    describeSpan(span, { outcome: result.outcome });
    return result;
  }, { targetKind: adapter.kind, isUpdate: true });
}
