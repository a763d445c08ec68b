import type { AbortSignalLike } from "../clients/call.js";

/** What a cancelled call rejects with: the caller's reason, or an `AbortError` as the web platform creates it. */
export function abortReason(signal: AbortSignalLike): unknown {
  return signal.reason ?? new DOMException("The operation was aborted.", "AbortError");
}

export function throwIfAborted(signal: AbortSignalLike | undefined): void {
  if (signal?.aborted) throw abortReason(signal);
}

/** A function, not a property access: TypeScript keeps the narrowing of a property across an `await`. */
export function isAborted(signal: AbortSignalLike | undefined): boolean {
  return signal?.aborted ?? false;
}

/** Calls `listener` once when `signal` aborts (immediately if it already has). Returns a function that removes the listener. */
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

/** One listener on a signal for all its users: Node warns of a leak when a signal has more than ten. */
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
    // A listener that another listener removes is not called, as on the signal itself.
    for (const entry of hub.entries) {
      hub.entries.delete(entry);
      entry.listener();
    }
  };
  signal.addEventListener("abort", onSignal);
  hubs.set(signal, hub);
  return hub;
}

/** A controller that also aborts, with the same reason, as soon as one of `signals` does. `unlink` removes the listeners. */
export function linkSignals(...signals: readonly (AbortSignalLike | undefined)[]): { readonly controller: AbortController; readonly unlink: () => void } {
  const controller = new AbortController();
  const offs = signals.map((signal) => onAbort(signal, () => signal && controller.abort(abortReason(signal))));
  return {
    controller,
    unlink: () => {
      for (const off of offs) off();
    },
  };
}

/**
 * The same signal, whose `aborted` and `throwIfAborted` call `check` first, which may abort it: after the process or its event loop was
 * blocked, no timer has fired yet that would do so.
 */
export function clockDriven(signal: AbortSignal, check: () => unknown): AbortSignal {
  const abortedOf = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted")?.get; // eslint-disable-line @typescript-eslint/unbound-method -- called on the signal
  const isSet = (): boolean => Boolean(abortedOf?.call(signal));
  return Object.defineProperties(signal, {
    aborted: {
      configurable: true,
      get: () => {
        if (!isSet()) check();
        return isSet();
      },
    },
    throwIfAborted: {
      configurable: true,
      value: () => {
        if (signal.aborted) throw signal.reason;
      },
    },
  });
}

/** The maximum delay of `setTimeout`; with a longer delay it fires immediately. */
const maxTimerInMs = 2 ** 31 - 1;

/** Calls `onTime` after `ms`, without an upper limit; `Infinity` means never. Returns a function that stops the timer. */
export function startTimer(ms: number, onTime: () => void): () => void {
  if (ms === Infinity) return noop;
  if (ms > maxTimerInMs) return startLongTimer(ms, onTime);
  const timer = setTimeout(onTime, ms);
  return () => clearTimeout(timer);
}

function startLongTimer(ms: number, onTime: () => void): () => void {
  let stop = noop;
  const timer = setTimeout(() => (stop = startTimer(ms - maxTimerInMs, onTime)), maxTimerInMs);
  return () => {
    clearTimeout(timer);
    stop();
  };
}

/** Waits, or rejects with the signal's reason. Leaves neither a timer nor a listener behind. */
export function delay(ms: number, signal?: AbortSignalLike): Promise<void> {
  return new Promise((resolve, reject) => {
    const stopTimer = startTimer(ms, () => {
      off();
      resolve();
    });
    const off = onAbort(signal, () => {
      stopTimer();
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
      reject(abortReason(signal!)); // eslint-disable-line @typescript-eslint/no-non-null-assertion
    });
  });
}

/** Lets the other work of the process have its turn. */
export function eventLoopTurn(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 0);
  });
}

/** Measures how long the event loop has not had a turn: promises that settle without I/O do not give it one. */
export function watchEventLoop(): { readonly forInMs: () => number; readonly stop: () => void } {
  let lastTurn = performance.now();
  const timer = setInterval(() => (lastTurn = performance.now()), 5);
  return { forInMs: () => performance.now() - lastTurn, stop: () => clearInterval(timer) };
}

/**
 * The time limit and the cancellation of work in flight, as one signal. The work is raced as well as signalled, because a
 * client may ignore its signal. The owner must dispose of it; otherwise a timer and listeners remain.
 */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #timeoutReason: () => unknown;
  readonly #offs: readonly (() => void)[];
  #stopTimer: () => void;
  /** `-Infinity`: disposed of. */
  #endsAt: number;
  #rejectRace: ((reason: unknown) => void) | undefined;

  /** @param timeoutReason - Creates the reason of the signal when the time is over. */
  constructor(timeoutInMs: number, timeoutReason: () => unknown, ...signals: readonly (AbortSignalLike | undefined)[]) {
    this.#timeoutReason = timeoutReason;
    this.#endsAt = performance.now() + timeoutInMs;
    this.#stopTimer = startTimer(timeoutInMs, () => this.abort(timeoutReason()));
    this.#offs = signals.map((signal) => onAbort(signal, () => signal && this.abort(abortReason(signal))));
    if (this.signal.aborted) this.dispose();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** From now on, the work may take this long at most: another caller with less time waits for it, too. */
  shortenTo(timeoutInMs: number): void {
    const endsAt = performance.now() + timeoutInMs;
    if (endsAt >= this.#endsAt) return;
    this.#endsAt = endsAt;
    this.#stopTimer();
    this.#stopTimer = startTimer(timeoutInMs, () => this.abort(this.#timeoutReason()));
  }

  /** Settles as `promise` does, or rejects with the reason when the time is over or a signal aborts. One race at a time. */
  race<R>(promise: PromiseLike<R>): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#rejectRace = reject;
      promise.then(resolve, reject);
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason of a signal
      if (this.signal.aborted) reject(this.signal.reason);
    });
  }

  /** Ends the work. The race rejects before the signal aborts: the reason counts, not the client's own abort error. */
  abort(reason?: unknown): void {
    if (this.signal.aborted) return;
    this.dispose();
    this.#rejectRace?.(reason);
    this.#controller.abort(reason);
  }

  get isDisposed(): boolean {
    return this.#endsAt === -Infinity;
  }

  /** Stops the timer and removes the listeners. */
  dispose(): void {
    this.#endsAt = -Infinity;
    // Undefined while the constructor runs with an aborted signal. The constructor disposes again at its end.
    (this.#stopTimer as (() => void) | undefined)?.();
    for (const off of (this.#offs as readonly (() => void)[] | undefined) ?? []) off();
  }
}

function noop(): void {
  // nothing to remove
}

/** Milliseconds since the clock was started. */
export type Clock = () => number;

/**
 * Starts a clock that returns the larger of monotonic and wall-clock time: the monotonic clock may stop while the machine is
 * suspended, and the wall clock may be set back. A holder must never overestimate its remaining time, so too much elapsed
 * time is safe and too little is not.
 *
 * Start it before sending the request whose time it measures: the service cannot have started counting any earlier.
 */
export function startStopwatch(): Clock {
  const monotonic = performance.now();
  const wall = Date.now();
  return () => Math.max(performance.now() - monotonic, Date.now() - wall);
}

/** An SDK call took longer than its limit. Whether it had an effect is not known. */
export class RequestTimeoutError extends Error {
  override readonly name = "RequestTimeoutError";
  readonly timeoutInMs: number;

  constructor(timeoutInMs: number, message = "no response") {
    super(`${message} within ${Math.round(timeoutInMs)} ms`);
    this.timeoutInMs = timeoutInMs;
  }
}
