import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike } from "../clients/call.js";
import { Deadline, delay, StopSignal } from "./deadline.js";
import { captureContext } from "./hold-context.js";
import { recorder } from "./measure.js";
import type { WriteCall } from "./pending-call.js";
import { growing } from "./request.js";
import type { TryLimit } from "./request.js";
import { fullJitter, maxBackoff } from "./retry.js";
import { isLeaseConflict, isParentNotFound, isUnauthorized, toConcurrencyError } from "./storage-errors.js";
import { beginTogether, endUnsettled, errorLabel, logger } from "./telemetry.js";

/** For each pipeline, the scope of the clients of each class. */
const scopes = new WeakMap<object, WeakMap<object, object>>();

/**
 * Identifies a client's credentials and policies, and what its methods do: its pipeline, which clients created from each other share, and
 * its class. It is the client itself if it has no pipeline, or methods of its own: a wrapper that denies writes must not have them carried
 * out by the client that it wraps.
 */
export function credentialScopeOf(client: object): object {
  const { pipeline } = client as { pipeline?: unknown };
  const type = typeof pipeline === "object" && pipeline !== null ? classOf(client) : undefined;
  if (!type) return client;
  let classes = scopes.get(pipeline as object);
  if (!classes) scopes.set(pipeline as object, (classes = new WeakMap<object, object>()));
  let scope = classes.get(type);
  if (!scope) {
    classes.set(type, (scope = {}));
    if (!hasTokenCredential(client)) keyScopes.add(scope);
  }
  return scope;
}

/**
 * The scopes of clients of a class of their own, without a token credential. The SDK refreshes a token in the background, with the signal of
 * the call that happened to need one: the abort of a later call with this signal would end the refresh, and all its repetitions.
 */
const keyScopes = new WeakSet<object>();

function hasTokenCredential(client: object): boolean {
  const { credential } = client as { credential?: { getToken?: unknown } | null };
  return typeof credential?.getToken === "function";
}

/**
 * The class of a client, if the methods of the client are those of its class. Undefined if they may do something else: a method was
 * replaced, or the client is a proxy, or no instance of a class. Such a client may deny or change requests, whatever it shares with others.
 */
function classOf(client: object): object | undefined {
  const prototype = Object.getPrototypeOf(client) as object | null;
  if (prototype === null || prototype === Object.prototype) return undefined;
  const given = client as Readonly<Record<string, unknown>>;
  for (const name of Object.getOwnPropertyNames(client)) if (typeof given[name] === "function") return undefined;
  return isProxy(client, prototype) ? undefined : prototype;
}

/** Null: the platform cannot tell. */
let proxyTest: ((value: unknown) => boolean) | null | undefined;

/** Where the platform cannot tell, a proxy is recognised by the methods that it replaces. */
function isProxy(client: object, prototype: object): boolean {
  if (proxyTest === undefined) {
    const { process } = globalThis as { process?: { getBuiltinModule?: (id: string) => { types?: { isProxy?: (value: unknown) => boolean } } | undefined } };
    proxyTest = process?.getBuiltinModule?.("node:util")?.types?.isProxy ?? null;
  }
  return proxyTest ? proxyTest(client) : replacesMethods(client, prototype);
}

function replacesMethods(client: object, prototype: object): boolean {
  for (let level: object | null = prototype; level !== null && level !== Object.prototype; level = Object.getPrototypeOf(level) as object | null) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(level))) {
      if (typeof value === "function" && Reflect.get(client, name) !== Reflect.get(prototype, name)) return true;
    }
  }
  return false;
}

/** The queues of one kind in this process: one per resource and credential scope, kept while it has work. */
export class CallQueues<Q> {
  readonly #scopes = new WeakMap<object, Map<string, Q>>();

