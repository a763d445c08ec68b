import type { BlockBlobLike } from "../clients/blob.js";
import { linkSignals, onAbort, withinGrace } from "../core/deadline.js";
import { rejectNestedUpdate, runHolding } from "../core/hold-context.js";
import { recorder, withUpdate } from "../core/measure.js";
import { read, tryLimitOf } from "../core/request.js";
import { fullJitter, retry } from "../core/retry.js";
import { isLeaseConflict, toConcurrencyError } from "../core/storage-errors.js";
import { describeSpan, errorLabel, logger } from "../core/telemetry.js";
import type { LeaseHandle, LockHandleLike } from "../lease/lease-handle.js";
import { readSnapshot } from "../target/target.js";
import type { RequestContext, ServiceAdapter, Snapshot, Target } from "../target/target.js";
import { Batch, UpdateCall } from "./batch.js";
import type { Mutator, UpdateResult } from "./mutator.js";
import { commit, tokensOf } from "./commit.js";
import type { CommitOutcome } from "./commit.js";
import { checkLeasedOptions, planAccess } from "./exclusive-access.js";
import type { AcquireAccess, ExclusiveAccess, LeasedUpdateOptions } from "./exclusive-access.js";
import { checkTargetSettings, operationIdFor, requireWritable, resolveTarget } from "./options.js";
import type { TargetSettings } from "./options.js";

/**
 * Acquires the lease of the target, reads it, applies the mutator, writes under the lease, and releases it. The mutator has
 * the same contract as in `optimisticUpdate`, but runs once: other callers wait. For targets without If-Match there is no
 * other way; for blobs it is better if mutators are slow or conflicts frequent.
 *
 * If the call resolves, the effect of the mutator is applied exactly once, even if responses of the service are lost. If the lease is lost before
 * the write, the call rejects with a `LeaseLostError`, and nothing is written.
 *
 * Costs 4 requests (acquire, read, write, release), 3 if the mutator changes nothing; a file whose length changes, 7.
 *
 * @example
 * ```ts
 * await leasedUpdate(jsonFile<Settings>(file), (draft) => { draft.level = "debug"; }, { crashGuard: locks });
 * ```
 * @param target - The result of {@link jsonFile}, {@link containerMetadata}, {@link jsonBlob}, ... A bare block blob client means a
 * JSON document.
 * @throws {@link LeaseUnavailableError} if another client still holds the lease after `waitInMs`: nothing was written.
 * @throws {@link LeaseLostError} if the lease was lost before the write: nothing was written.
 * @throws {@link TargetNotFoundError} if the target does not exist and there is no `initial`: nothing was written.
 * @throws {@link ConflictError} if other clients kept creating and deleting the target: nothing was written.
 * @throws {@link OperationTimeoutError} if the time was over before a write was sent: nothing was written.
 * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
 * @throws {@link SchemaError} if the stored or the new value does not match the schema: nothing was written.
 */
export function leasedUpdate<I = unknown, const T = I>(
  target: Target<T, I> | BlockBlobLike,
  mutator: Mutator<T>,
  options: LeasedUpdateOptions<I> = {},
): Promise<UpdateResult<T>> {
  return withUpdate("leasedUpdate", options, async (trace, span) => {
    if (typeof mutator !== "function") throw new TypeError("leasedUpdate: the mutator must be a function.");
    const checked = checkLeasedOptions(options);
    const settings = checkTargetSettings({ journal: options.journal });
    const adapter = resolveTarget(target, settings);
    requireWritable(adapter, "leasedUpdate");
    describeSpan(span, { targetKind: (trace.targetKind = adapter.kind), url: adapter.url });
    const acquireAccess = planAccess(adapter, options);
    rejectNestedUpdate("leasedUpdate", adapter.url);
    const operationId = operationIdFor(options.operationId, adapter, settings);
    // The mutator gets one signal for the caller's cancellation and for the loss of the lease. After all checks: it adds a listener.
    const { controller: stop, unlink } = linkSignals(options.abortSignal);
    const call = new UpdateCall<T, unknown>(mutator, {
      // The adapter accepts a value without the keys of its entity.
      initial: options.initial as T | (() => T) | undefined,
      ...checked,
      startFrom: undefined,
      operationId,
      options: { abortSignal: stop.signal, tracingOptions: trace.tracingOptions },
      trace,
      url: adapter.url,
    });
    call.promise.catch(() => undefined);
    try {
      // Settles the call, and returns when the lease is released.
      const released = new LeasedRun(adapter, call, settings, acquireAccess, stop).run();
      await Promise.race([released, call.promise]).catch(() => undefined);
      // The outcome of the call is known, and its time may be over: a release without a response goes on in the background.
      await withinGrace(released, checked.tryTimeoutInMs, options.abortSignal);
    } finally {
      unlink();
    }
    const result = await call.promise;
    describeSpan(span, { outcome: result.outcome });
    return result;
  });
}

/** Says that an attempt met a conflict, and the call has not been settled. */
const metConflict = new Error("the attempt met a conflict");

