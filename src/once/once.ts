import type { CallOptions, PurgeOptions, PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { abortReason, Deadline, isAborted, startGrace, throwIfAborted } from "../core/deadline.js";
import { rejectNested, runHolding } from "../core/hold-context.js";
import { callTimeoutError, read } from "../core/request.js";
import { toNotFoundError } from "../core/storage-errors.js";
import { describeSpan, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOneOf, checkOptions, checkTimeLimits } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { CommitUnknownError, createError, isConcurrencyError, OperationTimeoutError } from "../errors.js";
import { checkOverflow } from "../overflow/stored-text.js";
import { checkKey } from "../queue/envelope.js";
import { checkTable } from "../queue/inbox/inbox-table.js";
import { checkKey as checkEntityKey } from "../target/table-entity.js";
import type { Transaction } from "../transaction/transaction.js";
import { claimKey, inProgressError, requireFingerprint } from "./claim-key.js";
import type { FoundInProgress, FoundOutcome, OnceCall } from "./claim-key.js";
import { forgettable, purgeRecords } from "./delete-records.js";
import { HeldKey } from "./held-key.js";
import { LargeResults } from "./large-results.js";
import { decide, placeIn, placeOf } from "./once-record.js";
import type { OnceRecord, RecordPlace } from "./once-record.js";
import { checkFunctions, onceOptionNames, recordOptionNames, runOptionNames, transactionOptionNames } from "./once-options.js";
import type { OnceContext, OnceOptions, OnceRecordOptions, OnceResult, OnceRunOptions, OnceState, OnceTransactionOptions } from "./once-options.js";
import { transactOnce } from "./once-transaction.js";
import type { TransactionOnceResult } from "./once-transaction.js";
import { RecordStore } from "./record-store.js";
import { ResultBlobs } from "./result-blobs.js";
import { damagedResult, fingerprintOf, outcomeOfError, outcomeOfValue, parsedResult, storedError, unstorableError } from "./stored-result.js";
import type { StoredOutcome, ValueOutcome } from "./stored-result.js";

const defaultTimeoutInMs = 30_000;
const purgeOptionNames: OptionNames<PurgeOptions> = { olderThanInMs: 1, abortSignal: 1, tracingOptions: 1 };

/** A call of this process that runs the function of a key, or waits for another process that does. */
interface LocalRun {
  /** Resolves when it is known that the function runs, here or in another process. Until then, the call only looks for the record. */
  readonly inProgress: Promise<FoundInProgress>;
  /** Undefined: it has failed, and the next one tries. */
  readonly outcome: Promise<FoundOutcome | undefined>;
}

/**
 * Idempotent calls with a stored result, in a table: the first call with a key runs the function, and stores what it returned. Each
 * repetition, by any process, gets the stored result. Calls of one process with the same key at the same time share one run.
 *
 * Records are kept until {@link Once.purge} is called, from time to time, by any process.
 *
 * @example
 * ```ts
 * const once = new Once(table);
 * const { value, replayed } = await once.run(idempotencyKey, () => charge(order), { fingerprint: order });
 * ```
 */
export class Once {
  readonly #store: RecordStore;
  readonly #resultTtlInMs: number;
  readonly #claimDurationInMs: number;
  #createTable: boolean;
  readonly #running = new Map<string, LocalRun>();
  readonly #blobs: ResultBlobs | undefined;
  readonly #large: LargeResults;

  /**
   * Sends no request.
   * @throws `TypeError` or `RangeError` if `table` is not a table client, or an option is wrong.
   */
  constructor(table: TableLike, options: OnceOptions = {}) {
    checkOptions("Once", options, onceOptionNames);
    this.#store = new RecordStore(checkTable("Once", table));
    this.#resultTtlInMs = checkNumber("resultTtlInMs", options.resultTtlInMs ?? 86_400_000, { min: 1_000 });
    this.#claimDurationInMs = checkNumber("claimDurationInMs", options.claimDurationInMs ?? 60_000, { min: 1_000, max: 7 * 86_400_000 });
    this.#createTable = options.createTable ?? false;
    this.#blobs = options.overflow && new ResultBlobs(checkOverflow("Once", options.overflow), this.#store.url);
    this.#large = new LargeResults(this.#blobs, this.#store.url);
  }

  /**
   * Runs the function, unless a call with this key has succeeded before: then returns its result. The function runs at least once: if its
   * process ends before the result is stored, the next call runs it again, when the claim has expired. It never runs twice at the same time
   * as long as it obeys `signal`. Costs 2 requests, and 2 for a repetition; 1 more for a result that is in a blob.
   *
   * The time limit does not include the function. If the caller aborts while it runs, its `signal` aborts; what it returns counts. An outcome
   * that cannot be stored within the time, or within a moment after an abort, is stored in the background, as long as the claim is held.
   * @throws {@link IdempotencyMismatchError} if the key was used with another `fingerprint`.
   * @throws {@link InProgressError} if another call runs the function, and `whenInProgress` is `"throw"` or the time is over.
   * @throws {@link LeaseLostError} if the claim was lost while the function ran: its result is not stored, and another call may run it.
   * @throws {@link CommitUnknownError} if the function has run, and it is not known in time whether its outcome is stored: repeat the call.
   * @throws {@link OperationTimeoutError} if the table does not respond in time: the function did not run.
   * @throws {@link TargetNotFoundError} if the table does not exist: the function did not run.
   * @throws {@link SchemaError} if a stored result does not match the schema, or another program has damaged the record, its result or its blob.
   * @throws `TypeError` if a stored result is in a blob, and this object has no `overflow`.
   * @throws `RangeError` if the result cannot be stored; the function has run, and the key counts as done.
   */
  run<R>(key: string, fn: (context: OnceContext) => Promise<R> | R, options: OnceRunOptions<R> = {}): Promise<OnceResult<R>> {
    return withSpan("Once.run", options, async (tracingOptions, span) => {
      checkOptions("Once.run", options, runOptionNames);
      checkFunctions("Once.run", options);
      checkKey("key", key);
      if (typeof fn !== "function") throw new TypeError("Once.run: fn must be a function.");
      if (options.whenInProgress !== undefined) checkOneOf("whenInProgress", options.whenInProgress, ["wait", "throw"]);
      const limits = checkTimeLimits(options, defaultTimeoutInMs);
      throwIfAborted(options.abortSignal);
      const [place, fingerprint] = [await placeOf(key), await fingerprintOf(options.fingerprint)];
      rejectNested("Once.run", this.#urlOf(place), "the same key", "Use another key");
      const started = performance.now();
      const deadline = new Deadline(limits.timeoutInMs, () => this.#timeoutError(limits.timeoutInMs, started), options.abortSignal);
      try {
        const call: OnceCall<R> = { key, place, fingerprint, options: { ...options, tracingOptions }, limits, started, deadline };
        const result = await this.#runOrReplay(call, fn);
        describeSpan(span, { outcome: result.replayed ? "replayed" : "committed" });
        return result;
      } finally {
        deadline.dispose();
      }
    }, { targetKind: "once", url: this.#store.url });
  }

  /**
   * As {@link Once.run}, but exactly once: what the function writes and its result are one transaction of the partition. The function may
   * *run* several times, as that of {@link runTransaction}; calls with one key do not wait for each other, and one of them commits. Costs
   * what the transaction costs, and a repetition 3 to 5 requests more.
   * @throws {@link IdempotencyMismatchError} if the key was used with another `fingerprint`.
   * @throws {@link ConflictError} if other writers kept changing what was read: nothing was written.
   * @throws {@link OperationTimeoutError} if the time was over before the commit was sent: nothing was written.
   * @throws {@link CommitUnknownError} if the commit was sent and its outcome cannot be determined: repeat the call.
   * @throws `RangeError` if the result is too large, or cannot be written as JSON: nothing was written.
   * @throws {@link SchemaError} if a stored result does not match the schema, or another program has damaged the record, its result or its blob.
   */
  runTransaction<R>(key: string, partitionKey: string, fn: (tx: Transaction, context: OnceContext) => Promise<R> | R, options: OnceTransactionOptions<R> = {}): Promise<OnceResult<R>> {
    return withSpan("Once.runTransaction", options, async (tracingOptions, span) => {
      checkOptions("Once.runTransaction", options, transactionOptionNames);
      checkFunctions("Once.runTransaction", options);
      checkKey("key", key);
      checkEntityKey("partitionKey", partitionKey);
      if (typeof fn !== "function") throw new TypeError("Once.runTransaction: fn must be a function.");
      await this.#prepare(options);
      const [place, fingerprint] = [await placeIn(partitionKey, key), await fingerprintOf(options.fingerprint)];
      const fit = (outcome: ValueOutcome, abortSignal: AbortSignal): Promise<StoredOutcome> => this.#large.fit(place, outcome, { abortSignal, tracingOptions });
      const transact = async (): Promise<TransactionOnceResult> => {
        const result = await transactOnce(this.#store, { key, place, fingerprint, fn, resultTtlInMs: this.#resultTtlInMs, fit }, { ...options, tracingOptions });
        if (result.kind === "replay") requireFingerprint(this.#store.url, key, result.fingerprint, fingerprint);
        return result;
      };
      const found = await this.#large.load(place, transact, { abortSignal: options.abortSignal, tracingOptions });
      describeSpan(span, { outcome: found.kind === "committed" ? "committed" : "replayed" });
      if (found.kind === "committed") return { value: found.value as R, replayed: false };
      return this.#replay(found.outcome, options);
    }, { targetKind: "once", url: this.#store.url });
  }

  /**
   * What is stored of a key. Undefined: nothing, or its time is over. Costs 1 request, and 1 more for a result that is in a blob.
   * @throws {@link SchemaError} if another program has damaged the record, its result or its blob.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   */
  async get<R = unknown>(key: string, options: OnceRecordOptions = {}): Promise<OnceState<R> | undefined> {
    return this.#timed("Once.get", key, options, async (place, call) => {
      const look = async (): Promise<{ readonly record: OnceRecord | undefined; readonly outcome?: StoredOutcome | undefined }> => {
        const { record, serviceTime } = await this.#store.read(place, call);
        const isKept = record?.outcome && decide(record, { serviceTime, unchangedForInMs: 0, resultTtlInMs: this.#resultTtlInMs }).kind === "replay";
        return { record, outcome: isKept ? record.outcome : undefined };
      };
      const { record, outcome } = await this.#large.load(place, look, call);
      if (record && !record.outcome) return { state: "inProgress" };
      if (!record || !outcome) return undefined;
      const { state } = record;
      // As for a repetition: an error that another program has changed is not one of the function.
      if (outcome.kind === "error") storedError(outcome.text, this.#store.url);
      if (state !== "succeeded" || outcome.kind !== "value") return { state: state === "failed" ? "failed" : "succeeded" };
      return { state, value: await parsedResult<R>(outcome.text, undefined, this.#store.url) };
    });
  }

  /**
   * Deletes what is stored of a key: the next call runs its function. Returns whether there was something. Costs 2 requests, and 1 more for a result that is in a blob.
   * @throws {@link ConflictError} if a call may be running its function, until 15 minutes after its claim has expired.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   */
  async forget(key: string, options: OnceRecordOptions = {}): Promise<boolean> {
    return this.#timed("Once.forget", key, options, async (place, call) => {
      const record = await forgettable(this.#store, place, call);
      const wasDeleted = record !== undefined && (await this.#store.delete(place, record.etag, call));
      if (wasDeleted && record.outcome?.kind === "blob") await this.#blobs?.delete(place, record.outcome.reference, call.abortSignal);
      return wasDeleted;
    });
  }

  /**
   * Deletes old records of all keys. `olderThanInMs` is the time for which results are kept, unless set. Calls that may be running are
   * kept. With `overflow`, also deletes blobs to which no record refers, an hour after they were written. Costs 1 request for every 1,000
   * rows of the table that match, 1 for each that is deleted, 1 for every 5,000 blobs of the table, and 2 for each that is deleted.
   * @throws `RangeError` if `olderThanInMs` is negative.
   * @throws {@link TargetNotFoundError} if the table, or the container of large results, does not exist.
   * @throws {@link OperationTimeoutError} if a request gets no response within a minute. What was deleted by then stays deleted.
   */
  async purge(options: PurgeOptions = {}): Promise<PurgeResult> {
    return withSpan("Once.purge", options, async (tracingOptions) => {
      checkOptions("Once.purge", options, purgeOptionNames);
      throwIfAborted(options.abortSignal);
      const ageInMs = checkNumber("olderThanInMs", options.olderThanInMs ?? Math.min(this.#resultTtlInMs, Date.now()), { min: 0, max: Date.now() });
      const call = { abortSignal: options.abortSignal, tracingOptions };
      const records = await purgeRecords(this.#store, ageInMs, call);
      // Those of the records, and what crashes have left.
      const blobs = await this.#blobs?.purge(this.#store, ageInMs, call);
      return { deleted: records.deleted + (blobs?.deleted ?? 0), kept: records.kept + (blobs?.kept ?? 0) };
    }, { targetKind: "once", url: this.#store.url });
  }

  async #runOrReplay<R>(call: OnceCall<R>, fn: (context: OnceContext) => Promise<R> | R): Promise<OnceResult<R>> {
    const { place, options, fingerprint, deadline } = call;
    for (let local = this.#running.get(place.rowKey); local; local = this.#running.get(place.rowKey)) {
      let ended = await this.#waitFor(call, Promise.race([local.outcome, local.inProgress]));
      if (ended && "retryAfterInMs" in ended) {
        requireFingerprint(this.#store.url, call.key, ended.fingerprint, fingerprint);
        if (options.whenInProgress === "throw") throw inProgressError(this.#store.url, call.key, ended.retryAfterInMs);
        ended = await this.#waitFor(call, local.outcome);
      }
      if (!ended) continue;
      requireFingerprint(this.#store.url, call.key, ended.fingerprint, fingerprint);
      return this.#replay(ended.outcome, options);
    }
    let settle!: (ended: Awaited<LocalRun["outcome"]>) => void;
    let announce!: (found: FoundInProgress) => void;
    const run: LocalRun = { inProgress: new Promise((resolve) => (announce = resolve)), outcome: new Promise((resolve) => (settle = resolve)) };
    this.#running.set(place.rowKey, run);
    return this.#inTime(call, async (onFunctionEnd) => {
      let ended: Awaited<LocalRun["outcome"]>;
      try {
        await this.#prepare({ ...options, abortSignal: deadline.signal });
        const settings = { resultTtlInMs: this.#resultTtlInMs, claimDurationInMs: this.#claimDurationInMs };
        const acquired = await this.#large.load<HeldKey | FoundOutcome>(place, () => claimKey(this.#store, call, settings, announce), { abortSignal: deadline.signal, tracingOptions: options.tracingOptions, tryTimeoutInMs: call.limits.tryTimeoutInMs });
        if (!(acquired instanceof HeldKey)) {
          ended = acquired;
          return await this.#replay(acquired.outcome, options);
        }
        announce({ fingerprint, retryAfterInMs: this.#claimDurationInMs });
        const usedInMs = performance.now() - call.started;
        const { value, outcome } = await this.#execute(call, acquired, fn, (late) => onFunctionEnd(call.limits.timeoutInMs - usedInMs, late));
        ended = { outcome, fingerprint };
        return { value, replayed: false };
      } catch (error) {
        if (error instanceof StoredFailure) {
          ended = { outcome: error.outcome, fingerprint };
          throw error.cause;
        }
        throw error;
      } finally {
        this.#running.delete(place.rowKey);
        settle(ended);
      }
    });
  }

  /**
   * The caller does not wait for longer than its time, or than a moment after its abort, until the outcome of a function that has ended is
   * stored. It is stored all the same, as long as the claim is held: the other calls of this process wait for that.
   */
  #inTime<R>({ options }: OnceCall<R>, work: (onFunctionEnd: (leftInMs: number, late: (why: "time" | "abort") => unknown) => void) => Promise<OnceResult<R>>): Promise<OnceResult<R>> {
    return new Promise((resolve, reject) => {
      let stop: (() => void) | undefined;
      const onFunctionEnd = (leftInMs: number, late: (why: "time" | "abort") => unknown): void => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what the function has thrown, or the reason of a signal
        stop = startGrace(leftInMs, options.abortSignal, (why) => reject(late(why)));
      };
      work(onFunctionEnd).finally(() => stop?.()).then(resolve, reject);
    });
  }

  /** Waits for another call, as long as the caller does. */
  async #waitFor<R, T>(call: OnceCall<R>, outcome: Promise<T>): Promise<T> {
    const { deadline, options } = call;
    try {
      return await deadline.race(outcome);
    } catch (error) {
      if (isAborted(options.abortSignal) || !isConcurrencyError(error, "OPERATION_TIMEOUT")) throw error;
      throw inProgressError(this.#store.url, call.key, this.#claimDurationInMs);
    }
  }

  /** Runs the function under the claim, and stores its outcome. */
  async #execute<R>(
    call: OnceCall<R>,
    held: HeldKey,
    fn: (context: OnceContext) => Promise<R> | R,
    onFunctionEnd: (late: (why: "time" | "abort") => unknown) => void,
  ): Promise<{ readonly value: R; readonly outcome: StoredOutcome }> {
    const { key, place, options } = call;
    const { signal, assertHeld } = held;
    const hold = { url: this.#urlOf(place), isHeld: () => held.isHeld() };
    const notStoredInTime = (cause?: unknown) => (why: "time" | "abort"): unknown =>
      why === "abort" && options.abortSignal ? abortReason(options.abortSignal) : this.#notStoredError(call.limits.timeoutInMs, cause);
    try {
      let value: R;
      try {
        value = await runHolding("Once.run", [hold], () => fn({ key, attempt: held.attempt, signal, assertHeld }));
      } catch (error) {
        const decided = this.#storable(held, error, options);
        if ("failure" in decided) {
          onFunctionEnd(() => decided.failure);
          await held.release();
          throw decided.failure;
        }
        const { outcome } = decided;
        onFunctionEnd(notStoredInTime(error));
        await held.settle(outcome);
        throw new StoredFailure(outcome, error);
      }
      onFunctionEnd(notStoredInTime());
      assertHeld();
      let cause: unknown;
      const outcome = outcomeOfValue(value, (error) => (cause = error));
      const stored = await this.#large.fitHeld(held, place, outcome, { tracingOptions: options.tracingOptions });
      await held.settle(stored);
      if (stored.kind === "unstorable") throw new StoredFailure(stored, unstorableError(stored.reason, cause));
      return { value, outcome };
    } finally {
      held.end();
    }
  }

  /** What to store of an error, or what to throw, after which the next call may run the function. */
  #storable<R>(held: HeldKey, error: unknown, { storeError }: OnceRunOptions<R>): { readonly outcome: StoredOutcome } | { readonly failure: unknown } {
    try {
      if (!storeError?.(error)) return { failure: error };
      return held.isHeld() ? { outcome: outcomeOfError(error) } : { failure: held.notStoredError(error) };
    } catch (thrown) {
      // A function of the caller: its failure must not block the key.
      return { failure: thrown };
    }
  }

  async #replay<R>(outcome: StoredOutcome, { schema }: { readonly schema?: OnceRunOptions<R>["schema"] }): Promise<OnceResult<R>> {
    switch (outcome.kind) {
      case "value":
        return { value: await parsedResult(outcome.text, schema, this.#store.url), replayed: true };
      case "error":
        throw storedError(outcome.text, this.#store.url);
      case "unstorable":
        throw unstorableError(outcome.reason);
      case "blob":
        // It has been loaded before.
        throw damagedResult(this.#store.url, "blob");
    }
  }

  #timeoutError(timeoutInMs: number, started: number): OperationTimeoutError {
    const { url } = this.#store;
    return createError(OperationTimeoutError, `Once.run on ${url} timed out after ${timeoutInMs} ms (timeoutInMs). The function did not run.`, { url, elapsedInMs: performance.now() - started });
  }

  #notStoredError(timeoutInMs: number, cause: unknown): CommitUnknownError {
    const { url } = this.#store;
    const message = `The function of Once has run, but ${url} has not confirmed within ${timeoutInMs} ms (timeoutInMs) that its outcome is stored. It is stored as long as this process holds the claim. Repeat the call: it returns the outcome once it is stored.`;
    return createError(CommitUnknownError, message, { url, attempts: 1, operationId: crypto.randomUUID(), ...(cause !== undefined && { cause }) });
  }

  #urlOf({ partitionKey, rowKey }: RecordPlace): string {
    return `${this.#store.url}/${partitionKey}/${rowKey}`;
  }

  async #prepare({ abortSignal, tracingOptions }: CallOptions): Promise<void> {
    if (!this.#createTable) return;
    const create = (signal: AbortSignal): Promise<void> => this.#store.table.createTable({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    await read(create, { timeoutInMs: defaultTimeoutInMs, abortSignal });
    this.#createTable = false;
  }

  #timed<R>(name: string, key: string, options: OnceRecordOptions, run: (place: RecordPlace, call: Parameters<RecordStore["read"]>[1]) => Promise<R>): Promise<R> {
    return withSpan(name, options, async (tracingOptions) => {
      checkOptions(name, options, recordOptionNames);
      checkKey("key", key);
      throwIfAborted(options.abortSignal);
      const place = options.partitionKey === undefined ? await placeOf(key) : await placeIn(options.partitionKey, key);
      const started = performance.now();
      const deadline = new Deadline(defaultTimeoutInMs, () => callTimeoutError(this.#store.url, defaultTimeoutInMs, started), options.abortSignal);
      try {
        return await run(place, { abortSignal: deadline.signal, tracingOptions, tryTimeoutInMs: defaultTimeoutInMs / 4 });
      } catch (error) {
        throw toNotFoundError(error, this.#store.url, undefined) ?? error;
      } finally {
        deadline.dispose();
      }
    }, { targetKind: "once", url: this.#store.url });
  }
}

/** The function has thrown, and its error is stored: the calls that wait for it get it, too. */
class StoredFailure extends Error {
  readonly outcome: StoredOutcome;

  constructor(outcome: StoredOutcome, cause: unknown) {
    super("stored", { cause });
    this.outcome = outcome;
  }
}
