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

/**
 * Cancels work of this library. A native signal takes 2 µs to create in Node 20, and as long again to listen to, which is most of what the
 * library adds to a request. Clients and callers get the {@link native} one: the SDK would wrap this one, and the listeners by which sends
 * are counted would be added to the wrapper.
 */
export class StopSignal implements AbortSignalLike {
  #aborted = false;
  #reason: DOMException | undefined;
  readonly #listeners = new Set<{ readonly listener: () => void }>();
  #native: AbortController | undefined;

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): DOMException | undefined {
    return this.#reason;
  }

  abort(): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = new DOMException("The operation was aborted.", "AbortError");
    this.#native?.abort(this.#reason);
    notify(this.#listeners);
  }

  /** A native signal that aborts with this one. */
  get native(): AbortSignal {
    if (!this.#native) {
      this.#native = new AbortController();
      if (this.#aborted) this.#native.abort(this.#reason);
    }
    return this.#native.signal;
  }

  onAbort(listener: () => void): () => void {
    const entry = { listener };
    this.#listeners.add(entry);
    return () => {
      this.#listeners.delete(entry);
    };
  }

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add({ listener });
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    for (const entry of this.#listeners) if (entry.listener === listener) this.#listeners.delete(entry);
  }
}

/** The signal for clients and callers. */
export function nativeSignal(signal: AbortSignal | StopSignal): AbortSignal {
  return signal instanceof StopSignal ? signal.native : signal;
}

/** A listener that another listener removes is not called, as on a native signal. */
function notify(entries: Set<{ readonly listener: () => void }>): void {
  for (const entry of entries) {
    entries.delete(entry);
    entry.listener();
  }
}

/** Calls `listener` once when `signal` aborts (immediately if it already has). Returns a function that removes the listener. */
export function onAbort(signal: AbortSignalLike | undefined, listener: () => void): () => void {
  if (!signal) return noop;
  if (signal.aborted) {
    listener();
    return noop;
  }
  if (signal instanceof StopSignal) return signal.onAbort(listener);
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
    notify(hub.entries);
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

/** As {@link startTimer}, but does not keep the process from ending: for what is useful, and not necessary. */
export function startIdleTimer(ms: number, onTime: () => void): () => void {
  const timer = setTimeout(onTime, ms);
  // Browsers have no such method.
  (timer as { unref?: () => void }).unref?.();
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

/** What a call that was cancelled, or has failed, still waits for, at most: what is in progress usually ends within this time. */
const graceAfterAbortInMs = 200;

/**
 * Calls `onEnd` when a call has to end although what it does last is not done: after `ms`, or a moment after its signal has aborted. Returns
 * a function that stops the timer and removes the listener.
 */
export function startGrace(ms: number, signal: AbortSignalLike | undefined, onEnd: (why: "time" | "abort") => void): () => void {
  const stops: (() => void)[] = [];
  const stop = (): void => {
    for (const each of stops) each();
  };
  const endAfter = (after: number, why: "time" | "abort"): (() => void) => startTimer(after, () => {
    stop();
    onEnd(why);
  });
  stops.push(endAfter(ms, "time"), onAbort(signal, () => stops.push(endAfter(graceAfterAbortInMs, "abort"))));
  return stop;
}

/** Settles as `cleanUp` does; resolves if the call has to end before, see {@link startGrace}. The clean-up then goes on in the background. */
export function withinGrace(cleanUp: Promise<void>, ms: number, signal: AbortSignalLike | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = startGrace(ms, signal, () => resolve());
    cleanUp.finally(stop).then(resolve, reject);
  });
}

