import type { AbortSignalLike } from "../clients/call.js";
import { Deadline, throwIfAborted } from "./deadline.js";
import { countSends, SecondaryReadError } from "./request.js";

/**
 * Iterates until the signal aborts, and then rejects with its reason, even if the client ignores its own signal.
 *
 * `primaryOnly`: rejects when the SDK sends a request of the listing again, as that may go to the secondary, which may lag behind.
 */
export async function* iterate<T>(
  open: (abortSignal: AbortSignal) => AsyncIterable<T>,
  abortSignal: AbortSignalLike | undefined,
  primaryOnly = false,
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
      const next = await deadline.race(items.next());
      ended = next.done ?? false;
      if (next.done) return undefined;
      hasItems = true;
      yield next.value;
      throwIfAborted(abortSignal);
    }
  } finally {
    deadline.dispose();
    counter.stop();
    // Not awaited: after an abort, a request that ignores its signal may still be in flight.
    if (!ended) items.return?.().catch(() => undefined);
  }
}
