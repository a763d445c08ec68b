import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { createError, CommitUnknownError, ConflictError, OperationTimeoutError } from "../errors.js";
import { abortReason, onAbort, startTimer } from "./deadline.js";
import { Attempts, errorLabel, logger } from "./telemetry.js";

/** The options that every pending call takes from its caller. */
export interface PendingCallOptions {
  /** `Infinity`: no deadline. */
  readonly timeoutInMs: number;
  readonly abortSignal?: AbortSignalLike | undefined;
  readonly tracingOptions?: OperationTracingOptions | undefined;
  /** Records the attempts that are made for this call. */
  readonly trace?: Attempts | undefined;
}

/** One caller of a shared operation: its promise, its deadline and its cancellation. Settling removes its timer and listener. */
export abstract class PendingCall<R> {
  readonly promise: Promise<R>;
  readonly trace: Attempts;
  /** Tells the owner of the shared operation that this call needs no more work. */
  onSettled: (() => void) | undefined;
  #settled = false;
  #controller: AbortController | undefined;
  #resolve!: (result: R) => void;
  #reject!: (error: unknown) => void;
  #stopTimer: () => void;
  readonly #off: () => void;

  constructor({ timeoutInMs, abortSignal, tracingOptions, trace }: PendingCallOptions) {
    this.trace = trace ?? new Attempts("", tracingOptions, undefined);
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // First: it throws for what is not a signal, and a timer would be left.
    this.#off = onAbort(abortSignal, () => abortSignal && this.#rejectWith(abortReason(abortSignal)));
    this.#stopTimer = startTimer(timeoutInMs, () => this.onTimeout());
    if (this.#settled) this.#dispose();
  }

  /** A method, not a property: TypeScript keeps the narrowing of a property across an `await`. */
  isSettled(): boolean {
    return this.#settled;
  }

  /** For the caller's function: aborts when the call is rejected while the function runs. */
  get signal(): AbortSignal {
    return (this.#controller ??= new AbortController()).signal;
  }

  // In both, the caller gets its result first: a tracer that throws must not leave it waiting.

  resolve(result: R, outcome = "done"): void {
    if (!this.#settle()) return;
    this.#resolve(result);
    this.onSettled?.();
    this.#endTrace(outcome);
  }

  reject(error: unknown): void {
    this.#rejectWith(error);
  }

  #rejectWith(error: unknown): void {
    if (!this.#settle()) return;
    this.#reject(error);
    this.#controller?.abort(error);
    this.onSettled?.();
    this.#endTrace("failed", error);
  }

  /** The time is over: rejects, or waits for the end of the request in flight. */
  protected abstract onTimeout(): void;

  /** Calls `onTimeout` again after this time. */
  protected extendTimeout(timeoutInMs: number): void {
    this.#stopTimer = startTimer(timeoutInMs, () => this.onTimeout());
  }

  /** False if it is settled already. */
  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.#dispose();
    return true;
  }

  #endTrace(outcome: string, error?: unknown): void {
    try {
      this.trace.end(outcome, error);
    } catch (defect) {
      // Thrown, it would reject the other callers of a write that is committed, or end the process from a timer.
      logger.error(`ending the span of a call failed: ${errorLabel(defect)}`);
    }
  }

  #dispose(): void {
    // Undefined while the constructor runs with an aborted signal. The constructor disposes again at its end.
    (this.#stopTimer as (() => void) | undefined)?.();
    (this.#off as (() => void) | undefined)?.();
  }
}

/** Runs a function in the async context of an earlier moment. */
export type RunInContext = <R>(fn: () => R) => R;

/** How one caller's part in a shared write is retried. */
export interface WriteCallSettings {
  readonly maxAttempts: number;
  readonly timeoutInMs: number;
  readonly tryTimeoutInMs: number;
  readonly retryDelayInMs: number;
  readonly maxRetryDelayInMs: number;
  readonly onUnknown: "throw" | "retry";
  /** The id that the caller gave to the operation. */
  readonly operationId?: string | undefined;
  readonly options: CallOptions;
  readonly trace?: Attempts | undefined;
  /** The URL of the target, without the query. */
  readonly url: string;
}

/** One caller of a write that may be combined with the writes of other callers. */
export class WriteCall<R, S extends WriteCallSettings = WriteCallSettings> extends PendingCall<R> {
  readonly settings: S;
  /** When it was enqueued, in logical time (see `UpdateQueue`). */
  enqueuedAt = 0;
  /** The async context of its caller. */
  inContext: RunInContext | undefined;
  attempts = 0;
  currentETag: string | undefined;
  /** Its change is part of a write in flight, whose outcome is not known yet. */
  inFlight = false;
  /** The outcome of its earlier write is unknown, and its caller asked for a retry. */
  mayHaveCommitted = false;
  hadConflict = false;
  /** With how many calls it may be committed, itself included: the service rejected a write of more. */
  maxTogether: number = Infinity;
  /** The library's id of the operation: identifies the last write that was sent with its change, or the first of unknown outcome. */
  writeToken = "";
  /** How long its function took when it was detached for being too slow. */
  tookInMs = 0;
  /** How many attempts ended because its function was too slow for the others, and met no conflict. */
  #detached = 0;
  /** How many attempts ended because the service rejected a write of several calls, perhaps for the change of another one. */
  #separated = 0;
  readonly #started = performance.now();

  constructor(settings: S) {
    const { timeoutInMs, options, trace } = settings;
    super({ timeoutInMs, abortSignal: options.abortSignal, tracingOptions: options.tracingOptions, trace });
    this.settings = settings;
  }

  /**
   * The id under which its write is stored in the journal. That of a write of unknown outcome is stored with the next one: otherwise its
   * caller could be told that it was not committed, although a later attempt was.
   */
  get operationId(): string | undefined {
    return this.settings.operationId ?? (this.mayHaveCommitted ? this.writeToken : undefined);
  }

  /** Whether it has no attempt left. Those in which its function was too slow for others do not count, nor those that another call may have spoiled. */
  get isExhausted(): boolean {
    return this.attempts - this.#detached - this.#separated >= this.settings.maxAttempts;
  }

  /** The service rejected a write of several calls: next time with fewer. */
  separate(maxTogether: number): void {
    this.maxTogether = maxTogether;
    this.#separated++;
  }

  /** Its function was too slow for the others, and has ended: it runs again. Not forever: the time of a call may be unlimited. */
  endDetached(): void {
    if (++this.#detached > maxDetached) this.rejectConflict(undefined);
  }

  /** If an earlier write of unknown outcome may be stored, no later error can say that nothing was written. */
  override reject(error: unknown): void {
    if (this.mayHaveCommitted) this.rejectUnknown(error);
    else super.reject(error);
  }

  /** The write that carried its change may or may not have been committed. */
  rejectUnknown(cause: unknown): void {
    super.reject(
      createError(
        CommitUnknownError,
        `The outcome of a write to ${this.settings.url} is unknown: the request was sent, and it could not be determined whether it was committed. Repeat the call with the operationId of this error, or pass onUnknown: "retry" if the update is idempotent.`,
        { url: this.settings.url, attempts: this.attempts, operationId: this.settings.operationId ?? this.writeToken, cause },
      ),
    );
  }

  rejectConflict(cause: unknown): void {
    if (this.mayHaveCommitted) this.rejectUnknown(cause);
    this.reject(
      createError(
        ConflictError,
        `Update of ${this.settings.url} failed after ${this.attempts} attempts: other writers kept changing it. Nothing was written.`,
        { url: this.settings.url, attempts: this.attempts, elapsedInMs: this.#elapsedInMs(), currentETag: this.currentETag, cause },
      ),
    );
  }

  protected override onTimeout(): void {
    const cause = createError(OperationTimeoutError, 
      `Update of ${this.settings.url} timed out after ${this.settings.timeoutInMs} ms (timeoutInMs). Nothing was written.`,
      { url: this.settings.url, elapsedInMs: this.#elapsedInMs() },
    );
    if (this.inFlight || this.mayHaveCommitted) this.rejectUnknown(cause);
    else if (this.hadConflict) this.rejectConflict(cause);
    else this.reject(cause);
  }

  remainingInMs(): number {
    return this.settings.timeoutInMs - this.#elapsedInMs();
  }

  #elapsedInMs(): number {
    return performance.now() - this.#started;
  }
}

/** How often a function runs again because it was too slow for other callers: each time they wait longer for it. */
const maxDetached = 50;

/** A caller never waits longer than this for the function of another caller. */
const maxWaitInMs = 5_000;

/** How waiting for a caller's function ended. */
export type WaitResult<R> =
  | { readonly kind: "done"; readonly result: R }
  /** It was too slow for the other callers. `done` resolves when it has ended. */
  | { readonly kind: "detached"; readonly done: Promise<unknown> }
  /** Its caller has left. */
  | { readonly kind: "abandoned" };

/**
 * Waits for a caller's async function until the caller leaves, or other callers have waited too long for it: a function that
 * hangs must not block other calls that use the same target. A function that was too slow gets the time that it took on its
 * next run, within limits, so that it succeeds eventually.
 */
export async function waitOrDetach<R>(
  promise: PromiseLike<R>,
  call: Pick<WriteCall<unknown>, "isSettled" | "tookInMs" | "onSettled">,
  hasOtherWaiters: () => boolean,
  timeoutInMs: number,
): Promise<WaitResult<R>> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const ended = Promise.resolve(promise).then((result) => ({ kind: "done" as const, result }));
  const notify = call.onSettled;
  const interrupted = new Promise<"detached" | "abandoned">((resolve) => {
    const check = (): void => {
      if (hasOtherWaiters()) resolve("detached");
      else timer = setTimeout(check, timeoutInMs);
    };
    timer = setTimeout(check, Math.max(timeoutInMs, Math.min(maxWaitInMs, call.tookInMs * 1.5)));
    call.onSettled = () => {
      resolve("abandoned");
      notify?.();
    };
    // The function may have cancelled its own call before it returned. That call is not notified a second time.
    if (call.isSettled()) resolve("abandoned");
  });
  const first = await Promise.race([ended, interrupted]).finally(() => {
    clearTimeout(timer);
    call.onSettled = notify;
  });
  if (typeof first === "object") return first;
  const done = ended.catch(() => undefined);
  return first === "detached" ? { kind: "detached", done } : { kind: "abandoned" };
}

export function isThenable<R>(value: R | PromiseLike<R>): value is PromiseLike<R> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/**
 * What is handed to a function of the application, or returned by one: if it is a promise that no caller awaits, its rejection must not
 * end the process. A caller that does await it still gets the rejection.
 */
export function observed<V>(value: V): V {
  if (isThenable(value)) Promise.resolve(value).catch(() => undefined);
  return value;
}
