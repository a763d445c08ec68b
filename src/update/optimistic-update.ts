import type { BlockBlobLike } from "../clients/blob.js";
import { CallQueue, CallQueues } from "../core/call-queue.js";
import { rejectNestedUpdate, withCurrentHolds } from "../core/hold-context.js";
import type { Running } from "../core/hold-context.js";
import { read } from "../core/request.js";
import { withUpdate } from "../core/measure.js";
import { beginTogether, describeSpan, endUnsettled } from "../core/telemetry.js";
import { checkOptions, isSameETag } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { hasOperation } from "../target/journal.js";
import { readSnapshot, snapshotOf } from "../target/target.js";
import type { CallContext, ServiceAdapter, UpdateTarget } from "../target/target.js";
import { Batch, UpdateCall } from "./batch.js";
import type { Base } from "./batch.js";
import type { Mutator, UpdateResult } from "./mutator.js";
import { commit, tokensOf } from "./commit.js";
import type { CommitOutcome } from "./commit.js";
import { checkIfMatch, checkTargetSettings, checkUpdateOptions, operationIdFor, requireConditional, requireWritable, resolveTarget, versionError } from "./options.js";
import type { OptimisticUpdateOptions, TargetSettings } from "./options.js";

const optionNames: OptionNames<OptimisticUpdateOptions<unknown>> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  conditions: 1,
  journal: 1,
  maxAttempts: 1,
  retryDelayInMs: 1,
  maxRetryDelayInMs: 1,
  operationId: 1,
  onUnknown: 1,
  initial: 1,
  ifMatch: 1,
  startFrom: 1,
  coalesce: 1,
};

/**
 * Reads the target, applies the mutator, and writes only if no other client wrote in between; otherwise starts again. If
 * the call resolves, the effect of the mutator is committed exactly once, even if responses of the service are lost.
 *
 * A single call costs 2 requests, or 1 if the mutator changes nothing. Concurrent calls of one process share requests.
 *
 * @example
 * ```ts
 * await optimisticUpdate(blob, (draft) => { draft.count++; }, { initial: { count: 0 } });
 * ```
 * @param target - The result of {@link jsonBlob}, {@link tableEntity}, ... A bare block blob client means a JSON document.
 * @throws {@link ConflictError} if other writers kept changing the target: nothing was written.
 * @throws {@link TargetNotFoundError} if it does not exist and there is no `initial`: nothing was written.
 * @throws {@link OperationTimeoutError} if the time was over before a write was sent: nothing was written.
 * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
 * @throws {@link SchemaError} if the stored or the new value does not match the schema: nothing was written.
 */
export function optimisticUpdate<I = unknown, const T = I>(
  target: UpdateTarget<T, I> | BlockBlobLike,
  mutator: Mutator<T>,
  options: OptimisticUpdateOptions<T, I> = {},
): Promise<UpdateResult<T>> {
  return withUpdate("optimisticUpdate", options, async (trace, span) => {
    checkOptions("optimisticUpdate", options, optionNames);
    if (typeof mutator !== "function") throw new TypeError("optimisticUpdate: the mutator must be a function.");
    const settings = checkTargetSettings(options);
    const adapter = resolveTarget(target, settings);
    requireWritable(adapter, "optimisticUpdate");
    requireConditional(adapter, "optimisticUpdate");
    describeSpan(span, { targetKind: (trace.targetKind = adapter.kind), url: adapter.url });
    const { ifMatch } = options;
    if (ifMatch !== undefined) {
      checkIfMatch("optimisticUpdate", ifMatch);
      if (options.startFrom) throw new TypeError("optimisticUpdate: ifMatch excludes startFrom.");
    }
    rejectNestedUpdate("optimisticUpdate", adapter.url, adapter.partition);
    const update = { call: "optimisticUpdate", url: adapter.url, partition: adapter.partition, isSettled: () => call.isSettled() };
    const call: UpdateCall<T, unknown> = new UpdateCall<T, unknown>(withCurrentHolds(mutator, update), {
      ifMatch,
      ...checkUpdateOptions(options),
      ...(ifMatch !== undefined && { maxAttempts: 1 }),
      operationId: operationIdFor(options.operationId, adapter, settings),
      // The adapter accepts a value without the keys of its entity.
      initial: initialOf<T>(options.initial as T | (() => T) | undefined, update),
      startFrom: options.startFrom && snapshotOf(options.startFrom, adapter, settings.journalName),
      options: { abortSignal: options.abortSignal },
      trace,
      url: adapter.url,
    });
    // A batch would change the version before this call's turn.
    enqueueUpdate(adapter, call, ifMatch === undefined ? settings : { ...settings, coalesce: false });
    const result = await call.promise;
    describeSpan(span, { outcome: result.outcome });
    return result;
  });
}

