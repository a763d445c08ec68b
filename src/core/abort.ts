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
  const hub = hubs.get(signal) ?? openHub(signal);
  const entry = { listener };
  hub.entries.add(entry);
  return () => {
    if (hub.entries.delete(entry) && hub.entries.size === 0) hub.close();
  };
}

/** One listener on a signal for all who wait for it: Node warns of a leak where there are more than ten. */
interface Hub {
  readonly entries: Set<{ readonly listener: () => void }>;
  close(): void;
}

const hubs = new WeakMap<AbortSignalLike, Hub>();

function openHub(signal: AbortSignalLike): Hub {
  const hub: Hub = {
    entries: new Set(),
    close: () => {
      if (hubs.get(signal) !== hub) return;
      hubs.delete(signal);
      signal.removeEventListener("abort", onSignal);
    },
  };
  const onSignal = (): void => {
    hub.close();
    // One that is taken off by another's listener is not called any more, as on the signal itself.
    for (const entry of hub.entries) {
      hub.entries.delete(entry);
      entry.listener();
    }
  };
  signal.addEventListener("abort", onSignal);
  hubs.set(signal, hub);
  return hub;
}

function noop(): void {
  // nothing to take off
}
