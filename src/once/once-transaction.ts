import { Deadline, throwIfAborted } from "../core/deadline.js";
import { callTimeoutError } from "../core/request.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { checkTimeLimits } from "../core/validate.js";
import { createError, CommitUnknownError, InProgressError } from "../errors.js";
import { runWithReceipt } from "../transaction/run-transaction.js";
import type { TransactionRun } from "../transaction/transaction-run.js";
import type { Transaction } from "../transaction/transaction.js";
import { decide, entityOf } from "./once-record.js";
import type { NewRecord, RecordPlace } from "./once-record.js";
import type { OnceContext, OnceTransactionOptions } from "./once-options.js";
import type { RecordStore } from "./record-store.js";
import { outcomeOfError, outcomeOfValue } from "./stored-result.js";
import type { StoredOutcome, ValueOutcome } from "./stored-result.js";

/** One call of `Once.runTransaction`. */
export interface OnceTransaction {
  readonly key: string;
  readonly place: RecordPlace;
  readonly fingerprint: string | undefined;
  readonly fn: (tx: Transaction, context: OnceContext) => unknown;
  readonly resultTtlInMs: number;
  /** What to store of a result: a large one is uploaded before the transaction is sent. */
  readonly fit: (outcome: ValueOutcome, signal: AbortSignal) => Promise<StoredOutcome>;
}

/** What a call has done, or found. */
export type TransactionOnceResult =
  | { readonly kind: "committed"; readonly value: unknown }
  | { readonly kind: "replay"; readonly outcome: StoredOutcome; readonly fingerprint: string | undefined };

const defaultTimeoutInMs = 30_000;

/** How often a record whose time is over is deleted, and the function runs: another call may be faster each time. */
const maxRounds = 5;

/**
 * Runs the function in a transaction whose receipt is the record of the key: created with what the function writes, so of all calls with
 * one key only one can ever be committed, however often their functions run.
 *
 * | transaction  | record                     | result                                                                              |
 * |--------------|----------------------------|-------------------------------------------------------------------------------------|
 * | committed    |                            | committed                                                                           |
 * | found it     | of this call               | committed: the response was lost; the value of that run                             |
 * | found it     | of another call            | replay                                                                              |
 * | found it     | the same, its time is over | deleted, and once more                                                              |
 * | found it     | none                       | unknown: it was deleted in between                                                  |
 * | rejected     |                            | the error; of the function itself: stored, if the caller wants that                 |
 */
export async function transactOnce<R>(store: RecordStore, call: OnceTransaction, options: OnceTransactionOptions<R>): Promise<TransactionOnceResult> {
  const { abortSignal, tracingOptions, types, detectPhantoms } = options;
  const { timeoutInMs, tryTimeoutInMs } = checkTimeLimits(options, defaultTimeoutInMs);
  const started = performance.now();
  const deadline = new Deadline(timeoutInMs, () => callTimeoutError(store.url, timeoutInMs, started), abortSignal);
  const request = { abortSignal: deadline.signal, tracingOptions, tryTimeoutInMs };
  const runs = new OnceRuns(call);
  const { partitionKey, rowKey } = call.place;
  try {
    for (let round = 1; ; round++) {
      const leftInMs = Math.max(1, timeoutInMs - (performance.now() - started));
      const { outcome, value } = await runWithReceipt("Once.runTransaction", store.table, partitionKey, (tx) => runs.run(tx), { rowKey, isExpected: round > 1 }, {
        abortSignal,
        tracingOptions,
        timeoutInMs: leftInMs,
        tryTimeoutInMs: Math.min(tryTimeoutInMs, leftInMs),
        types,
        detectPhantoms,
      });
      if (outcome === "committed") return { kind: "committed", value };
      const { record, serviceTime } = await store.read(call.place, request);
      const own = record && runs.valueOf(record.writeId);
      if (own) return { kind: "committed", value: own.value };
      if (!record) throw unknownOutcome(store.url);
      const decision = decide(record, { serviceTime, unchangedForInMs: 0, resultTtlInMs: call.resultTtlInMs });
      if (decision.kind === "replay") return { kind: "replay", outcome: decision.outcome, fingerprint: record.fingerprint };
      // Not a record of a transaction.
      if (decision.kind === "busy" || round === maxRounds) {
        const retryAfterInMs = decision.kind === "busy" ? decision.retryAfterInMs : 0;
        throw createError(InProgressError, "Another call with this idempotency key is in progress. Repeat the call later.", { url: store.url, key: call.key, retryAfterInMs });
      }
      await store.delete(call.place, record.etag, request);
    }
  } catch (error) {
    if (runs.hasThrown(error) && options.storeError?.(error)) {
      const record: NewRecord = { ...runs.record, state: "failed", outcome: outcomeOfError(error) };
      try {
        // If there is a record by now, another call was faster: its outcome counts for the repetitions.
        await store.write(call.place, undefined, record, request);
      } catch (rejected) {
        // Nothing was written, so the error of the function says what has happened: a repetition may run the function again.
        logger.warning(`Once.runTransaction on ${store.url}: an error of the function is not stored: ${errorLabel(rejected)}`);
      }
    }
    throw error;
  } finally {
    deadline.dispose();
  }
}

function unknownOutcome(url: string): CommitUnknownError {
  const message = `The outcome of a transaction of Once in ${url} is unknown: its record was there, and is gone. Read the entities to decide.`;
  return createError(CommitUnknownError, message, { url, attempts: 1, operationId: crypto.randomUUID() });
}

/** The runs of the function of one call. */
class OnceRuns {
  readonly #call: OnceTransaction;
  readonly #values = new Map<string, unknown>();
  readonly #thrown = new Set<unknown>();

  constructor(call: OnceTransaction) {
    this.#call = call;
  }

  get record(): NewRecord {
    const { fingerprint } = this.#call;
    return { state: "succeeded", owner: crypto.randomUUID(), fingerprint, attempt: 1, claimDurationInMs: 0, outcome: undefined };
  }

  async run(tx: TransactionRun): Promise<unknown> {
    const { key, place, fn, fit } = this.#call;
    const { signal } = tx;
    let value: unknown;
    try {
      value = await fn(tx, { key, attempt: tx.attempt, signal, assertHeld: () => throwIfAborted(signal) });
    } catch (error) {
      this.#thrown.add(error);
      throw error;
    }
      let cause: unknown;
      const outcome = await fit(outcomeOfValue(value, (error) => (cause = error)), signal);
      if (outcome.kind === "unstorable") throw new RangeError(`Once.runTransaction: the result cannot be stored: ${outcome.reason}. Nothing was written.`, cause === undefined ? undefined : { cause });
    const writeId = crypto.randomUUID();
    this.#values.set(writeId, value);
    tx.insertReceipt(entityOf(place, { ...this.record, outcome, writeId }));
    return value;
  }

  valueOf(writeId: string): { readonly value: unknown } | undefined {
    return this.#values.has(writeId) ? { value: this.#values.get(writeId) } : undefined;
  }

  /** Whether the function itself has thrown it. */
  hasThrown(error: unknown): boolean {
    return this.#thrown.has(error);
  }
}