/** As the mutator: in the context of its own call. */
function initialOf<T>(initial: T | (() => T) | undefined, update: Running): T | (() => T) | undefined {
  return typeof initial === "function" ? withCurrentHolds(initial as () => T, update) : initial;
}

const queues = new CallQueues<unknown>();

/** Adds a call to the queue of its target. */
function enqueueUpdate<T, Raw>(adapter: ServiceAdapter<T, Raw>, call: UpdateCall<T, Raw>, settings: TargetSettings): void {
  if (call.isSettled()) return;
  // A call that was detached keeps its place.
  call.enqueuedAt ||= ++logicalTime;
  if (!settings.coalesce) {
    new UpdateQueue(adapter, settings, undefined).add(call);
    return;
  }
  const key = JSON.stringify([adapter.key, settings.journaling, settings.journalName, settings.leaseId]);
  const queue = queues.get(adapter.credentialScope, key, (onIdle) => new UpdateQueue(adapter, settings, onIdle)) as UpdateQueue<T, Raw>;
  queue.add(call);
}

/** Orders calls and requests: a state whose request was sent before a call was enqueued may be too old for that call. */
let logicalTime = 0;

/** More calls than this in one write would block the event loop for too long. */
const maxBatch = 1_000;

/**
 * All updates of one target in this process under the same credentials. Each batch reads once (unless the state is known from
 * the previous batch), applies the mutators in order and writes once.
 */
class UpdateQueue<T, Raw> extends CallQueue<UpdateCall<T, Raw>> {
  readonly #adapter: ServiceAdapter<T, Raw>;
  readonly #settings: TargetSettings;
  /** What is known to be stored. */
  #base: Base<Raw> | undefined;
  /** How many calls run again although some of them were in time: the next batch has no others, so that it settles them. */
  #repeated = 0;
  /** The last batch began with a mutator that others have to wait for. */
  #servedSlow = false;

  constructor(adapter: ServiceAdapter<T, Raw>, settings: TargetSettings, onIdle: (() => void) | undefined) {
    super(adapter.url, onIdle, adapter.credentialScope);
    this.#adapter = adapter;
    this.#settings = settings;
  }

