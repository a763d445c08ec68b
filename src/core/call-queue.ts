import type { OperationTracingOptions } from "@azure/core-tracing";
import { delay } from "./deadline.js";
import type { WriteCall } from "./pending-call.js";
import { fullJitter } from "./retry.js";
import { isLeaseConflict, isParentNotFound, isUnauthorized, toConcurrencyError } from "./storage-errors.js";
import { beginTogether, endUnsettled, errorLabel, logger } from "./telemetry.js";

/** Stands for a client's credentials and policies: its pipeline, which clients made from each other share; else the client. */
export function credentialScopeOf(client: object): object {
  const { pipeline } = client as { pipeline?: unknown };
  return typeof pipeline === "object" && pipeline !== null ? pipeline : client;
}

/** The queues of one kind in this process: one for each resource and credential scope, while it has work. */
export class CallQueues<Q> {
  readonly #scopes = new WeakMap<object, Map<string, Q>>();

  /** `create` makes a queue that calls `onIdle` when it has no more work: the next call gets a new one. */
  get(scope: object, key: string, create: (onIdle: () => void) => Q): Q {
    let queues = this.#scopes.get(scope);
    if (!queues) this.#scopes.set(scope, (queues = new Map<string, Q>()));
    let queue = queues.get(key);
    if (!queue) {
      const own = queues;
      queues.set(key, (queue = create(() => own.delete(key))));
    }
    return queue;
  }
}

/** A call as far as its queue is concerned: what it resolves with is the business of the batch. */
export type QueuedCall = Omit<WriteCall<never>, "promise" | "resolve">;

/** What the requests of a batch have in common. */
export interface SharedRequest {
  readonly abortSignal: AbortSignal;
  readonly tracingOptions: OperationTracingOptions | undefined;
  readonly leaseId: string | undefined;
  readonly journalName: string;
  /** Called before each request: `tracingOptions` may change with it. */
  readonly onRequest: () => void;
}

/** The outcome of a write that did not commit. */
export type FailedWrite =
  | { readonly kind: "conflict"; readonly error: unknown }
  | { readonly kind: "rejected"; readonly error: unknown }
  | { readonly kind: "unknown"; readonly error: unknown };

/**
 * The callers of one resource in one process that share requests. Callers are served in the order in which they came, in
 * batches: those that come while a batch is in flight form the next one. Each has its own deadline and cancellation; a batch
 * that no caller waits for any more is cut off. One caller whose part the service rejects, or whose function is slow, is
 * separated from the others. A defect rejects the callers that it concerns, and the queue goes on.
 */
export abstract class CallQueue<C extends QueuedCall> {
  protected readonly url: string;
  /** The calls that wait for the next batch. */
  protected waiting: C[] = [];
  /** The calls that wait for the batch in flight; empty while a request is for all of them. */
  #batch: readonly C[] = [];
  readonly #onIdle: (() => void) | undefined;
  #running = false;
  /** Ends the requests and waits of a batch when no caller waits for them any more. Made anew only after an abort. */
  #io = new AbortController();
  /** False while callers are settled: there is no I/O to abort, and `abort()` would allocate a DOMException with a stack trace. */
  #interruptible = false;
  #conflictsInARow = 0;
  /** The attempt of the batch ended with its conflict; a read since then belongs to the next one. */
  #attemptEnded = false;

  /** @param url - What messages call the resource. */
  constructor(url: string, onIdle: (() => void) | undefined) {
    this.url = url;
    this.#onIdle = onIdle;
  }

