import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { Deadline, onAbort, throwIfAborted } from "../core/deadline.js";
import { createError, CommitUnknownError, isConcurrencyError, LeaseLostError } from "../errors.js";
import type { LockHandleLike } from "../lease/lease-handle.js";

/** What a call of a locked table needs of the lock. */
export type HeldLock = Pick<LockHandleLike, "signal" | "assertHeld">;

/** One call of a locked table, tied to the lock: its signal aborts when the caller aborts, and when the lock is lost or released. */
export class HeldCall {
  readonly #lock: HeldLock;
  readonly #url: string;
  readonly #deadline: Deadline;
  readonly #off: () => void;
  /** The operation whose write is in flight. */
  #operationId: string | undefined;

  /**
   * @param url - What the call is about, for errors.
   * @throws {@link LeaseLostError} if the lock is not held: nothing was sent.
   */
  constructor(lock: HeldLock, url: string, abortSignal: AbortSignalLike | undefined) {
    throwIfAborted(abortSignal);
    requireHeld(lock, url);
    this.#lock = lock;
    this.#url = url;
    this.#deadline = new Deadline(Infinity, () => undefined, abortSignal);
    this.#off = onAbort(lock.signal, () => this.#deadline.abort(this.#endedError()));
  }

  get signal(): AbortSignal {
    return this.#deadline.signal;
  }

  /** Reads the clock: after a pause of the process, the timers that abort the signal may not have run yet. */
  requireHeld(): void {
    requireHeld(this.#lock, this.#url);
  }

  /** A write is about to be sent. From now on it may be committed, whatever happens to the call. */
  beginWrite(operationId: string): void {
    this.requireHeld();
    this.#operationId = operationId;
  }

  /** The outcome of the write is known. */
  endWrite(): void {
    this.#operationId = undefined;
  }

  /** Ends when `run` does, or at once when the signal aborts, even if the client ignores it. */
  async race<R>(run: Promise<R>): Promise<R> {
    try {
      return await this.#deadline.race(run);
    } catch (error) {
      if (this.signal.aborted) throw this.signal.reason;
      throw error;
    } finally {
      this.end();
    }
  }

  /** Removes the listeners. */
  end(): void {
    this.#off();
    this.#deadline.dispose();
  }

  #endedError(): Error {
    return lockEnded(this.#lock, this.#url, this.#operationId);
  }
}

/** Runs one call of a locked table. It ends as soon as the lock is lost or released, with an error that says whether it may have written. */
export async function whileHeld<R>(lock: HeldLock, url: string, { abortSignal }: CallOptions, run: (call: HeldCall) => Promise<R>): Promise<R> {
  const call = new HeldCall(lock, url, abortSignal);
  return call.race(run(call));
}

/** @throws {@link LeaseLostError} if the lock is not held at this moment. */
export function requireHeld(lock: HeldLock, url: string): void {
  const ended = endOf(lock);
  if (ended) throw notSent(ended, url);
}

/** The error of a call during which the lock was lost or released. `operationId`: its write is in flight. */
export function lockEnded(lock: HeldLock, url: string, operationId: string | undefined): Error {
  const cause = endOf(lock) ?? (lock.signal.reason as unknown);
  if (operationId === undefined) return notSent(cause, url);
  return createError(
    CommitUnknownError,
    `The outcome of a write to ${url} is unknown: the request was sent, and the lock was lost or released before the response arrived. Read the entities to decide, under the lock.`,
    { url, attempts: 1, operationId, cause },
  );
}

function notSent(cause: unknown, url: string): LeaseLostError {
  const reason = isConcurrencyError(cause, "LEASE_LOST") ? cause.reason : "expired";
  const why = (cause as Error).message.replace(/\.$/, "");
  return createError(LeaseLostError, `The call on ${url} wrote nothing: the lock is not held any more (${why}).`, { url, reason, committed: false, cause });
}

/** Why the lock is not held; undefined if it is. */
function endOf(lock: HeldLock): unknown {
  try {
    lock.assertHeld();
    return undefined;
  } catch (error) {
    return error;
  }
}
