import type { BlockBlobLike } from "../clients/blob.js";
import type { ConflictRetryOptions, TimedCallOptions, WriteOutcomeOptions } from "../clients/call.js";
import { checkIdentifier, checkOneOf, checkRetryLimits, checkTimeLimits } from "../core/validate.js";
import type { OptionNames, RetryLimits, TimeLimits } from "../core/validate.js";
import { isNotFound } from "../core/storage-errors.js";
import { createError, ConflictError, TargetNotFoundError, quotedText } from "../errors.js";
import { jsonBlob } from "../target/blob-content.js";
import { checkOperationId, defaultJournalName } from "../target/journal.js";
import { adapterOf } from "../target/target.js";
import type { AnyInput, ReadResult, ServiceAdapter, Target } from "../target/target.js";

/** How the requests of a call treat their target, after defaults and checks. */
export interface TargetSettings {
  readonly journaling: boolean;
  readonly journalName: string;
  readonly leaseId: string | undefined;
  readonly coalesce: boolean;
}

/** The lease under which the requests of a call, {@link optimisticUpdate} for example, are sent. See {@link TargetOptions}. */
export interface LeaseCondition {
  /** The id of a lease that the caller holds on the target. @defaultValue none: a leased target rejects the write */
  readonly leaseId?: string | undefined;
}

/** The options of all calls on a target, for example {@link readTarget}. */
export interface TargetOptions extends TimedCallOptions {
  /** Sent with every request of the call; not for entities. @defaultValue none */
  conditions?: LeaseCondition | undefined;
  /**
   * The name of the metadata entry or table property that holds the journal of writes, the same for all writers of a target;
   * `false`: no journal, so that a write whose response is lost is a {@link CommitUnknownError}.
   * @defaultValue "asc_journal": the response to a write that was lost is recognised by it
   */
  journal?: string | false | undefined;
}

/** Options of {@link optimisticUpdate}. */
export interface OptimisticUpdateOptions<T, I = T> extends TargetOptions, ConflictRetryOptions, WriteOutcomeOptions {
  /**
   * The value to start from if the target does not exist, which is then created.
   * @defaultValue none: a missing target is a {@link TargetNotFoundError}
   */
  initial?: I | (() => I) | undefined;
  /**
   * Update exactly the version with this ETag, for example one that a client sent in `If-Match`: one attempt, and otherwise a
   * {@link ConflictError} with the current ETag. Excludes `startFrom`.
   * @defaultValue none: the newest version is updated
   */
  ifMatch?: string | undefined;
  /**
   * A result of {@link readTarget} for this target, which saves the first read. If it is outdated, it costs one attempt.
   * @defaultValue none: the call reads first
   */
  startFrom?: ReadResult<NoInfer<T>> | undefined;
  /**
   * Whether concurrent updates of the same target in this process, under the same credentials, share reads and writes. The
   * functions of the callers run in the async context of their own calls; a shared request travels in that of one of its callers. Pass
   * `false` if a policy of the client depends on the context: on the user of the call, for example.
   * @defaultValue true: a fraction of the requests, and no conflicts within a process
   */
  coalesce?: boolean | undefined;
}

/** The names of {@link TargetOptions}, for calls that have no others. */
export const targetOptionNames: OptionNames<TargetOptions> = { abortSignal: 1, tracingOptions: 1, timeoutInMs: 1, tryTimeoutInMs: 1, conditions: 1, journal: 1 };

export const updateDefaults: Readonly<UpdateDefaults> = Object.freeze({
  maxAttempts: 50,
  timeoutInMs: 30_000,
  retryDelayInMs: 10,
  maxRetryDelayInMs: 1_000,
  coalesce: true,
  onUnknown: "throw",
});

interface UpdateDefaults extends Omit<CheckedUpdateOptions, "tryTimeoutInMs"> {
  coalesce: boolean;
}

/** The options of an update after defaults and checks. */
interface CheckedUpdateOptions extends RetryLimits {
  onUnknown: "throw" | "retry";
}

const onUnknownChoices = ["throw", "retry"] as const;

/** The options of an update with defaults filled in and checked. */
export function checkUpdateOptions(options: ConflictRetryOptions & WriteOutcomeOptions): CheckedUpdateOptions {
  return {
    onUnknown: checkOneOf("onUnknown", options.onUnknown ?? updateDefaults.onUnknown, onUnknownChoices),
    ...checkRetryLimits(options, updateDefaults, { timeoutInMs: 1 }),
  };
}

export function checkTimeouts(options: TimedCallOptions): TimeLimits {
  return checkTimeLimits(options, updateDefaults.timeoutInMs);
}

