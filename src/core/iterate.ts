import type { AbortSignalLike } from "../clients/call.js";
import { Deadline, RequestTimeoutError, startTimer, throwIfAborted } from "./deadline.js";
import { countSends, SecondaryReadError } from "./request.js";

export interface IterateOptions {
  readonly abortSignal?: AbortSignalLike | undefined;
  /** Rejects when the SDK sends a request of the listing again, as that may go to the secondary, which may lag behind. */
  readonly primaryOnly?: boolean | undefined;
  /** How long one item may take, which may need a request. */
  readonly timeoutInMs?: number | undefined;
}

/** Iterates until the signal aborts, and then rejects with its reason, even if the client ignores its own signal. */
export async function* iterate<T>(
  open: (abortSignal: AbortSignal) => AsyncIterable<T>,
  { abortSignal, primaryOnly = false, timeoutInMs = Infinity }: IterateOptions,
): AsyncGenerator<T, undefined, undefined> {
  throwIfAborted(abortSignal);
  const deadline = new Deadline(Infinity, () => undefined, abortSignal);
  // Items between two requests: the second one is for the next page.
  let hasItems = false;
  const counter = countSends(deadline.signal, () => {
    if (primaryOnly && !hasItems) deadline.abort(new SecondaryReadError("The listing may be from the secondary, which may be outdated."));
    hasItems = false;
  });
  const items = open(deadline.signal)[Symbol.asyncIterator]();
  const wait = new ItemWait(timeoutInMs, () => deadline.abort(new RequestTimeoutError(timeoutInMs)));
  let ended = false;
  try {
    for (;;) {
      wait.begin();
      const next = await deadline.race(items.next());
      wait.end();
      ended = next.done ?? false;
      if (next.done) return undefined;
      hasItems = true;
      yield next.value;
      throwIfAborted(abortSignal);
    }
  } finally {
    // Ends a request that got no response in time.
    if (!ended) deadline.abort(new DOMException("The iteration has ended.", "AbortError"));
    deadline.dispose();
    wait.stop();
    counter.stop();
    // Not awaited: after an abort, a request that ignores its signal may still be in flight.
    if (!ended) items.return?.().catch(() => undefined);
  }
}

/**
 * The time limit of each wait for an item. Most items are there at once, thousands of one response: a timer, or even a signal, for each of
 * them would cost more than all the rest. So the timer of an earlier wait stays, and when it fires, what is left of the current wait decides.
 */
class ItemWait {
  readonly #timeoutInMs: number;
  readonly #onTimeout: () => void;
  #since: number | undefined;
  #stopTimer: (() => void) | undefined;

  constructor(timeoutInMs: number, onTimeout: () => void) {
    this.#timeoutInMs = timeoutInMs;
    this.#onTimeout = onTimeout;
  }

  begin(): void {
    this.#since = performance.now();
    if (!this.#stopTimer) this.#startTimer(this.#timeoutInMs);
  }

  /** The consumer has the item, and may keep it for as long as it likes. */
  end(): void {
    this.#since = undefined;
  }

  stop(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  #startTimer(ms: number): void {
    this.#stopTimer = startTimer(ms, () => {
      this.#stopTimer = undefined;
      if (this.#since === undefined) return;
      const leftInMs = this.#since + this.#timeoutInMs - performance.now();
      if (leftInMs > 0) this.#startTimer(leftInMs);
      else this.#onTimeout();
    });
  }
}