/** As {@link withinGrace}, for a call that has failed: its time is over, or it has nothing else to wait for. */
export function withinMoment(cleanUp: Promise<void>): Promise<void> {
  return withinGrace(cleanUp, graceAfterAbortInMs, undefined);
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
  #controller = new AbortController();
  #aborted = false;
  readonly #timeoutReason: () => unknown;
  readonly #offs: readonly (() => void)[];
  #stopTimer: () => void;
  /** `-Infinity`: disposed of. */
  #endsAt: number;
  #rejectRace: ((reason: unknown) => void) | undefined;
  /** When the time is over: for how long the work may continue all the same. */
  postponeInMs: (() => number) | undefined;

  /** @param timeoutReason - Creates the reason of the signal when the time is over. */
  constructor(timeoutInMs: number, timeoutReason: () => unknown, ...signals: readonly (AbortSignalLike | undefined)[]) {
    this.#timeoutReason = timeoutReason;
    this.#endsAt = performance.now() + timeoutInMs;
    this.#stopTimer = this.#startTimer(timeoutInMs);
    this.#offs = signals.map((signal) => onAbort(signal, () => signal && this.abort(abortReason(signal))));
    if (this.#aborted) this.dispose();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Before the signal is used: it is to be that of this controller, which has not aborted. */
  use(controller: AbortController): void {
    if (this.#aborted) controller.abort(this.signal.reason);
    this.#controller = controller;
  }

  /** Also known without the signal: in Node 20, the native one is slow to make, and to ask. */
  get isAborted(): boolean {
    return this.#aborted;
  }

  /** From now on, the work may take this long at most: another caller with less time waits for it, too. */
  shortenTo(timeoutInMs: number): void {
    const endsAt = performance.now() + timeoutInMs;
    if (endsAt >= this.#endsAt) return;
    this.#endsAt = endsAt;
    this.#stopTimer();
    this.#stopTimer = this.#startTimer(timeoutInMs);
  }

  #startTimer(ms: number): () => void {
    return startTimer(ms, () => {
      const postponeInMs = this.postponeInMs?.() ?? 0;
      if (postponeInMs > 0) this.#stopTimer = this.#startTimer(postponeInMs);
      else this.abort(this.#timeoutReason());
    });
  }

  /** Settles as `promise` does, or rejects with the reason when the time is over or a signal aborts. One race at a time. */
  race<R>(promise: PromiseLike<R>): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#rejectRace = reject;
      promise.then(resolve, reject);
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason of a signal
      if (this.#aborted) reject(this.signal.reason);
    });
  }

  /** Ends the work. The race rejects before the signal aborts: the reason counts, not the client's own abort error. */
  abort(reason?: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
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
    this.#stopTimer();
    // Undefined while the constructor runs with an aborted signal. The constructor disposes again at its end.
    for (const off of (this.#offs as readonly (() => void)[] | undefined) ?? []) off();
  }
}

function noop(): void {
  // nothing to remove
}

/** Milliseconds since the clock was started. */
export interface Clock {
  (): number;
  /** The same by the monotonic clock alone, which may stop while the machine is suspended. */
  readonly monotonic?: () => number;
}

/**
 * Starts a clock that returns the larger of monotonic and wall-clock time: the monotonic clock may stop while the machine is
 * suspended, and the wall clock may be set back. A holder must never overestimate its remaining time, so too much elapsed
 * time is safe and too little is not.
 *
 * Start it before sending the request whose time it measures: the service cannot have started counting any earlier.
 */
export function startStopwatch(): Clock {
  const startedAt = performance.now();
  const wall = Date.now();
  const monotonic = (): number => performance.now() - startedAt;
  return Object.assign(() => Math.max(monotonic(), Date.now() - wall), { monotonic });
}

/**
 * The difference between the wall clock and the uptime of the machine, which counts suspension and cannot be set: a suspension does not
 * change it, a step of the wall clock does. So does a pause of a virtual machine that its clocks do not know of, once the wall clock has
 * been corrected. Undefined: the platform has no such clock, as in browsers.
 */
export function wallClockOffset(): number | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (id: string) => { uptime?: () => number } | undefined } };
  try {
    const uptime = process?.getBuiltinModule?.("node:os")?.uptime?.();
    return uptime === undefined ? undefined : Date.now() - uptime * 1_000;
  } catch {
    return undefined;
  }
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