export function checkTargetSettings(options: TargetOptions & { coalesce?: boolean | undefined }): TargetSettings {
  const { journal = defaultJournalName, conditions, coalesce = updateDefaults.coalesce } = options;
  for (const name of Object.keys(conditions ?? {})) {
    // Ignoring an ifMatch would make the write unconditional.
    if (name !== "leaseId") throw new TypeError(`conditions.${name} is not supported: only leaseId is. The library sets the ETag conditions.`);
  }
  const leaseId: unknown = conditions?.leaseId ?? undefined;
  if (leaseId !== undefined && (typeof leaseId !== "string" || leaseId === "")) throw new TypeError("conditions.leaseId must be the id of a lease; it is empty, or not a string.");
  if (journal !== false && typeof journal !== "string") throw new TypeError("journal must be a name, or false.");
  if (typeof coalesce !== "boolean") throw new TypeError("coalesce must be true or false.");
  return {
    journaling: journal !== false,
    journalName: journal === false ? defaultJournalName : checkIdentifier("journal", journal),
    leaseId: conditions?.leaseId,
    coalesce,
  };
}

/** The adapter behind what a caller passed as a target: a target, or a block-blob client that means a JSON document. */
export function resolveTarget<T>(
  target: Target<T, AnyInput> | BlockBlobLike,
  settings: Pick<TargetSettings, "leaseId">,
): ServiceAdapter<T, unknown> {
  const adapter = adapterOf(target) ?? (isBlockBlob(target) ? adapterOf(jsonBlob(target)) : undefined);
  if (!adapter) {
    throw new TypeError("Not a target: pass a BlockBlobClient, or the result of jsonBlob(), tableEntity(), jsonFile(), ...");
  }
  if (settings.leaseId !== undefined && !adapter.leasable) {
    throw new TypeError(`conditions.leaseId: the target of ${adapter.kind} has no lease.`);
  }
  return adapter as ServiceAdapter<T, unknown>;
}

/** Throws for targets without If-Match: an unconditional request would overwrite the writes of other clients. */
export function requireConditional(adapter: { readonly requiresLease?: true; readonly kind: string }, helper: string): void {
  if (!adapter.requiresLease) return;
  throw new TypeError(`${helper} needs If-Match, which the service does not support for ${adapter.kind}: use leasedUpdate.`);
}

/** Throws for a snapshot or an old version: some writes through such a client change the blob itself, others never end. */
export function requireWritable(adapter: { readonly readOnly?: string | undefined; readonly url: string }, helper: string): void {
  if (adapter.readOnly !== undefined) throw new TypeError(`${helper} cannot write ${adapter.url}: ${adapter.readOnly}. Use a client of the blob or file itself.`);
}

function isBlockBlob(target: unknown): target is BlockBlobLike {
  const client = target as Partial<BlockBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.upload === "function" && typeof client.download === "function";
}

/** Whether it is not the ETag of a version: `*`, in quotes, too, would match any version, and the empty text sends no condition at all. */
export function isWildcard(etag: string): boolean {
  const [, inner = etag] = /^(?:W\/)?"(.*)"$/s.exec(etag.trim()) ?? [];
  return ["", "*", "W/", "W/*"].includes(inner.trim());
}

/** Throws for what is not the ETag of a version. */
export function checkIfMatch(call: string, etag: string): string {
  if (typeof etag !== "string" || isWildcard(etag)) throw new TypeError(`${call}: the ETag must be that of a version that was read; got ${quotedText(etag)}.`);
  return etag;
}

/** The operation id of a call, or undefined. Throws if the target has no journal to store it in. */
export function operationIdFor(operationId: string | undefined, adapter: { readonly journaled: boolean; readonly kind: string }, settings: TargetSettings): string | undefined {
  if (operationId === undefined) return undefined;
  if (!(adapter.journaled && settings.journaling)) {
    throw new TypeError(`operationId needs a journal, which ${adapter.journaled ? "journal: false excludes" : `the target of ${adapter.kind} cannot hold`}.`);
  }
  return checkOperationId(operationId);
}

/** The error for a target that does not exist, or not in the version that the caller named. */
export function versionError(
  url: string,
  { started, attempts, consequence }: { readonly started: number; readonly attempts: number; readonly consequence: string },
  found: { readonly etag: string } | undefined | null,
  cause: unknown,
): Error {
  if (!found && (found === null || isNotFound(cause))) return createError(TargetNotFoundError, `${url} does not exist.`, { url, cause });
  return createError(ConflictError, `${url} was changed by another client. ${consequence}`, {
    url,
    attempts,
    elapsedInMs: performance.now() - started,
    currentETag: found?.etag,
    cause,
  });
}
