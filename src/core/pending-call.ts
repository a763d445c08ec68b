import type { CallOptions } from "../clients.js";
import { CommitUnknownError, ConflictError, DeadlineError } from "../errors.js";
import { abortReason, onAbort } from "./abort.js";
import { Attempts } from "./telemetry.js";

/** What a call that is carried out together with others needs to know of its caller. */
export interface PendingCallSettings {
  readonly maxAttempts: number;
  readonly timeoutInMs: number;
  readonly retryDelayInMs: number;
  readonly maxRetryDelayInMs: number;
  readonly onUnknown: "throw" | "retry";
  readonly options: CallOptions;
  /** What is told of its attempts. */
  readonly trace?: Attempts | undefined;
  /** What messages call the target. */
  readonly label: string;
}

/** One caller: its promise, its deadline and its cancellation. Settles once, and then lets go of all. */
export class PendingCall<R, S extends PendingCallSettings = PendingCallSettings> {
  readonly promise: Promise<R>;
  readonly settings: S;
  readonly trace: Attempts;
  /** When it joined, on the clock that counts joins and requests (see group commit). */
  arrived = 0;
  attempts = 0;
  lastETag: string | undefined;
  /** Its change is part of a write that has not been answered. */
  inFlight = false;
  /** An earlier write of it is of unknown fate, and it was told to try again. */
  mayHaveLanded = false;
  lostRaces = 0;
  /** Has to be written alone, because the service refused a write in which it was combined with others. */
  solo = false;
  /** How long its function took when it was too slow for the others. */
  tookInMs = 0;
  settled = false;
  /** Tells the group that this call needs no more work. */
  onSettled: (() => void) | undefined;

  readonly #started = performance.now();
  #resolve!: (result: R) => void;
  #reject!: (error: unknown) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #off: () => void;

  constructor(settings: S) {
    this.settings = settings;
    this.trace = settings.trace ?? new Attempts("", settings.options.tracingOptions, undefined);
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Longer than a timer can be set for counts as without end.
    if (settings.timeoutInMs < 2 ** 31) this.#timer = setTimeout(() => this.#expire(), settings.timeoutInMs);
    const { abortSignal } = settings.options;
    this.#off = onAbort(abortSignal, () => abortSignal && this.reject(abortReason(abortSignal)));
    if (this.settled) this.#letGo();
  }

  resolve(result: R): void {
    if (!this.#settle()) return;
    this.trace.end((result as { outcome?: string }).outcome ?? "done");
    this.#resolve(result);
  }

  reject(error: unknown): void {
    if (!this.#settle()) return;
    this.trace.end("failed", error);
    this.#reject(error);
  }

  /** The write that carried its change may or may not have landed. */
  rejectUnknown(cause: unknown): void {
    this.reject(
      new CommitUnknownError(
        `a write to ${this.settings.label} was sent, but whether it landed cannot be known: read it and decide, or pass onUnknown: "retry" if doing it twice does no harm`,
        { attempts: this.attempts, cause },
      ),
    );
  }

  rejectConflict(cause: unknown): void {
    if (this.mayHaveLanded) this.rejectUnknown(cause);
    this.reject(
      new ConflictError(
        `gave up on ${this.settings.label} after ${this.attempts} attempts: others kept writing in between. Nothing was written.`,
        { attempts: this.attempts, elapsedInMs: this.#elapsed(), lastETag: this.lastETag, cause },
      ),
    );
  }

  #expire(): void {
    const cause = new DeadlineError(
      `${this.settings.label}: no result within ${this.settings.timeoutInMs} ms (timeoutInMs). Nothing was written.`,
      { elapsedInMs: this.#elapsed() },
    );
    if (this.inFlight || this.mayHaveLanded) this.rejectUnknown(cause);
    else if (this.lostRaces > 0) this.rejectConflict(cause);
    else this.reject(cause);
  }

  #elapsed(): number {
    return performance.now() - this.#started;
  }

  #settle(): boolean {
    if (this.settled) return false;
    this.settled = true;
    this.#letGo();
    this.onSettled?.();
    return true;
  }

  #letGo(): void {
    clearTimeout(this.#timer);
    // Undefined while the constructor runs on an aborted signal; it lets go itself then.
    (this.#off as (() => void) | undefined)?.();
  }
}