  protected override async runBatch(): Promise<void> {
    beginTogether(this.waiting.slice(0, 1));
    let base = this.#base ?? this.#startFrom() ?? (await this.#read());
    if (!this.#hasExpectedVersion(base)) return;
    if (!base.checked) base = await this.#check(base);
    this.#base = base;
    const calls = this.#takeCalls();
    beginTogether(calls);
    const batch = new Batch(this.#adapter, calls);
    await batch.apply(base, () => this.waiting.some((call) => !call.isSettled()));
    this.#letDetachedRun(batch);
    this.requeue(batch.postponed());
    // A target that was created and deleted again within the batch needs no request either.
    if (!batch.hasChanges || (!base.snapshot && batch.draft === undefined)) this.#settleUnchanged(batch, base);
    else await this.#write(batch, base);
  }

  /** A mutator that others have to wait for begins a batch, and after it those go first that are not: they wait for one such mutator at most. */
  #takeCalls(): UpdateCall<T, Raw>[] {
    const repeated = this.#repeated;
    this.#repeated = 0;
    if (repeated > 0) return this.takeBatch(repeated);
    const isSlow = ({ tookInMs }: UpdateCall<T, Raw>): boolean => tookInMs > 0;
    if (this.#servedSlow) this.waiting = [...this.waiting.filter((call) => !isSlow(call)), ...this.waiting.filter(isSlow)];
    const slow = this.waiting.findIndex((call, index) => index > 0 && isSlow(call));
    const calls = this.takeBatch(slow < 0 ? maxBatch : Math.min(slow, maxBatch));
    this.#servedSlow = calls[0] !== undefined && isSlow(calls[0]);
    return calls;
  }

  protected override onBatchFailed(): void {
    this.#base = undefined;
  }

  /** A call with `ifMatch` is the only one of its queue. */
  #hasExpectedVersion({ snapshot }: Base<Raw>): boolean {
    const [call] = this.waiting;
    const { ifMatch, operationId } = call?.settings ?? {};
    if (!call || ifMatch === undefined || isSameETag(snapshot?.etag, ifMatch)) return true;
    // A repetition: the version that it was based on has been replaced by its own write.
    if (operationId !== undefined && hasOperation(snapshot?.journal, operationId, this.#adapter.journalScope)) return true;
    call.reject(versionError(this.#adapter.url, { started: performance.now(), attempts: 0, consequence: "Nothing was written." }, snapshot ?? null, undefined));
    return false;
  }

  /** A single caller may provide what it has already read. */
  #startFrom(): Base<Raw> | undefined {
    const [call] = this.waiting;
    if (!call || this.waiting.length > 1 || call.attempts > 0 || !call.settings.startFrom) return undefined;
    // Read before the call was made: recent enough for a conditional write, but not for a result.
    return { snapshot: call.settings.startFrom, readAt: call.enqueuedAt - 1, checked: true };
  }

  async #read(): Promise<Base<Raw>> {
    const readAt = ++logicalTime;
    const snapshot = await readSnapshot(this.#adapter, this.#context(this.waiting));
    return { snapshot, readAt, checked: !this.#adapter.validate };
  }

  async #check(base: Base<Raw>): Promise<Base<Raw>> {
    const { validate } = this.#adapter;
    const { snapshot, readAt } = base;
    if (!validate || !snapshot) return { snapshot, readAt, checked: true };
    // A schema that hangs is given up with the callers that wait for it now: those that come later get a check of their own.
    this.waitFor([...this.waiting]);
    const raw = await read(() => validate(snapshot.raw, "read"), { abortSignal: this.abortSignal });
    this.waitFor([]);
    return { snapshot: { ...snapshot, raw }, readAt, checked: true };
  }

  /** Detached calls return to their places in the queue when their mutators have ended: two runs of one mutator never overlap. */
  #letDetachedRun(batch: Batch<T, Raw>): void {
    for (const [call, done] of batch.detached()) {
      const started = performance.now();
      void done.then(() => {
        call.tookInMs += performance.now() - started + 50;
        call.endDetached();
        enqueueUpdate(this.#adapter, call, this.#settings);
      });
    }
  }

  /** Calls that were enqueued after the state was read get no result from it: other clients may have written since then. */
  #settleUnchanged(batch: Batch<T, Raw>, base: Base<Raw>): void {
    this.endWrite([]);
    const late = batch.settleUpTo(base);
    endUnsettled(late, "outdated");
    this.requeue(late);
    if (late.length > 0) this.#base = undefined;
    if (batch.hasChanges) this.#repeated = late.length;
  }

  async #write(batch: Batch<T, Raw>, base: Base<Raw>): Promise<void> {
    const writers = batch.writers();
    const calls = batch.unsettled();
    // A caller has left since its mutator ran: its change must not be written, so the others run again without it.
    const { snapshot } = base;
    const plan = {
      base: snapshot && batch.isRecreated ? { ...snapshot, keep: undefined } : snapshot,
      draft: batch.draft,
      journaling: this.#settings.journaling,
      mayRepeat: writers.every(({ settings }) => settings.onUnknown === "retry"),
      writeId: batch.writeId,
      isContended: this.hasMetConflict,
      isAbandoned: () => writers.some((call) => call.isSettled()),
      operationIds: batch.operationIds,
    };
    if (!this.beginWrite(writers, calls, tokensOf(this.#adapter, plan))) {
      endUnsettled(calls, "interrupted");
      this.requeue(calls);
      return;
    }
    const readAt = ++logicalTime;
    const outcome = await commit(this.#adapter, plan, this.#context(calls), () => this.backoffAfterConflict(calls));
    this.endWrite(writers, outcome);
    if (outcome.kind === "conflict") {
      if (outcome.found) for (const call of calls) call.currentETag = outcome.found.etag;
      if (outcome.mayBeOwn) for (const call of writers) call.mayHaveCommitted = true;
    }
    if (outcome.kind === "unknown") batch.keepSteps();
    if (outcome.kind === "committed") batch.settleAll(outcome.superseded ? undefined : (outcome.found ?? undefined));
    else this.settleFailed(outcome, writers, calls, batch.draft === undefined);
    if (outcome.kind !== "conflict") this.resetBackoff();
    this.#base = outcome.kind === "rejected" ? base : foundBy(outcome, readAt);
    this.endAttempt(calls, outcome.kind);
    this.requeue(calls);
  }

  #context(calls: readonly UpdateCall<T, Raw>[]): CallContext {
    return this.requestFor(calls, this.#settings.leaseId, this.#settings.journalName);
  }
}

function foundBy<Raw>(outcome: Exclude<CommitOutcome<Raw>, { kind: "rejected" }>, readAt: number): Base<Raw> | undefined {
  if (outcome.found === undefined) return undefined;
  // The value of this write was checked before it was sent. A value that was read has not been checked.
  const checked = outcome.kind === "committed" && !outcome.superseded;
  return { snapshot: outcome.found ?? undefined, readAt, checked };
}
