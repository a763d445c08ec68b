import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike } from "../clients/call.js";
import { clockDriven, Deadline, linkSignals, onAbort, RequestTimeoutError, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { RenewalLoop } from "../core/renewal.js";
import type { Renewal } from "../core/renewal.js";
import { fullJitter, retry } from "../core/retry.js";
import { isDefinitive, isUnauthorized } from "../core/storage-errors.js";
import { createError, isConcurrencyError, LeaseLostError } from "../errors.js";
import { renewHalfway } from "../queue/message-lease.js";
import type { NewRecord, RecordPlace } from "./once-record.js";
import type { FoundRecord, RecordStore } from "./record-store.js";
import type { StoredOutcome } from "./stored-result.js";

/** A claim as its owner has written it. */
export interface Claim {
  readonly place: RecordPlace;
  readonly record: NewRecord;
  readonly etag: string;
  /** Started before the write was sent. */
  readonly clock: Clock;
}

const tryTimeoutInMs = 8_000;

/** A key while its function runs. Its claim is renewed, so that no other call runs the function at the same time. */
export class HeldKey {
  /** Aborts when the claim is lost, and when the caller aborts. */
  readonly signal: AbortSignal;
  readonly #store: RecordStore;
  readonly #claim: Claim;
  readonly #tracingOptions: OperationTracingOptions | undefined;
  readonly #lost: AbortController;
  readonly #ended = new AbortController();
  readonly #loop: RenewalLoop;
  readonly #unlink: () => void;
  #etag: string;
  /** The outcome is stored. A renewal that was sent after that, on its ETag, would undo it. */
  #settled = false;
  /** Writes of the record are sent one after the other: each needs the ETag of the one before it. */
  #lastWrite: Promise<unknown> = Promise.resolve();

  constructor(store: RecordStore, claim: Claim, { abortSignal, tracingOptions }: { readonly abortSignal: AbortSignalLike | undefined; readonly tracingOptions: OperationTracingOptions | undefined }) {
    this.#store = store;
    this.#claim = claim;
    this.#etag = claim.etag;
    this.#tracingOptions = tracingOptions;
    const { controller, unlink } = linkSignals(abortSignal);
    this.#lost = new AbortController();
    const off = onAbort(this.#lost.signal, () => controller.abort(this.#lost.signal.reason));
    this.#unlink = () => {
      off();
      unlink();
    };
    this.#loop = new RenewalLoop(
      { renew: (timeoutInMs) => this.#renew(timeoutInMs), onLost: (error, expired) => this.#lost.abort(this.#lostError(expired, error)) },
      claim.clock,
      claim.record.claimDurationInMs,
      renewHalfway,
    );
    this.signal = clockDriven(controller.signal, () => this.isHeld());
  }

  /** Aborts when the claim is lost, and not when the caller aborts: what the function returned is stored then, too. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  get attempt(): number {
    return this.#claim.record.attempt;
  }

  /** By the clock. A loss that is noticed here aborts the signal at once. */
  isHeld(): boolean {
    return this.#loop.isHeld();
  }

  readonly assertHeld = (): void => {
    if (!this.isHeld()) throw this.lostError;
  };

  /** Why the claim is lost. */
  get lostError(): LeaseLostError {
    const { reason } = this.#lost.signal as { readonly reason?: unknown };
    return isConcurrencyError(reason, "LEASE_LOST") ? reason : this.#lostError(true, undefined);
  }

  /** For an error that the caller wants stored, after the claim is lost: the error itself reads as if each repetition got it. */
  notStoredError(error: unknown): LeaseLostError {
    if (isConcurrencyError(error, "LEASE_LOST")) return error;
    const { url } = this.#store;
    const message = `The function of a key of Once in ${url} has failed (see cause), and its error is not stored: the claim was lost meanwhile. The function may run again.`;
    return createError(LeaseLostError, message, { url, reason: this.lostError.reason, cause: error });
  }

  /**
   * Stores the outcome. Repeated as long as the claim is held: work that is done must not be repeated because the table cannot be reached,
   * or because the credentials have expired while the function ran.
   * @throws {@link LeaseLostError} if another call has taken over, or may, as the table has rejected the outcome.
   * @throws {@link CommitUnknownError} if the claim expires before the outcome of the write is known.
   */
  async settle(outcome: StoredOutcome): Promise<void> {
    const record: NewRecord = { ...this.#claim.record, state: outcome.kind === "error" ? "failed" : "succeeded", outcome };
    const mayPass = (error: unknown): boolean => isConcurrencyError(error, "COMMIT_UNKNOWN") || !isDefinitive(error) || isUnauthorized(error);
    try {
      const result = await retry(() => this.#write(record, Infinity), {
        maxAttempts: Infinity,
        shouldRetry: (error) => this.isHeld() && mayPass(error),
        backoff: (attempt) => fullJitter(attempt - 1, 50, 2_000),
      });
      if (result === "lost") throw this.#lostError(false, undefined);
    } catch (error) {
      // An error of the service alone reads as if nothing had happened: the function has run.
      throw isConcurrencyError(error) ? error : this.#rejectedError(error);
    }
  }

  /** The next call may run the function at once. Best effort: the claim expires otherwise. */
  async release(): Promise<void> {
    this.#loop.stop();
    await this.#serialize(() => this.#store.delete(this.#claim.place, this.#etag, { tracingOptions: this.#tracingOptions })).catch(() => undefined);
  }

  /** Removes timers and listeners, and cuts off a renewal in flight. */
  end(): void {
    this.#loop.stop();
    this.#unlink();
    this.#ended.abort();
  }

  async #renew(timeoutInMs: number): Promise<Renewal> {
    const clock = startStopwatch();
    const { claimDurationInMs } = this.#claim.record;
    const result = await this.#write(this.#claim.record, timeoutInMs);
    if (result === "lost") return { kind: "lost", error: undefined };
    return { kind: "renewed", clock, claimDurationInMs };
  }

  /** Ends with the claim: a write that is sent again after that would extend it, although no call holds it. */
  #write(record: NewRecord, timeoutInMs: number): Promise<"written" | "lost"> {
    return this.#serialize(async () => {
      if (this.#settled) return "written";
      const deadline = new Deadline(timeoutInMs, () => new RequestTimeoutError(timeoutInMs), this.#ended.signal, this.#lost.signal);
      // A try without a response must leave time for the next one, before the claim expires.
      const tryInMs = Math.min(tryTimeoutInMs, this.#claim.record.claimDurationInMs / 4, timeoutInMs / 3);
      const call = { abortSignal: deadline.signal, tracingOptions: this.#tracingOptions, tryTimeoutInMs: Math.max(1, tryInMs) };
      try {
        let written = await this.#store.write(this.#claim.place, this.#etag, record, call);
        if (written.kind === "conflict" && this.#isOwn(written.found)) {
          // A write whose outcome was not known has been committed: a renewal, which is the base of this write, or the outcome.
          if (written.found.record?.outcome) return this.#wrote(record, "settled");
          written = await this.#store.write(this.#claim.place, written.found.record?.etag, record, call);
        }
        if (written.kind === "conflict") return "lost";
        this.#etag = written.etag;
        return this.#wrote(record);
      } finally {
        deadline.dispose();
      }
    });
  }

  #wrote(record: NewRecord, found?: "settled"): "written" {
    if (record.outcome || found) this.#settled = true;
    return "written";
  }

  #isOwn({ record }: FoundRecord): boolean {
    return record?.owner === this.#claim.record.owner;
  }

  #serialize<R>(run: () => Promise<R>): Promise<R> {
    const result = this.#lastWrite.then(run);
    this.#lastWrite = result.catch(() => undefined);
    return result;
  }

  #rejectedError(cause: unknown): LeaseLostError {
    const { url } = this.#store;
    const message = `The function of a key of Once in ${url} has ended, and its outcome is not stored: the table has rejected it (see cause). The function may run again, when the claim has expired.`;
    return createError(LeaseLostError, message, { url, reason: "unreachable", cause });
  }

  #lostError(expired: boolean, cause: unknown): LeaseLostError {
    const { url } = this.#store;
    const why = expired ? "it could not be renewed in time" : "another call has taken it over, or its record was deleted";
    return createError(LeaseLostError, `The claim of a key of Once in ${url} is lost: ${why}. The function may run again. Stop working.`, {
      url,
      reason: expired ? (cause === undefined ? "expired" : "unreachable") : "stolen",
      ...(cause !== undefined && { cause }),
    });
  }
}
