import type { OperationTracingOptions } from "@azure/core-tracing";
import { isAborted, onAbort, startStopwatch, startTimer } from "../core/deadline.js";
import { isInside, runHolding } from "../core/hold-context.js";
import type { Hold } from "../core/hold-context.js";
import { recorder } from "../core/measure.js";
import { describeSpan, failSpan, inSpan } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { createError, OperationTimeoutError } from "../errors.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";

/**
 * One term as the leader.
 * @example
 * ```ts
 * new LeaderElection(locks, "scheduler", async (term) => {
 *   while (!term.signal.aborted) await runDueJobs({ epoch: term.epoch, signal: term.signal });
 * });
 * ```
 */
export interface LeadershipTerm {
  /**
   * Aborts when the term ends: lost, resigned, or stopped. The work must end then: after `drainTimeoutInMs` the lease is not renewed
   * any more, and the next leader does not wait for this work.
   */
  readonly signal: AbortSignal;
  /**
   * Throws if this is not the leader at this moment. Reads the clock, and sends no request.
   * @throws {@link LeaseLostError} if the lease was lost. If the term ended otherwise, the reason of `signal`.
   */
  assertHeld(): void;
  /** Larger than that of every earlier term of any candidate: send it with the leader's operations, as a fencing token. */
  readonly epoch: number;
  /** Parent for the spans of the leader's operations: the span of the term. */
  readonly tracingOptions: OperationTracingOptions;
}

/** Why a term ended. `R`: the reasons with which its component ends it, besides a stop. */
export type TermEnd<R extends string> = R | "lost" | "stopped" | "failed" | "abandoned";

/** What a component says of its terms, and is told of them. */
export interface TermParts {
  /** The component, as its spans and errors name it. */
  readonly component: string;
  readonly targetKind: string;
  /** Whose work it is, in messages: `the leader of "scheduler"`. */
  readonly holder: string;
  /** What may happen while abandoned work still runs, in messages. */
  readonly successor: string;
  /** How long the work may take to end after its term is over. */
  readonly drainTimeoutInMs: number;
  /** The term begins, and its work follows unless this ends the term. Not called if the term was over by then. */
  readonly onBegin: (term: LeadershipTerm) => void;
  readonly work: (term: LeadershipTerm) => Promise<void> | void;
  readonly onError: (error: unknown) => void;
}

/**
 * The time in which this process holds a lock, and does the work that belongs to it.
 *
 * | The term | The work | The lease |
 * |---|---|---|
 * | goes on | runs, or has ended | renewed |
 * | is over | has not ended yet | renewed |
 * | is over | has ended | released |
 * | is over | has not ended within the drain timeout: abandoned | not renewed, released when the work ends |
 */
export class Term<R extends string = never> {
  readonly lock: LockHandleImpl;
  /** Resolves when the work has ended and the lease is released, or when the work is abandoned. */
  readonly ended: Promise<void>;
  /** Resolves when the work has ended, even if it was abandoned before. */
  readonly workEnded: Promise<void>;
  readonly #parts: TermParts;
  readonly #over = new AbortController();
  readonly #abandoned = new AbortController();
  readonly #hold: Hold;
  #reason: TermEnd<R> = "stopped";
  #isWorking = false;
  #stopTimer: (() => void) | undefined;
  #overSince = 0;
  #settle!: () => void;
  #settleWork!: () => void;

