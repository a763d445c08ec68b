import { CallQueues } from "../core/call-queue.js";
import { maxPollDelayInMs, pollDelay } from "../core/retry.js";
import { delay, RequestTimeoutError, startStopwatch } from "../core/deadline.js";
import { isLeaseConflict, isTransient, toTimeoutError } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { tryAcquireOnce } from "./acquire.js";
import type { LeaseWaiter } from "./acquire.js";
import type { HeldLease } from "./held-lease.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import type { FencingToken } from "./lease-handle.js";
import type { LeaseSettings } from "./lease-options.js";
import { releaseAfterLateAcquire, releaseInBackground, tryRelease } from "./orphaned-lease.js";
import { FailureStreak, PollPacing } from "./poll-pacing.js";

/** Allocates a fencing token for each holder of a named lock, before the caller gets the lease and at each handover. */
export interface EpochAllocator {
  /** Waiters with the same kind of allocator can hand the lease over to each other. */
  readonly key: string;
  /** `waiting`: how many callers of this process wait for it. Rejects if the lease cannot be used. */
  next(lease: HeldLease, waiting: number, request: Omit<LeaseRequest, "abortSignal">): Promise<FencingToken>;
}

/** After this many turns in a row, or this much time, the lease is released to the service, for the waiters of other processes. */
const maxTurns = 1_000;
const maxHoldInMs = 5_000;
/** Then this process pauses for longer than other processes do between two polls, so that one of them acquires it. */
const yieldInMs = 1.2 * maxPollDelayInMs;
/** A lease that was confirmed longer ago than this is renewed before it is handed over. */
const confirmAfterInMs = 1_000;

const queues = new CallQueues<WaiterQueue>();

/** The queue of all callers in this process that want the same lease with the same credentials and settings. */
export function waiterQueueFor(adapter: LeaseAdapter, settings: LeaseSettings, epochs: EpochAllocator | undefined): WaiterQueue {
  const key = JSON.stringify([adapter.key, settings, epochs?.key]);
  return queues.get(adapter.owner, key, (onIdle) => new WaiterQueue(adapter, settings, epochs, onIdle));
}

/**
 * Waiters acquire in FIFO order, with one poller for all of them; and while a caller waits, the lease is handed from one to the
 * next without a request.
 */
export class WaiterQueue {
  readonly #adapter: LeaseAdapter;
  readonly #settings: LeaseSettings;
  readonly #epochs: EpochAllocator | undefined;
  readonly #onIdle: () => void;
  readonly #waiters = new Set<LeaseWaiter>();
  /** Polling, or held by a caller of this process. */
  #busy = false;
  /** The lease that a caller of this process holds. */
  #lease: HeldLease | undefined;
  /** How often, and since when, this process has held the lease without giving other processes a chance. */
  #turns = 0;
  #turnsSince = startStopwatch();
  #failures: FailureStreak | undefined;
  /** Aborts the request in flight, or the wait for the next poll, when the last waiter leaves. */
  #io = new AbortController();

  constructor(adapter: LeaseAdapter, settings: LeaseSettings, epochs: EpochAllocator | undefined, onIdle: () => void) {
    this.#adapter = adapter;
    this.#settings = settings;
    this.#epochs = epochs;
    this.#onIdle = onIdle;
  }