/** One update under a lease: acquire, read, apply, write, release; starts again after a conflict. */
class LeasedRun<T, Raw> {
  readonly #adapter: ServiceAdapter<T, Raw>;
  readonly #call: UpdateCall<T, Raw>;
  readonly #settings: TargetSettings;
  readonly #acquireAccess: AcquireAccess;
  readonly #stop: AbortController;
  /** Aborts the request in flight when the call is settled: by cancellation, by its deadline, or by the loss of its lease. */
  readonly #io = new AbortController();
  /** False while the call is settled: there is no I/O to abort, and `abort()` would allocate a DOMException with a stack trace. */
  #interruptible = true;
  /** How often the lease was lost before it was used. */
  #lostLeases = 0;

  constructor(
    adapter: ServiceAdapter<T, Raw>,
    call: UpdateCall<T, Raw>,
    settings: TargetSettings,
    acquireAccess: AcquireAccess,
    stop: AbortController,
  ) {
    this.#adapter = adapter;
    this.#call = call;
    this.#settings = settings;
    this.#acquireAccess = acquireAccess;
    this.#stop = stop;
  }

  /** Settles the call; never rejects. Attempts and deadline are those of the call, as in the queue of optimistic updates. */
  async run(): Promise<void> {
    const call = this.#call;
    // Its signal had aborted before: it is not notified a second time.
    if (call.isSettled()) return;
    call.onSettled = () => {
      if (this.#interruptible) this.#io.abort();
    };
    const { retryDelayInMs, maxRetryDelayInMs } = call.settings;
    const attempt = async (): Promise<void> => {
      call.trace.begin();
      await this.#attempt();
      if (call.isSettled()) return;
      call.trace.end("conflict");
      throw metConflict;
    };
    try {
      await retry(attempt, {
        // The attempts are counted by the call, which is settled after the last one.
        maxAttempts: Infinity,
        shouldRetry: (error) => error === metConflict,
        backoff: (conflicts) => fullJitter(conflicts - 1, retryDelayInMs, maxRetryDelayInMs),
        abortSignal: this.#io.signal,
      });
    } catch (error) {
      call.reject(toConcurrencyError(error, this.#adapter.url));
    }
  }

  async #attempt(): Promise<void> {
    const { trace, settings } = this.#call;
    const access = await this.#acquireAccess({ abortSignal: this.#io.signal, tracingOptions: trace.tracingOptions });
    // The release comes after the end of the attempt, so its span belongs to the call.
    if (!access.callerOwned) access.lease?.setTracingParent(settings.options.tracingOptions);
    if (!access.held) return this.#applyAndWrite(undefined, this.#context(access), access);
    const { signal } = access.held;
    const off = onAbort(signal, () => this.#onLost(signal.reason));
    try {
      const outcome = await this.#readAndApply(access);
      off();
      if (outcome !== "done") await this.#checkLost(access);
    } finally {
      off();
      access.endTurn?.();
      if (!access.callerOwned) await release(access.held, this.#adapter.url);
    }
  }

  async #readAndApply(access: ExclusiveAccess): Promise<"done" | "not held" | "not found"> {
    const adapter = this.#adapter;
    const context = this.#context(access);
    let snapshot: Snapshot<Raw> | undefined;
    try {
      if (access.lease?.wasTakenOver) await adapter.cleanUp?.(context);
      snapshot = await readSnapshot(adapter, context);
    } catch (error) {
      if (isLeaseConflict(error)) return "not held";
      throw error;
    }
    if (!snapshot && access.lease) return "not found";
    await this.#applyAndWrite(snapshot, context, access);
    return "done";
  }

  /**
   * The lease was broken, or its target deleted, before it was used: nothing is lost yet. Renewing it detects the loss, so
   * that this process does not hand the lease over to another caller.
   */
  async #checkLost({ lease, held, callerOwned }: ExclusiveAccess): Promise<void> {
    await lease?.renew().catch(() => undefined);
    this.#call.hadConflict = true;
    if (callerOwned || ++this.#lostLeases > this.#call.settings.maxAttempts) held?.assertHeld();
  }

  async #applyAndWrite(stored: Snapshot<Raw> | undefined, context: RequestContext, access: ExclusiveAccess): Promise<void> {
    const call = this.#call;
    const adapter = this.#adapter;
    const { validate } = adapter;
    // Raced: a schema that never settles must not keep the lease when the caller has left or the lease is lost.
    const checked = stored && validate && (await read(() => validate(stored.raw, "read"), { abortSignal: this.#io.signal }));
    const snapshot = stored && validate ? { ...stored, raw: checked as Raw } : stored;
    const batch = new Batch(adapter, [call]);
    const holds = access.lease && !access.callerOwned ? [access.lease] : [];
    const update = { call: "leasedUpdate", url: adapter.url, isSettled: () => call.isSettled() };
    await runHolding("leasedUpdate", holds, () => batch.apply({ snapshot, readAt: call.enqueuedAt, checked: true }, () => false), update);
    if (call.isSettled()) return;
    // Checks the clock: the mutator may have blocked the event loop, so that no timer has fired.
    access.held?.assertHeld();
    if (!batch.hasChanges || (!snapshot && batch.draft === undefined)) {
      this.#settle(batch, snapshot);
      return;
    }
    call.inFlight = true;
    recorder?.countBatch(1, call.trace);
    // It stays in flight until what is stored has been read: a copy of the write may have been committed.
    const onConflict = (): number => {
      call.hadConflict = true;
      return 0;
    };
    const { writeId, operationIds } = batch;
    const plan = {
      base: snapshot,
      draft: batch.draft,
      journaling: this.#settings.journaling,
      mayRepeat: call.settings.onUnknown === "retry",
      writeId,
      isAbandoned: () => call.isSettled(),
      operationIds,
    };
    if (!call.mayHaveCommitted) call.writeToken = tokensOf(adapter, plan)(undefined);
    // Writes under a lease alone meet conflicts with staging files only.
    const outcome = await commit(adapter, plan, context, adapter.requiresLease ? undefined : onConflict);
    if (outcome.kind === "conflict" && outcome.mayBeOwn) call.mayHaveCommitted = true;
    if (outcome.kind !== "committed") call.inFlight = false;
    if (outcome.kind === "unknown") {
      batch.keepSteps();
      await this.#invalidateLeaseId(access);
    }
    if (outcome.kind === "committed") this.#settle(batch, outcome.superseded ? undefined : (outcome.found ?? undefined));
    else await this.#rejectOrRetry(outcome, access);
  }

  #settle(batch: Batch<T, Raw>, now: Snapshot<Raw> | undefined): void {
    this.#interruptible = false;
    batch.settleAll(now);
  }

  /** Rejects the call, or leaves it for another attempt. */
  async #rejectOrRetry(outcome: Exclude<CommitOutcome<Raw>, { kind: "committed" }>, access: ExclusiveAccess): Promise<void> {
    const call = this.#call;
    if (outcome.kind === "unknown") {
      if (call.settings.onUnknown === "throw") call.rejectUnknown(outcome.error);
      call.mayHaveCommitted = true;
    } else {
      if (outcome.kind === "rejected" && !isLeaseConflict(outcome.error)) throw outcome.error;
      await this.#confirmHeld(access);
      call.hadConflict = true;
    }
    if (call.isExhausted) call.rejectConflict(outcome.error);
  }

  /**
   * Another client wrote although this one has the lease: the lease is lost. Otherwise the target did not exist, or the
   * conflict concerned the staging file, and another attempt may succeed.
   */
  async #confirmHeld({ lease, held }: ExclusiveAccess): Promise<void> {
    await lease?.renew().catch(() => undefined);
    held?.assertHeld();
  }

  /**
   * A write in flight was abandoned. It could be committed at any time while the lease has the same id, even after other
   * callers have read and written under it. A lease of the caller gets another id; a lease of this run is not reused.
   */
  async #invalidateLeaseId({ lease, callerOwned, leaseIdReused }: ExclusiveAccess): Promise<void> {
    if (!lease || !leaseIdReused || !this.#adapter.requiresLease) return;
    if (!callerOwned) lease.doNotReuse();
    else await changeId(lease).catch((error: unknown) => logger.warning(`the lease on ${lease.url} could not be changed: ${errorLabel(error)}`));
  }

  #onLost(reason: unknown): void {
    const call = this.#call;
    // A write without a response may or may not have been committed.
    if (call.inFlight) call.rejectUnknown(reason);
    this.#stop.abort(reason);
  }

  #context({ lease, leaseIdReused }: ExclusiveAccess): RequestContext {
    const { trace, settings } = this.#call;
    return {
      abortSignal: this.#io.signal,
      tryLimit: { onWait: (isWaiting) => (this.#call.inFlight = !isWaiting), ...tryLimitOf(settings.tryTimeoutInMs) },
      primaryOnly: true,
      tracingOptions: trace.tracingOptions,
      onRequest: () => trace.countRequest(),
      journalName: this.#settings.journalName,
      // A getter, read for each request: the id changes when a response is lost.
      get leaseId() {
        return lease?.leaseId;
      },
      // Requests that were sent under this id must not take effect under the next holder with the same id.
      changeLeaseId: lease && leaseIdReused && this.#adapter.requiresLease ? () => changeId(lease) : undefined,
    };
  }
}

/** With a crash guard, the id of the caller's lease cannot change. But then only the caller's own requests were sent under it. */
async function changeId(lease: LeaseHandle): Promise<void> {
  await lease.change().catch((error: unknown) => {
    if (!(error instanceof TypeError)) throw error;
  });
}

/** The outcome of the update is already decided: a failed release does not change it. */
async function release(held: LockHandleLike, url: string): Promise<void> {
  await held.release().catch((error: unknown) => {
    logger.warning(`after an update of ${url} the lease could not be released: ${errorLabel(error)}`);
  });
}