  /** `create` makes a queue that calls `onIdle` when it has no more work. The next call then gets a new queue. */
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

/** A call as its queue sees it. The type of its result concerns the batch only. */
export type QueuedCall = Omit<WriteCall<never>, "promise" | "resolve">;

/**
 * Each wait of the SDK before it sends a request again, and each such send, doubles the waits after conflicts; each request that is sent once
 * shortens them a little: with one such doubling in 35 requests they stay as they are, so that the service is used nearly to its limit.
 */
const relief = 0.98;
const maxPressure = 16;

/** The options that the requests of a batch share. */
export interface SharedRequest {
  readonly abortSignal: StopSignal;
  readonly tryLimit: TryLimit;
  readonly primaryOnly: true;
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
 * The callers of one resource in one process that share requests. Calls are served first in, first out, in batches: calls
 * that are added while a batch is in flight form the next batch. Each call has its own deadline and cancellation. A batch
 * that no caller waits for any more is aborted. A call whose part the service rejects, or whose function is slow, is
 * separated from the others. A defect rejects the calls that it affects, and the queue continues.
 */
export abstract class CallQueue<C extends QueuedCall> {
  protected readonly url: string;
  /** The calls that wait for the next batch. */
  protected waiting: C[] = [];
  /** The calls that wait for the batch in flight. Empty while a request serves all waiting calls. */
  #batch: readonly C[] = [];
  readonly #onIdle: (() => void) | undefined;
  #running = false;
  /** Ends the requests and waits of a batch when no caller waits for them any more. Made anew only after an abort. */
  #io = new StopSignal();
  /** False while callers are settled: there is no I/O to abort, and `abort()` would allocate a DOMException with a stack trace. */
  #interruptible = false;
  #conflictsInARow = 0;
  #metConflict = false;
  /** A backoff that comes after the read of what is stored. */
  #pauseInMs = 0;
  /** The backoff that goes on. */
  #backoff: Deadline | undefined;
  /** The attempt of the batch ended with its conflict. A read since then belongs to the next attempt. */
  #attemptEnded = false;
  /** The tries of the requests in flight, and how many tries before each took too long. */
  #tries: { readonly deadline: Deadline; readonly timedOut: number }[] = [];
  /** The calls of which the first `#settledCalls` are known to be settled. */
  #scanned: readonly C[] | undefined;
  #settledCalls = 0;

  /**
   * @param url - The name of the resource in messages.
   * @param credentialScope - That of its client, if it has one.
   */
  constructor(url: string, onIdle: (() => void) | undefined, credentialScope?: object) {
    this.url = url;
    this.#reusesSignal = credentialScope !== undefined && keyScopes.has(credentialScope);
    this.#tryLimit = this.#newTryLimit();
    this.#onIdle = onIdle;
  }

