import type { BlockBlobLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import { checkIdentifier, checkNumber, checkOneOf, checkRetryLimits } from "../core/validate.js";
import type { RetryLimits } from "../core/validate.js";
import { jsonBlob } from "../target/blob-content.js";
import { defaultJournalName } from "../target/journal.js";
import { adapterOf } from "../target/target.js";
import type { LeasedTarget, ReadResult, ServiceAdapter, UpdateTarget } from "../target/target.js";

/** How the requests of a call treat their target, after defaults and checks. */
export interface TargetSettings {
  readonly journaling: boolean;
  readonly journalName: string;
  readonly leaseId: string | undefined;
  readonly coalesce: boolean;
}

/** Conditions that every request of a call carries. */
export interface LeaseCondition {
  /** The id of a lease that the caller holds on the blob. */
  leaseId?: string | undefined;
}

/** The options that every call on a target accepts. */
export interface RequestOptions extends CallOptions {
  /**
   * The time for the whole call, including requests and delays. The SDKs have no limit of their own: on a network that drops
   * packets silently they wait forever. A write without a response by then is a `CommitUnknownError`, anything else a
   * `OperationTimeoutError`. `Infinity`: no limit.
   * @defaultValue 30_000: longer than the SDKs' own retries, which take 16 s
   */
  timeoutInMs?: number | undefined;
}

/** Options of helpers that read and write a target. */
export interface TargetOptions extends RequestOptions {
  /** Sent with every request of the call; for blobs only. */
  conditions?: LeaseCondition | undefined;
  /**
   * Whether writes carry a journal, and under which name (of a metadata entry or a table property). All writers of one target
   * should use the same name. Without a journal, a write whose response was lost is a `CommitUnknownError`.
   * @defaultValue true: under the name "asc_journal"
   */
  journal?: boolean | string | undefined;
}

/** Options of {@link optimisticUpdate}. */
export interface OptimisticUpdateOptions<T> extends TargetOptions {
  /** The initial value if the target does not exist, which is then created. Without it: `TargetNotFoundError`. */
  initial?: T | (() => T) | undefined;
  /**
   * How often the mutator is applied before the call gives up with a `ConflictError`.
   * @defaultValue 50: with the default delays the deadline comes first
   */
  maxAttempts?: number | undefined;
  /**
   * The maximum delay after the first conflict, doubled with each further one; the delay is random (full jitter).
   * @defaultValue 10
   */
  retryDelayInMs?: number | undefined;
  /** @defaultValue 1_000 */
  maxRetryDelayInMs?: number | undefined;
  /**
   * Whether concurrent updates of the same target in this process, under the same credentials, share reads and writes.
   * @defaultValue true
   */
  coalesce?: boolean | undefined;
  /**
   * What to do if the outcome of a write is unknown: `"throw"` a `CommitUnknownError`, or `"retry"`, which may apply the
   * mutator twice.
   * @defaultValue "throw"
   */
  onUnknown?: "throw" | "retry" | undefined;
  /** A result of `readTarget` for this target, which saves the first read. If it is outdated, it costs one attempt. */
  startFrom?: ReadResult<T> | undefined;
}

export const updateDefaults: Readonly<UpdateDefaults> = Object.freeze({
  maxAttempts: 50,
  timeoutInMs: 30_000,
  retryDelayInMs: 10,
  maxRetryDelayInMs: 1_000,
  coalesce: true,
  onUnknown: "throw",
});

interface UpdateDefaults extends CheckedUpdateOptions {
  coalesce: boolean;
}

/** The options of an update after defaults and checks. */
interface CheckedUpdateOptions extends RetryLimits {
  onUnknown: "throw" | "retry";
}

/** The options of an update with defaults filled in and checked. */
export function checkUpdateOptions(options: OptimisticUpdateOptions<never>): CheckedUpdateOptions {
  return {
    ...checkRetryLimits(options, updateDefaults, { timeoutInMs: 1 }),
    onUnknown: checkOneOf("onUnknown", options.onUnknown ?? updateDefaults.onUnknown, ["throw", "retry"]),
  };
}

export function checkTimeout(timeoutInMs: number | undefined): number {
  return checkNumber("timeoutInMs", timeoutInMs ?? updateDefaults.timeoutInMs, { min: 1 });
}

export function checkTargetSettings(options: TargetOptions & { coalesce?: boolean | undefined }): TargetSettings {
  const { journal = true, conditions, coalesce = updateDefaults.coalesce } = options;
  for (const name of Object.keys(conditions ?? {})) {
    // Ignoring an ifMatch would make the write unconditional.
    if (name !== "leaseId") throw new TypeError(`conditions.${name}: only leaseId can be given; the ETag is up to the helper`);
  }
  if (conditions?.leaseId === "") throw new TypeError("conditions.leaseId is empty");
  if (typeof journal !== "boolean" && typeof journal !== "string") throw new TypeError("journal must be a boolean or a name");
  return {
    journaling: journal !== false,
    journalName: typeof journal === "string" ? checkIdentifier("journal", journal) : defaultJournalName,
    leaseId: conditions?.leaseId,
    coalesce,
  };
}

/** The adapter behind what a caller passed as a target: a target, or a block-blob client that means a JSON document. */
export function resolveTarget<T>(
  target: UpdateTarget<T> | LeasedTarget<T> | BlockBlobLike,
  settings: Pick<TargetSettings, "leaseId">,
): ServiceAdapter<T, unknown> {
  const adapter = adapterOf(target) ?? (isBlockBlob(target) ? adapterOf(jsonBlob(target)) : undefined);
  if (!adapter) {
    throw new TypeError("not a target: pass a BlockBlobClient, or what jsonBlob(), tableEntity(), jsonFile(), ... return");
  }
  if (settings.leaseId !== undefined && !adapter.leasable) {
    throw new TypeError(`conditions.leaseId: ${adapter.kind === "queueMetadata" ? "queues" : "table entities"} have no leases`);
  }
  return adapter as ServiceAdapter<T, unknown>;
}

/** Throws for targets without If-Match: an unconditional request would overwrite the writes of other clients. */
export function requireConditional(adapter: { readonly requiresLease?: true; readonly kind: string }, helper: string): void {
  if (!adapter.requiresLease) return;
  throw new TypeError(`${helper} needs If-Match, which the service does not have for ${adapter.kind}: use leasedUpdate instead`);
}

function isBlockBlob(target: unknown): target is BlockBlobLike {
  const client = target as Partial<BlockBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.upload === "function" && typeof client.download === "function";
}