  /** Settles the waiter when it is its turn, or when waiting has become pointless. */
  enqueue(waiter: LeaseWaiter): void {
    if (!waiter.isSettled()) {
      waiter.onSettled = () => this.#leave(waiter);
      this.#waiters.add(waiter);
      if (this.#lease) waiter.attempted();
    }
    if (!this.#busy) void this.#poll();
  }

  /** As {@link enqueue}, for a caller that does not wait: if the queue is busy, the lease is taken. */
  tryAcquire(waiter: LeaseWaiter): void {
    if (this.#busy) waiter.attempted();
    else this.enqueue(waiter);
  }

  /** Polls until the lease is acquired or no caller wants it any more. Never rejects. */
  async #poll(): Promise<void> {
    this.#busy = true;
    let pacing: PollPacing | undefined;
    // One id for all attempts of one acquisition: if a response is lost, the next attempt finds the lease to be its own.
    const leaseId = this.#settings.leaseId ?? crypto.randomUUID();
    let uncertain = false;
    for (let first = this.#first(); first; first = this.#first()) {
      this.#io = new AbortController();
      first.trace.begin();
      const request = { abortSignal: this.#io.signal, ...requestFor(first) };
      const outcome = await tryAcquireOnce(this.#adapter, leaseId, this.#settings, request);
      if (outcome.kind === "acquired") {
        const { lease } = outcome;
        if (this.#turns === 0) this.#turnsSince = startStopwatch();
        this.#lease = lease;
        for (const waiter of this.#waiters) if (waiter !== this.#first()) waiter.attempted();
        // A holder that ignores the loss must not block the waiters behind it.
        lease.onLost(() => this.#onNoLongerHeld(lease));
        await this.#grant(lease);
        return;
      }
      pacing ??= new PollPacing();
      pacing.polled(outcome.poll);
      if (outcome.kind === "taken") {
        first.trace.end("taken");
        logger.verbose(`${this.#adapter.url} is leased by another client`);
        uncertain = false;
        this.#turns = 0;
        this.#failures?.end();
        for (const waiter of this.#waiters) waiter.attempted();
      } else {
        uncertain ||= outcome.uncertain;
        first.trace.end("failed", outcome.error);
        // Aborted because no caller waited any more: that does not concern the waiters that were enqueued since.
        if (!this.#io.signal.aborted) this.#pollFailed(outcome.error, outcome.transient);
      }
      if (this.#first()) await delay(pacing.nextPollInMs(), this.#io.signal).catch(() => undefined);
    }
    if (uncertain) await this.#releaseUncertain(leaseId);
    this.#becomeIdle();
  }

  /** A request without a response may have acquired a lease that no caller wants any more: it would block other clients. */
  async #releaseUncertain(leaseId: string): Promise<void> {
    const gone = await tryRelease(this.#adapter, leaseId);
    if (this.#settings.durationInMs !== Infinity) return;
    if (gone) {
      releaseAfterLateAcquire(this.#adapter, leaseId);
      return;
    }
    logger.warning(`a lease on ${this.#adapter.url} that never expires may have been acquired by an abandoned call: releasing it in the background`);
    releaseInBackground(this.#adapter, leaseId);
  }

  /** Gives the lease to the first waiter. Never rejects. */
  async #grant(lease: HeldLease): Promise<void> {
    let token: FencingToken | undefined;
    try {
      const first = this.#first();
      if (this.#epochs && first) token = await this.#epochs.next(lease, this.#waiters.size, requestFor(first));
    } catch (error) {
      // If the lease was lost before its token was allocated, the waiters have lost nothing, and continue to wait.
      if (!lease.check() && !isLeaseConflict(error)) this.#pollFailed(error, isTransient(error));
      await this.#release(lease).catch(() => undefined);
      return;
    }
    const waiter = this.#first();
    if (!waiter || lease.check()) {
      await this.#release(lease).catch((error: unknown) =>
        logger.warning(`a lease on ${lease.url} that no caller wanted any more could not be released: ${errorLabel(error)}`),
      );
      return;
    }
    this.#turns++;
    this.#failures?.end();
    lease.tracingOptions = waiter.holderTracing;
    waiter.resolve({ lease, token, release: () => this.#handOverOrRelease(lease) }, "acquired");
  }

  async #handOverOrRelease(lease: HeldLease): Promise<void> {
    // The holder that releases it need not wait until the next one has its token.
    if (this.#lease === lease && this.#mayHandOver(lease)) void this.#handOver(lease);
    else await this.#release(lease);
  }

  /** Confirms the lease first: no holder starts work on one that was broken long ago. That costs at most one request a second. */
  async #handOver(lease: HeldLease): Promise<void> {
    // A change in flight would invalidate the id under which the token of the next holder is allocated.
    await lease.whenIdle();
    if (lease.unconfirmedForInMs > confirmAfterInMs) await lease.renew().catch(() => undefined);
    await this.#grant(lease);
  }

  #mayHandOver(lease: HeldLease): boolean {
    const { autoRenew, leaseId } = this.#settings;
    return this.#first() !== undefined && !lease.check() && lease.reusable && autoRenew && leaseId === undefined && !this.#mustYield();
  }

  #mustYield(): boolean {
    return this.#turns >= maxTurns || this.#turnsSince() >= maxHoldInMs;
  }

  /** Releases the lease, and polls again for the callers that still wait. */
  async #release(lease: HeldLease): Promise<void> {
    try {
      await lease.release();
    } finally {
      this.#onNoLongerHeld(lease);
    }
  }

  /** The lease is not held any more, for whatever reason. Called by the part that detects it first; later calls do nothing. */
  #onNoLongerHeld(lease: HeldLease): void {
    if (this.#lease !== lease) return;
    this.#lease = undefined;
    if (this.#first()) void this.#resumePolling();
    else this.#becomeIdle();
  }

  async #resumePolling(): Promise<void> {
    if (this.#mustYield()) {
      this.#turns = 0;
      this.#io = new AbortController();
      await delay(yieldInMs, this.#io.signal).catch(() => undefined);
    }
    // The lease was acquired, but no token could be allocated: it is not acquired again immediately.
    const failingForInMs = this.#failures?.lastsForInMs;
    if (failingForInMs !== undefined) {
      this.#io = new AbortController();
      await delay(pollDelay(failingForInMs), this.#io.signal).catch(() => undefined);
    }
    await this.#poll();
  }

  #becomeIdle(): void {
    this.#busy = false;
    // A waiter may have been enqueued while the last request was in flight.
    if (this.#first()) void this.#poll();
    else this.#onIdle();
  }

  #first(): LeaseWaiter | undefined {
    return this.#waiters.values().next().value;
  }

  #pollFailed(error: unknown, transient: boolean): void {
    this.#failures ??= new FailureStreak();
    const pointless = !transient || this.#failures.add();
    if (!transient) this.#failures.end();
    for (const waiter of this.#waiters) {
      if (pointless) waiter.reject(error instanceof RequestTimeoutError ? toTimeoutError(error, this.#adapter.url) : error);
      else waiter.attempted(error);
    }
  }

  #leave(waiter: LeaseWaiter): void {
    this.#waiters.delete(waiter);
    // While the lease is held, no request is in flight that could be aborted, and an abort is expensive.
    if (this.#waiters.size === 0 && !this.#lease) this.#io.abort();
  }
}

function requestFor({ trace }: LeaseWaiter): Omit<LeaseRequest, "abortSignal"> {
  return { tracingOptions: trace.tracingOptions, onRequest: () => trace.countRequest() };
}