  add(call: C, place: "first" | "last" = "last"): void {
    if (call.isSettled()) return;
    call.onSettled = () => this.#stopIfAbandoned();
    if (place === "first") this.waiting.unshift(call);
    else this.waiting.push(call);
    if (this.#running) return;
    this.#running = true;
    void this.#drain();
  }

  /** Reads, applies, writes and settles once. May throw: then all calls are rejected with that error. */
  protected abstract runBatch(): Promise<void>;

  /** Called when no call waits any more; may take its time. */
  protected beforeIdle(): Promise<void> | undefined {
    return undefined;
  }

  /** Never rejects. */
  async #drain(): Promise<void> {
    do {
      while (this.hasWork()) {
        if (this.#io.signal.aborted) this.#io = new AbortController();
        this.#interruptible = true;
        try {
          await this.runBatch();
        } catch (error) {
          this.#contain(error);
        }
      }
      this.#interruptible = false;
      try {
        const cleanUp = this.beforeIdle();
        if (cleanUp) await cleanUp;
      } catch (error) {
        logger.error(`cleaning up after writes to ${this.url} failed: ${errorLabel(error)}`);
      }
      // Calls may have been enqueued during the clean-up.
    } while (this.hasWork());
    this.#running = false;
    this.#onIdle?.();
  }

  /** A read that failed, or a defect of an adapter, a tracer or this code: no caller must wait in vain, and the next one gets a new batch. */
  #contain(error: unknown): void {
    this.onBatchFailed();
    // Cut off as all its callers had gone: no concern of a call that was enqueued at the same moment.
    if (this.#io.signal.aborted) return;
    this.#interruptible = false;
    const explained = toConcurrencyError(error, this.url);
    // While a request is for all waiting calls there is no batch yet.
    for (const call of this.#batch.length > 0 ? this.#batch : this.waiting) {
      try {
        if (call.inFlight) call.rejectUnknown(error);
        else call.reject(explained);
      } catch (defect) {
        logger.error(`settling a call on ${this.url} failed: ${errorLabel(defect)}`);
      }
    }
  }

  /** A batch threw: what was known of the stored state may be wrong. */
  protected onBatchFailed(): void {
    // nothing is known by default
  }

  /** Forgets the calls that have gone. Returns whether any is left. */
  protected hasWork(): boolean {
    this.#batch = [];
    this.waiting = this.waiting.filter((call) => !call.isSettled());
    return this.waiting.length > 0;
  }

  /** Takes the first calls for a batch, at most `max` of them; one that has to be committed alone gets a batch of its own. */
  protected takeBatch(max: number): C[] {
    const alone = this.waiting.findIndex((call) => call.commitAlone);
    const batch = this.waiting.splice(0, alone < 0 ? max : Math.min(max, Math.max(alone, 1)));
    // The callers that waited before may all have gone, and these have been enqueued since: their requests are not cut off.
    if (this.#io.signal.aborted) this.#io = new AbortController();
    this.waitFor(batch);
    return batch;
  }

  /** From now on the batch in flight is for these calls. */
  protected waitFor(calls: readonly C[]): void {
    this.#batch = calls;
  }

  /** Puts calls back to the front. */
  protected requeue(calls: readonly C[]): void {
    this.waiting.unshift(...calls.filter((call) => !call.isSettled()));
  }

  protected get abortSignal(): AbortSignal {
    return this.#io.signal;
  }

  /** What goes with the requests for these calls. They are traced as part of the first one's attempt, and counted for each. */
  protected requestFor(calls: readonly C[], leaseId: string | undefined, journalName: string): SharedRequest {
    const request = {
      abortSignal: this.#io.signal,
      tracingOptions: firstOf(calls)?.trace.tracingOptions,
      leaseId,
      journalName,
      onRequest: () => {
        const first = firstOf(calls);
        // The first request after a conflict begins the next attempt.
        if (first && !first.trace.isOpen) {
          beginTogether(calls.filter((call) => !call.isSettled()));
          request.tracingOptions = first.trace.tracingOptions;
        }
        for (const call of calls) call.trace.countRequest();
      },
    };
    return request;
  }

  /**
   * Marks the calls as part of a write that is about to be sent: from now on their deadlines report an unknown outcome. False
   * if a caller has gone since its function ran, or none is left: its change must not be written.
   */
  protected beginWrite(writers: readonly C[], calls: readonly C[]): boolean {
    if (calls.length === 0 || writers.some((call) => call.isSettled())) return false;
    this.waitFor(calls);
    for (const call of writers) call.inFlight = true;
    return true;
  }

  /** The outcome of the write is known, and callers are settled next. */
  protected endWrite(writers: readonly C[]): void {
    this.#interruptible = false;
    for (const call of writers) call.inFlight = false;
  }

  /**
   * Settles the calls of a write that did not commit, or leaves them for the next batch. One of several writers may be to
   * blame for a rejection: they are tried one by one then.
   *
   * @param deletes - Whether the write was a delete: credentials that allow a write need not allow that.
   */
  protected settleFailed(outcome: FailedWrite, writers: readonly C[], calls: readonly C[], deletes = false): void {
    const { error } = outcome;
    switch (outcome.kind) {
      case "rejected": {
        const alike = writers.length <= 1 || isLeaseConflict(error) || isParentNotFound(error) || (isUnauthorized(error) && !deletes);
        for (const call of writers) {
          if (alike) call.reject(toConcurrencyError(error, this.url));
          else call.commitAlone = true;
        }
        return;
      }
      case "unknown":
        logger.warning(`the outcome of a write to ${this.url} is unknown`);
        for (const call of writers) {
          const { onUnknown, maxAttempts } = call.settings;
          if (onUnknown === "throw" || call.attempts >= maxAttempts) call.rejectUnknown(error);
          call.mayHaveCommitted = true;
        }
        break;
      case "conflict":
        logger.verbose(`a write to ${this.url} met a conflict`);
        for (const call of calls) call.hadConflict = true;
        break;
    }
    for (const call of calls) if (call.attempts >= call.settings.maxAttempts) call.rejectConflict(error);
  }

  /** For `onConflict` of a write: its calls are not in flight any more. Returns the backoff. */
  protected backoffAfterConflict(writers: readonly C[], calls: readonly C[]): number {
    for (const call of writers) call.inFlight = false;
    for (const call of calls) call.hadConflict = true;
    const call = calls.find(({ attempts, settings }) => attempts < settings.maxAttempts);
    // The read that follows is for the next attempt, if there is one; it confirms the conflict of the last one.
    if (!call) return 0;
    endUnsettled(calls, "conflict");
    this.#attemptEnded = true;
    return fullJitter(this.#conflictsInARow++, call.settings.retryDelayInMs, call.settings.maxRetryDelayInMs);
  }

  /** Ends the attempt of the calls that have no result. */
  protected endAttempt(calls: readonly C[], outcome: string): void {
    if (!this.#attemptEnded) endUnsettled(calls, outcome);
    this.#attemptEnded = false;
  }

  protected resetBackoff(): void {
    this.#conflictsInARow = 0;
  }

  /** Waits before the next batch, unless all callers go. */
  protected async pause(ms: number): Promise<void> {
    this.#batch = [];
    this.#interruptible = true;
    await delay(ms, this.#io.signal).catch(() => undefined);
  }

  #stopIfAbandoned(): void {
    if (!this.#interruptible) return;
    const calls = this.#batch.length > 0 ? this.#batch : this.waiting;
    if (calls.every((call) => call.isSettled())) this.#io.abort();
  }
}

function firstOf<C extends QueuedCall>(calls: readonly C[]): C | undefined {
  return calls.find((call) => !call.isSettled());
}