  /** Calls wait in the order of their `enqueuedAt`: one that was detached returns to its place. */
  add(call: C): void {
    if (call.isSettled()) return;
    call.onSettled = () => this.#stopIfAbandoned();
    call.inContext ??= captureContext();
    const at = this.waiting.findLastIndex((other) => other.enqueuedAt <= call.enqueuedAt) + 1;
    this.waiting.splice(at, 0, call);
    // One request without a response must not use up the time of callers that came after it was sent.
    for (const { deadline, timedOut } of this.#tries) deadline.shortenTo(growing(call.settings.tryTimeoutInMs, timedOut));
    // Nor must the delays of another caller: it may have asked for long ones.
    this.#backoff?.shortenTo(maxBackoff(Math.max(0, this.#conflictsInARow - 1), call.settings.retryDelayInMs, call.settings.maxRetryDelayInMs));
    if (this.#running) return;
    this.#running = true;
    void this.#drain();
  }

  /** Reads, applies, writes and settles once. May throw: all calls are then rejected with that error. */
  protected abstract runBatch(): Promise<void>;

  /** Called when no call is left. Calls that are added meanwhile wait until it has ended. */
  protected beforeIdle(): Promise<void> | undefined {
    return undefined;
  }

  /** Never rejects. */
  async #drain(): Promise<void> {
    do {
      while (this.hasWork()) {
        if (this.#io.aborted) this.#io = new StopSignal();
        this.#interruptible = true;
        try {
          if (this.#pauseInMs > 0) await this.#pauseAfterConflict();
          else await this.#runInContext();
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

  /**
   * In the async context of a caller that waits: one that left long ago may have started the queue, and a policy of the client may send
   * what it finds in the context.
   */
  #runInContext(): Promise<void> {
    const run = (): Promise<void> => this.runBatch();
    return this.waiting[0]?.inContext?.(run) ?? run();
  }

  /**
   * A read failed, or an adapter, a tracer or this code has a defect. Every affected call is settled, so that no caller waits
   * forever, and the next call gets a new batch.
   */
  #contain(error: unknown): void {
    this.onBatchFailed();
    this.#interruptible = false;
    const batch = this.#batch;
    // Aborted because all its callers had left: a call that was added at the same moment gets another batch.
    const abandoned = this.#io.aborted;
    const explained = toConcurrencyError(error, this.url);
    // While a request serves all waiting calls, there is no batch yet.
    for (const call of batch.length > 0 || abandoned ? batch : this.waiting) {
      try {
        if (call.inFlight) call.rejectUnknown(error);
        else if (!abandoned) call.reject(explained);
      } catch (defect) {
        logger.error(`settling a call on ${this.url} failed: ${errorLabel(defect)}`);
      }
    }
    const waiting = new Set(this.waiting);
    this.requeue(batch.filter((call) => !waiting.has(call)));
  }

  /** A batch threw, or the queue has paused: what it knows of the stored state may be wrong. */
  protected onBatchFailed(): void {
    // The queue itself knows nothing of the stored state.
  }

  /** Drops the settled calls. Returns whether any call is left. */
  protected hasWork(): boolean {
    this.#batch = [];
    this.#tries = [];
    this.waiting = this.waiting.filter((call) => !call.isSettled());
    return this.waiting.length > 0;
  }

  /** Takes the first calls for a batch, at most `max`, and not more than each of them may be committed with. */
  protected takeBatch(max: number): C[] {
    const batch = this.waiting.splice(0, countTogether(this.waiting, max));
    this.#scanned = undefined;
    // The callers that waited before may all have gone, and these have been enqueued since: their requests are not cut off.
    if (this.#io.aborted) this.#io = new StopSignal();
    this.waitFor(batch);
    return batch;
  }

  /** From now on the batch in flight serves these calls. */
  protected waitFor(calls: readonly C[]): void {
    this.#batch = calls;
  }

  /** Puts calls back at the front of the queue. */
  protected requeue(calls: readonly C[]): void {
    this.#putFirst(calls.filter((call) => !call.isSettled()));
  }

  #putFirst(calls: readonly C[]): void {
    this.waiting = [...calls, ...this.waiting];
  }

  /** Cuts off requests of functions that go on although their batch has ended. */
  protected abortRequests(): void {
    this.#io.abort();
    this.#io = new StopSignal();
  }

  /** Whether another client has been first with a write, since this queue has work. */
  protected get hasMetConflict(): boolean {
    return this.#metConflict;
  }

  protected get abortSignal(): StopSignal {
    return this.#io;
  }

  /** What goes with the requests for these calls. They are traced as part of the first one's attempt, and counted for each. */
  protected requestFor(calls: readonly C[], leaseId: string | undefined, journalName: string): SharedRequest {
    const request = {
      abortSignal: this.#io,
      tryLimit: this.#tryLimit,
      primaryOnly: true as const,
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

  /** A request gets the time of the caller with the least. If a try took too long, the next one gets twice the time. */
  readonly #newTryLimit = (): TryLimit => ({
    reusesSignal: this.#reusesSignal,
    timeoutInMs: (timedOut) => {
      let leastInMs = Infinity;
      for (const calls of [this.#batch, this.waiting]) {
        for (const call of calls) if (!call.isSettled()) leastInMs = Math.min(leastInMs, call.settings.tryTimeoutInMs);
      }
      this.#timedOut = timedOut;
      return growing(leastInMs, timedOut);
    },
    onTry: (deadline) => {
      if (!this.#wasResent) this.#pressure = Math.max(1, this.#pressure * relief);
      this.#wasResent = false;
      this.#tries = [...this.#tries.filter((other) => !other.deadline.isDisposed), { deadline, timedOut: this.#timedOut }];
    },
    onWait: (isWaiting) => {
      for (const call of this.#writers) call.inFlight = !isWaiting;
    },
    onResend: () => {
      this.#wasResent = true;
      this.#pressure = Math.min(maxPressure, this.#pressure * 2);
    },
    backOff: (ms, signal) => this.#backOff(ms, signal),
  });
  readonly #tryLimit: TryLimit;
  readonly #reusesSignal: boolean;

  /** How much longer than usual it waits after a conflict: more processes write than the service can serve. */
  #pressure = 1;
  /** The SDK sent the last request more than once. */
  #wasResent = false;
  #timedOut = 0;
  /** The calls of the write that is in flight. */
  #writers: readonly C[] = [];

  /**
   * Marks the calls as part of a write that is about to be sent: from now on their deadlines report an unknown outcome, of this write.
   * Returns false if a caller has left since its function ran, or no call is left: such a change must not be written.
   *
   * @param tokenFor - The library's id of the part of each writer: two callers that repeat their calls by it must not be taken for one.
   */
  protected beginWrite(writers: readonly C[], calls: readonly C[], tokenFor: (caller: number | undefined) => string): boolean {
    if (calls.length === 0 || writers.some((call) => call.isSettled())) return false;
    this.waitFor(calls);
    if (writers[0]) recorder?.countBatch(writers.length, writers[0].trace);
    this.#writers = writers;
    for (const [index, call] of writers.entries()) {
      call.inFlight = true;
      // An earlier write may be committed: its caller must not be told the id of one that says that it was not.
      if (!call.mayHaveCommitted) call.writeToken = tokenFor(writers.length > 1 ? index : undefined);
    }
    return true;
  }

  /**
   * The outcome of the write is known. The calls are settled next. If it is committed, its calls stay in flight until then: should
   * settling them fail, no error may say that nothing was written.
   */
  protected endWrite(writers: readonly C[], outcome?: { readonly kind: string }): void {
    this.#interruptible = false;
    this.#writers = [];
    if (outcome?.kind !== "committed") for (const call of writers) call.inFlight = false;
  }

  /**
   * Settles the calls of a write that did not commit, or leaves them for the next batch. A single writer may have caused the
   * rejection of a combined write. It is found by halves: each writer alone would be as many requests as there are writers, and their time
   * would be over.
   *
   * @param deletes - Whether the write was a delete: credentials that allow a write do not necessarily allow a delete.
   */
  protected settleFailed(outcome: FailedWrite, writers: readonly C[], calls: readonly C[], deletes = false): void {
    const { error } = outcome;
    switch (outcome.kind) {
      case "rejected": {
        const alike = writers.length <= 1 || isLeaseConflict(error) || isParentNotFound(error) || (isUnauthorized(error) && !deletes);
        for (const call of writers) {
          if (alike) call.reject(toConcurrencyError(error, this.url));
          else call.separate(Math.ceil(writers.length / 2));
        }
        return;
      }
      case "unknown":
        logger.warning(`the outcome of a write to ${this.url} is unknown`);
        for (const call of writers) {
          if (call.settings.onUnknown === "throw" || call.isExhausted) call.rejectUnknown(error);
          call.mayHaveCommitted = true;
        }
        break;
      case "conflict":
        logger.verbose(`a write to ${this.url} met a conflict`);
        for (const call of calls) call.hadConflict = true;
        break;
    }
    for (const call of calls) if (call.isExhausted) call.rejectConflict(error);
  }

  /**
   * Implements `onConflict` of a write. Returns the backoff. Its calls stay in flight until what is stored has been read: the service may
   * have rejected a copy of the write that was made below the SDK, and have committed the other one.
   */
  protected backoffAfterConflict(calls: readonly C[]): number {
    this.#metConflict = true;
    for (const call of calls) call.hadConflict = true;
    // The read that follows belongs to the next attempt. After the last attempt it only confirms the conflict: no backoff.
    if (calls.every((call) => call.isExhausted)) return 0;
    endUnsettled(calls, "conflict");
    this.#attemptEnded = true;
    // One caller may have asked for long delays: the others do not wait for it.
    let [retryDelayInMs, maxRetryDelayInMs] = [Infinity, Infinity];
    for (const { isExhausted, settings } of [...calls, ...this.waiting]) {
      if (isExhausted) continue;
      retryDelayInMs = Math.min(retryDelayInMs, settings.retryDelayInMs);
      maxRetryDelayInMs = Math.min(maxRetryDelayInMs, settings.maxRetryDelayInMs);
    }
    const waitInMs = fullJitter(this.#conflictsInARow++, retryDelayInMs, maxRetryDelayInMs) * this.#pressure;
    if (!calls.some((other) => !other.isSettled() && other.remainingInMs() <= waitInMs)) return waitInMs;
    // The time of a caller would be over before the read that shows whether it met a conflict: it would have to say that it does not know.
    this.#pauseInMs = waitInMs;
    return 0;
  }

  /** Ends the attempt of the calls that are not settled. */
  protected endAttempt(calls: readonly C[], outcome: string): void {
    if (!this.#attemptEnded) endUnsettled(calls, outcome);
    this.#attemptEnded = false;
  }

  protected resetBackoff(): void {
    this.#conflictsInARow = 0;
  }

  /** What was read before is outdated afterwards. */
  async #pauseAfterConflict(): Promise<void> {
    const waitInMs = this.#pauseInMs;
    this.#pauseInMs = 0;
    await this.pauseBeforeRetry(waitInMs);
    this.onBatchFailed();
  }

  /** A backoff before the next batch. */
  protected async pauseBeforeRetry(ms: number): Promise<void> {
    this.#batch = [];
    this.#interruptible = true;
    await this.#backOff(ms, this.#io).catch(() => undefined);
  }

  /** A caller that comes meanwhile waits no longer than its own delays say. */
  async #backOff(ms: number, signal: AbortSignalLike | undefined): Promise<void> {
    const backoff = (this.#backoff = new Deadline(ms, () => backoffIsOver, signal));
    try {
      await backoff.race(new Promise<never>(() => undefined));
    } catch (reason) {
      if (reason !== backoffIsOver) throw reason;
    } finally {
      this.#backoff = undefined;
    }
  }

  /** Waits before the next batch, until all callers have left at the latest. */
  protected async pause(ms: number): Promise<void> {
    this.#batch = [];
    this.#interruptible = true;
    await delay(ms, this.#io).catch(() => undefined);
  }

  #stopIfAbandoned(): void {
    // Once: each further `abort()` would allocate a DOMException, for each of thousands of callers that leave.
    if (this.#interruptible && !this.#io.aborted && this.#isAbandoned()) this.#io.abort();
  }

  /** Remembers how far it got: when thousands of callers leave one after the other, each call is examined once. */
  #isAbandoned(): boolean {
    const calls = this.#batch.length > 0 ? this.#batch : this.waiting;
    if (this.#scanned !== calls) {
      this.#scanned = calls;
      this.#settledCalls = 0;
    }
    while (calls[this.#settledCalls]?.isSettled()) this.#settledCalls++;
    return this.#settledCalls >= calls.length;
  }
}

/** How many of the first calls may be committed together. */
export function countTogether(calls: readonly Pick<QueuedCall, "maxTogether">[], max: number): number {
  let limit = max;
  let count = 0;
  for (const { maxTogether } of calls) {
    limit = Math.min(limit, maxTogether);
    if (count >= limit) break;
    count++;
  }
  return count;
}

const backoffIsOver = Symbol("the backoff is over");

function firstOf<C extends QueuedCall>(calls: readonly C[]): C | undefined {
  return calls.find((call) => !call.isSettled());
}
