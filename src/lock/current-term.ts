import { onAbort, startTimer } from "../core/deadline.js";
import { isInside, runHolding } from "../core/hold-context.js";
import type { Hold } from "../core/hold-context.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";

/** Why a term ended. */
export type EndReason = "lost" | "resigned" | "stopped" | "failed" | "abandoned";

/** One term of this candidate: its work, why it is over, and how long the work may take to end after that. */
export class CurrentTerm {
  readonly lock: LockHandleImpl;
  /** Resolves when the work has ended and the lease is released, or when the work is abandoned. */
  readonly ended: Promise<void>;
  settle!: () => void;
  reason: EndReason = "stopped";
  readonly #drainTimeoutInMs: number;
  readonly #over = new AbortController();
  readonly #abandoned = new AbortController();
  readonly #hold: Hold;
  #isWorking = false;
  #stopTimer: (() => void) | undefined;
  #overSince = 0;

  constructor(lock: LockHandleImpl, drainTimeoutInMs: number) {
    this.lock = lock;
    this.#drainTimeoutInMs = drainTimeoutInMs;
    this.ended = new Promise((resolve) => (this.settle = resolve));
    this.#hold = { url: lock.url, isHeld: () => this.#isWorking && lock.isHeld() };
  }

  /** Aborts when the term is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** How long the term has been over. */
  get overForInMs(): number {
    return Math.round(performance.now() - this.#overSince);
  }

  /** Whether the current call is made by the work, which cannot wait for its own end. False where there is no async context. */
  isCalledByWork(): boolean {
    return this.#isWorking && isInside(this.#hold);
  }

  /** The first reason counts. From now on the work has `drainTimeoutInMs` to end; a stop limits that time itself. */
  end(reason: EndReason, error: unknown): void {
    if (this.signal.aborted) return;
    this.reason = reason;
    this.#overSince = performance.now();
    if (reason !== "stopped") this.#stopTimer = startTimer(this.#drainTimeoutInMs, () => this.abandon());
    this.#over.abort(error);
  }

  /** The work has had enough time to end. */
  abandon(): void {
    this.#abandoned.abort();
  }

  /** Runs the work. A call inside it that waits for the lock of the term is rejected. */
  async work(run: () => Promise<void> | void): Promise<void> {
    this.#isWorking = true;
    try {
      await runHolding("LeaderElection", [this.#hold], run);
    } finally {
      this.#isWorking = false;
    }
  }

  /** Resolves when `work` has ended, or when it has had enough time to end: false. */
  async drained(work: Promise<void>): Promise<boolean> {
    const done = await settledOrAborted(work, this.#abandoned.signal);
    this.#stopTimer?.();
    return done;
  }
}

/** Resolves when the promise, which never rejects, has settled, or when the signal aborts: false. Leaves no listener behind. */
export async function settledOrAborted(promise: Promise<void>, signal: AbortSignal): Promise<boolean> {
  let off: (() => void) | undefined;
  const aborted = new Promise<boolean>((resolve) => (off = onAbort(signal, () => resolve(false))));
  const done = await Promise.race([promise.then(() => true), aborted]);
  off?.();
  return done;
}
