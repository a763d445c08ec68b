import type { AbortSignalLike } from "../clients.js";

/** What a cancelled call rejects with: the caller's own reason, or an `AbortError` as the web platform makes it. */
export function abortReason(signal: AbortSignalLike): unknown {
  return signal.reason ?? new DOMException("The operation was aborted.", "AbortError");
}

export function throwIfAborted(signal: AbortSignalLike | undefined): void {
  if (signal?.aborted) throw abortReason(signal);
}

/** Calls `listener` once when `signal` aborts (at once if it has). Returns what takes the listener off again. */
export function onAbort(signal: AbortSignalLike | undefined, listener: () => void): () => void {
  if (!signal) return noop;
  if (signal.aborted) {
    listener();
    return noop;
  }
  signal.addEventListener("abort", listener);
  return () => signal.removeEventListener("abort", listener);
}

function noop(): void {
  // nothing to take off
}
