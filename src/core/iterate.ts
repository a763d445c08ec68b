import type { AbortSignalLike } from "../clients/call.js";
import { Deadline, throwIfAborted } from "./deadline.js";
import { countSends, read, SecondaryReadError } from "./request.js";

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
  let ended = false;
  try {
    for (;;) {
      const next = await read(() => deadline.race(items.next()), { timeoutInMs });
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
    counter.stop();
    // Not awaited: after an abort, a request that ignores its signal may still be in flight.
    if (!ended) items.return?.().catch(() => undefined);
  }
}
