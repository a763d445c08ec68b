import type { AbortSignalLike } from "../clients/call.js";
import { Deadline, isAborted, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { read } from "../core/request.js";
import { jitter } from "../core/retry.js";
import type { BlobLocks } from "../lock/blob-locks.js";

type RelayLock = NonNullable<Awaited<ReturnType<BlobLocks["tryAcquireFor"]>>>;

/**
 * The lease of the relaying instance. Given explicitly: the defaults of the locks are for other work, and a lease without an end would keep a
 * relay that died in its place.
 */
const lease = Object.freeze({ durationInSeconds: 30, renewIntervalInMs: 10_000, safetyMarginInMs: 1_500, maxHoldInMs: Infinity, autoRenew: true });
/** How often an instance tries that does not relay. The more instances there are, the sooner one of them finds that the lease has ended. */
const tryIntervalInMs = 60_000;
/** How long an instance does not try that has let the others relay: each of them has tried by then. */
const yieldedInMs = 84_000;
const tryTimeoutInMs = 10_000;

/**
 * Which instance relays. Without locks: every one. With locks: the one that holds a lock, so that the others save their polls, and do not
 * compete for the same markers.
 *
 * The lock saves requests, and nothing relies on it: a marker is claimed by a conditional write in any case. If it cannot be acquired because
 * of an error, this instance relays as if there were no locks.
 */
export class RelayTurn {
  readonly #locks: BlobLocks | undefined;
  readonly #name: string;
  readonly #onError: (error: unknown) => void;
  #lock: RelayLock | undefined;
  /** When it tried last, whether that failed, and how long until it tries again. */
  #tried: { readonly clock: Clock; readonly hasFailed: boolean; readonly nextInMs: number } | undefined;

  constructor(locks: BlobLocks | undefined, name: string, onError: (error: unknown) => void) {
    this.#locks = locks;
    this.#name = name;
    this.#onError = onError;
  }

  /** Never rejects. */
  async isMine(abortSignal: AbortSignalLike): Promise<boolean> {
    if (!this.#locks || this.#lock?.isHeld()) return true;
    const tried = this.#tried;
    if (tried && tried.clock() < tried.nextInMs) return tried.hasFailed;
    let hasFailed = false;
    try {
      this.#lock = await this.#tryAcquire(this.#locks, abortSignal);
    } catch (error) {
      if (isAborted(abortSignal)) return false;
      hasFailed = true;
      this.#onError(error);
    }
    this.#tried = { clock: startStopwatch(), hasFailed, nextInMs: jitter(tryIntervalInMs, 0.2) };
    return hasFailed || this.#lock !== undefined;
  }

  /** Lets another instance relay: what this one cannot send, it may be able to. Never rejects. */
  async yield(hurry: AbortSignalLike): Promise<void> {
    if (!this.#lock) return;
    await this.end(hurry);
    this.#tried = { clock: startStopwatch(), hasFailed: false, nextInMs: jitter(yieldedInMs, 0.1) };
  }

  /**
   * Releases the lock: the next instance need not wait until the lease has expired. Never rejects.
   * @param hurry - Ends the wait for the response. The release goes on, and if it fails the lease expires.
   */
  async end(hurry: AbortSignalLike): Promise<void> {
    const lock = this.#lock;
    this.#lock = undefined;
    this.#tried = undefined;
    if (!lock) return;
    const limit = new Deadline(Infinity, () => undefined, hurry);
    await limit.race(lock[Symbol.asyncDispose]()).catch(() => undefined);
    limit.dispose();
  }

  /**
   * Not fair, whatever the locks of the user are: no instance waits for its turn, and tickets would cost twice the requests. A lock that is
   * acquired after the time limit is released in the background.
   */
  #tryAcquire(locks: BlobLocks, abortSignal: AbortSignalLike): Promise<RelayLock | undefined> {
    return read((signal) => locks.tryAcquireFor("Outbox", this.#name, { ...lease, abortSignal: signal }, "slot"), { abortSignal, timeoutInMs: tryTimeoutInMs });
  }
}
