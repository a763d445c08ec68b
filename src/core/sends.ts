/** A signal to hand to one SDK call, which tells afterwards how often the SDK sent the request. */
export interface CountedSignal {
  readonly signal: AbortSignal;
  /** 1 means: sent once, so an answer to it speaks of that one request. Anything else means: cannot tell. */
  readonly sends: () => number;
  readonly abort: (reason?: unknown) => void;
}

/**
 * The SDKs re-send writes by themselves, and tell nobody. But the HTTP client adds one `abort` listener for each
 * send (and the retry policies one for each wait), so a signal that counts its listeners knows one send from more.
 * This is public behaviour of `AbortSignal`, and errs on the safe side: a client that adds other listeners, or
 * none, is only taken to be uncertain.
 */
export function countSends(): CountedSignal {
  const controller = new AbortController();
  const { signal } = controller;
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>): void => {
    if (args[0] === "abort") listeners++;
    add(...args);
  };
  return { signal, sends: () => listeners, abort: (reason) => controller.abort(reason) };
}

/**
 * Whether the refusal of a write that was sent once may be meant for a copy of it all the same. A browser sends a
 * request again by itself if a connection that it kept breaks before the answer (Chromium does so with a PUT, too),
 * and neither the SDK nor the page hears of it: the first copy is carried out, and the second one finds the target changed.
 */
export function mayBeForACopy(): boolean {
  return "document" in globalThis || "WorkerGlobalScope" in globalThis;
}
