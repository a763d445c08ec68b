import type { BlockBlobLike } from "../clients/blob.js";
import { abortReason, onAbort } from "../core/deadline.js";
import type { AnyInput, Target } from "../target/target.js";
import { checkTargetSettings, resolveTarget } from "../update/options.js";
import { checkWatchOptions, TargetPoller } from "./poller.js";
import type { WatchState, WatchOptions } from "./poller.js";

/** The result of {@link watch}: for one `for await` loop. */
export interface Watch<T> extends AsyncIterableIterator<WatchState<T>>, AsyncDisposable {
  /**
   * Resolves with the next state; waits until a poll finds one. `done` after `return()`, and after an error.
   * @throws {@link WatchFailedError} if polls fail for longer than `maxFailureTimeInMs`.
   * @throws {@link SchemaError} if the first version does not match the schema; later ones are skipped.
   * @throws {@link LeaseUnavailableError} if `conditions.leaseId` is not the id of an active lease.
   * @throws `RestError` if the service rejects the request itself (400).
   */
  next(): Promise<IteratorResult<WatchState<T>, undefined>>;
  /**
   * Ends the watch immediately, including a pending `next()`. When it resolves, no request is in flight.
   * @throws nothing: it always resolves.
   */
  return(): Promise<IteratorReturnResult<undefined>>;
  /** The watch itself. */
  [Symbol.asyncIterator](): Watch<T>;
}

/**
 * The states of a target: first the current one, then each different one that a poll finds. A target that does not exist is a
 * state, too: `{ exists: false, value: undefined }`. A write that does not change the value is not a new state.
 *
 * Nothing runs in the background: the target is polled while the consumer waits for the next state, and not more often than
 * `pollIntervalInMs`. So a slow consumer gets the newest state and never a backlog (states in between are skipped), and a watch
 * that is dropped without `return()` leaves no timer or listener.
 *
 * Watches of the same target in one process share their polls, if their client, schema and request options are the same. Each has
 * its own state and its own errors.
 *
 * Polls that fail (no response, 5xx, 401 or 403, a container that is deleted or does not exist, a file that an SMB client has open)
 * are repeated with increasing delays for up to `maxFailureTimeInMs`, and reported to `onError`; a malformed request and a lease
 * id that is not active end the watch. A version that cannot be used (`SchemaError`) ends the watch
 * if it is the first, and is skipped otherwise: the consumer keeps the last state.
 *
 * Costs 1 request per poll; the service responds without content while nothing has changed (304). For the content of a file,
 * its properties are read first (2 requests if it has changed). Table entities, tags and access policies have no conditional
 * read, and are read completely each time.
 *
 * @example
 * ```ts
 * for await (const { value } of watch<Settings>(blob, { abortSignal })) apply(value ?? defaults);
 * ```
 * @throws `TypeError` or `RangeError` if an argument is wrong. The errors of the loop are those of {@link Watch.next}.
 */
export function watch<T = unknown>(target: Target<T, AnyInput> | BlockBlobLike, options: WatchOptions = {}): Watch<T> {
  const settings = checkWatchOptions(options);
  const targetSettings = checkTargetSettings(options);
  const poller = new TargetPoller<T>(resolveTarget(target, targetSettings), targetSettings, settings, options);
  return new PollingWatch(poller, options);
}

/** The abort reason of a pending `next()` when its consumer ends the watch. */
const finished = Symbol("finished");

class PollingWatch<T> implements Watch<T> {
  readonly #poller: TargetPoller<T>;
  readonly #options: WatchOptions;
  readonly #stop = new AbortController();
  /** Calls of `next` run one after the other, so that each gets a different state. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(poller: TargetPoller<T>, options: WatchOptions) {
    this.#poller = poller;
    this.#options = options;
  }

  next(): Promise<IteratorResult<WatchState<T>, undefined>> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => undefined);
    return next;
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#stop.abort(finished);
    // Waits for the end of the aborted request: when this resolves, nothing is in flight.
    await this.#last;
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #next(): Promise<IteratorResult<WatchState<T>, undefined>> {
    if (this.#stop.signal.aborted) return { done: true, value: undefined };
    const { signal } = this.#stop;
    const { abortSignal } = this.#options;
    // Only while a consumer waits: between two calls there is nothing to abort.
    const off = onAbort(abortSignal, () => abortSignal && this.#stop.abort(abortReason(abortSignal)));
    try {
      return { done: false, value: await this.#nextState(signal) };
    } catch (error) {
      const reason: unknown = signal.aborted ? signal.reason : error;
      this.#stop.abort(finished);
      if (reason === finished) return { done: true, value: undefined };
      throw reason;
    } finally {
      off();
    }
  }

  async #nextState(signal: AbortSignal): Promise<WatchState<T>> {
    for (;;) {
      const state = await this.#poller.poll(signal);
      signal.throwIfAborted();
      if (state) return state;
    }
  }
}