  constructor(lock: LockHandleImpl, parts: TermParts) {
    this.lock = lock;
    this.#parts = parts;
    this.ended = new Promise((resolve) => (this.#settle = resolve));
    this.workEnded = new Promise((resolve) => (this.#settleWork = resolve));
    this.#hold = { url: lock.url, isHeld: () => this.#isWorking && lock.isHeld() };
  }

  /** Aborts when the term is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** Whether the term goes on at this moment, by the clock. */
  get isHeld(): boolean {
    return !this.signal.aborted && this.lock.remainingInMs > 0;
  }

  /** Whether the current call is made by the work, which cannot wait for its own end. False where there is no async context. */
  isCalledByWork(): boolean {
    return this.#isWorking && isInside(this.#hold);
  }

  /** The first reason counts. From now on the work has the drain timeout to end; a stop limits that time itself. */
  end(reason: TermEnd<R>, error: unknown): void {
    if (this.signal.aborted) return;
    this.#reason = reason;
    this.#overSince = performance.now();
    if (reason !== "stopped") this.#stopTimer = startTimer(this.#parts.drainTimeoutInMs, () => this.abandon());
    this.#over.abort(error);
  }

  /** The work has had enough time to end. */
  abandon(): void {
    this.#abandoned.abort();
  }

  /**
   * Runs the term in its own span, whose outcome says how it ended. Resolves when the work has ended and the lease is released, or when the
   * work is abandoned. Never rejects.
   */
  async run(stopped: AbortSignal): Promise<TermEnd<R>> {
    const { component, targetKind } = this.#parts;
    const details = { targetKind, url: this.lock.url, epoch: this.lock.epoch };
    const heldForInMs = startStopwatch();
    await inSpan(`${component}.term`, {}, (tracingOptions = {}, span) => this.#run(stopped, tracingOptions, span), details);
    recorder?.countTerm(targetKind, heldForInMs(), this.#reason);
    this.#settle();
    return this.#reason;
  }

  async #run(stopped: AbortSignal, tracingOptions: OperationTracingOptions, span: CallSpan): Promise<void> {
    const { lock } = this;
    lock.setTracingParent(tracingOptions);
    const offLost = onAbort(lock.signal, () => this.end("lost", lock.signal.reason));
    const offStopped = onAbort(stopped, () => this.end("stopped", stopped.reason));
    const work = this.signal.aborted ? Promise.resolve() : this.#work(tracingOptions, span);
    void work.then(this.#settleWork);
    const hasEnded = await settledOrAborted(work, this.#abandoned.signal);
    this.#stopTimer?.();
    offLost();
    offStopped();
    if (hasEnded) await lock[Symbol.asyncDispose]();
    else this.#leaveToExpire(work, span);
    describeSpan(span, { outcome: this.#reason });
  }

  /** Resolves when the term is over and its work has ended. */
  async #work(tracingOptions: OperationTracingOptions, span: CallSpan): Promise<void> {
    const { lock, signal } = this;
    const assertHeld = (): void => {
      if (signal.aborted) throw signal.reason;
      lock.assertHeld();
    };
    const term: LeadershipTerm = { signal, assertHeld, epoch: lock.epoch, tracingOptions };
    this.#parts.onBegin(term);
    // A listener has ended it. Work that only listens to its signal would wait for an abort that has been.
    if (isAborted(signal)) return;
    try {
      await this.#runHolding(() => this.#parts.work(term));
      await new Promise<void>((resolve) => onAbort(signal, resolve));
    } catch (error) {
      // An error that the work throws because its term was over is not reported.
      if (signal.aborted) return;
      this.end("failed", error);
      failSpan(span, error);
      this.#parts.onError(error);
    }
  }

  /** A call inside the work that waits for the lock of the term is rejected. */
  async #runHolding(work: () => Promise<void> | void): Promise<void> {
    this.#isWorking = true;
    try {
      await runHolding(this.#parts.component, [this.#hold], work);
    } finally {
      this.#isWorking = false;
    }
  }

  /**
   * The work takes no notice of its signal. Renewed for ever, its lease would keep all others from the lock. The lease is left to expire
   * rather than released: if the work ends by then, it has not run beside that of the next holder.
   */
  #leaveToExpire(work: Promise<void>, span: CallSpan): void {
    const { lock } = this;
    const { holder, successor, onError } = this.#parts;
    const overForInMs = Math.round(performance.now() - this.#overSince);
    this.#reason = "abandoned";
    lock.letExpire();
    void work.then(() => lock[Symbol.asyncDispose]());
    const message = `The work of ${holder} (epoch ${lock.epoch}) has not ended ${overForInMs} ms after its signal aborted (drainTimeoutInMs). Its lease is not renewed any more: ${successor} while that work still runs. End the work when its signal aborts.`;
    const error = createError(OperationTimeoutError, message, { url: lock.url, elapsedInMs: overForInMs, committed: "unknown" });
    failSpan(span, error);
    onError(error);
  }
}

/**
 * Waits for the end of a component. If the caller is the work of one of its terms, which would wait for its own end: until the signal of
 * that term has aborted.
 */
export async function endOrSignal<R extends string>(ended: Promise<void>, inside: Term<R> | undefined): Promise<void> {
  await (inside ? Promise.race([ended, new Promise<void>((resolve) => onAbort(inside.signal, resolve))]) : ended);
}

/** Resolves when the promise, which never rejects, has settled, or when the signal aborts: false. Leaves no listener behind. */
export async function settledOrAborted(promise: Promise<void>, signal: AbortSignal): Promise<boolean> {
  let off: (() => void) | undefined;
  const aborted = new Promise<boolean>((resolve) => (off = onAbort(signal, () => resolve(false))));
  const done = await Promise.race([promise.then(() => true), aborted]);
  off?.();
  return done;
}
