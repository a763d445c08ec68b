import type { BlockBlobLike } from "../clients/blob.js";
import { abortReason, onAbort } from "../core/deadline.js";
import { delay } from "../core/deadline.js";
import type { GuardedTarget, UpdateTarget } from "../target/target.js";
import { checkTargetSettings, checkTimeout, resolveTarget } from "../update/options.js";
import { checkWatchOptions, TargetPoller } from "./poller.js";
import type { WatchedState, WatchOptions } from "./poller.js";

/** What {@link watch} returns: for one `for await`. */
export interface Watch<T> extends AsyncIterableIterator<WatchedState<T>>, AsyncDisposable {
  next(): Promise<IteratorResult<WatchedState<T>, undefined>>;
  /** Ends it at once, also a `next()` that is waiting. */
  return(): Promise<IteratorReturnResult<undefined>>;
  [Symbol.asyncIterator](): Watch<T>;
}

/**
 * The states of a target: first the present one, then each other one that is seen. A target that does not exist is a
 * state too: `{ exists: false, value: undefined }`. A write that leaves the value as it was is none.
 *
 * Nothing goes on in the background: the service is asked while somebody waits for the next state, and not more
 * often than `intervalInMs` says. So a slow consumer gets the newest state and never a backlog (states in between
 * are not seen), and a watch that is dropped without a word leaves nothing behind.
 *
 * Looks that fail for reasons that pass (no answer, 5xx, a file that an SMB client has open) are made again, less and
 * less often, for up to `giveUpAfterInMs`; other errors end the watch. A version that cannot be used (`SchemaError`) ends it if it is the
 * first, and is passed over otherwise: the consumer goes on with what it has.
 *
 * Costs 1 request per look; the service answers it without content as long as nothing changed (304). The content of a
 * file is asked for by its properties first (2 requests when it has changed). Table entities, tags and access policies
 * have no such read, and are read whole each time.
 */
export function watch<T = unknown>(target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike, options: WatchOptions = {}): Watch<T> {
  const settings = checkWatchOptions(options);
  checkTimeout(options.timeoutInMs);
  const group = checkTargetSettings(options);
  const poller = new TargetPoller<T>(resolveTarget(target, group), group, settings, options);
  return new PollingWatch(poller, options);
}

/** Why a `next()` that waits is called off when its consumer has had enough. */
const finished = Symbol("finished");

class PollingWatch<T> implements Watch<T> {
  readonly #poller: TargetPoller<T>;
  readonly #options: WatchOptions;
  readonly #stop = new AbortController();
  /** Calls of `next` take turns: each waits for a state that the one before it has not had. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(poller: TargetPoller<T>, options: WatchOptions) {
    this.#poller = poller;
    this.#options = options;
  }

  next(): Promise<IteratorResult<WatchedState<T>, undefined>> {
    const turn = this.#turn.then(() => this.#next());
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#stop.abort(finished);
    // The request that it called off ends now; when this resolves, nothing is under way any more.
    await this.#turn;
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #next(): Promise<IteratorResult<WatchedState<T>, undefined>> {
    if (this.#stop.signal.aborted) return { done: true, value: undefined };
    const { signal } = this.#stop;
    const { abortSignal } = this.#options;
    // Listened to only while a consumer waits: between two calls there is nothing to call off.
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

  async #nextState(signal: AbortSignal): Promise<WatchedState<T>> {
    for (;;) {
      const waitInMs = this.#poller.waitInMs;
      if (waitInMs > 0) await delay(waitInMs, signal);
      signal.throwIfAborted();
      const state = await this.#poller.poll(signal);
      signal.throwIfAborted();
      if (state) return state;
    }
  }
}
