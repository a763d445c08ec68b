import type { AbortSignalLike } from "../clients/call.js";
import { Deadline, throwIfAborted } from "./deadline.js";

/** Iterates until the signal aborts, and then rejects with its reason, even if the client ignores its own signal. */
export async function* iterate<T>(
  open: (abortSignal: AbortSignal) => AsyncIterable<T>,
  abortSignal: AbortSignalLike | undefined,
): AsyncGenerator<T, undefined, undefined> {
  throwIfAborted(abortSignal);
  const deadline = new Deadline(Infinity, () => undefined, abortSignal);
  const items = open(deadline.signal)[Symbol.asyncIterator]();
  let ended = false;
  try {
    for (;;) {
      const next = await deadline.race(items.next());
      ended = next.done ?? false;
      if (next.done) return undefined;
      yield next.value;
      throwIfAborted(abortSignal);
    }
  } finally {
    deadline.dispose();
    // Not awaited: after an abort, a request that ignores its signal may still be in flight.
    if (!ended) items.return?.().catch(() => undefined);
  }
}
