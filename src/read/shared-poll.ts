import type { OperationTracingOptions } from "@azure/core-tracing";
import { CallQueues } from "../core/call-queue.js";
import { onAbort, startTimer } from "../core/deadline.js";
import { readIfChanged, readSnapshot } from "../target/target.js";
import type { ServiceAdapter, Snapshot } from "../target/target.js";
import type { TargetSettings } from "../update/options.js";
import { runCall } from "../update/run-call.js";

/** The version of the target that a watch has read last. */
export interface KnownVersion {
  readonly etag: string;
  /** Undefined: the content could not be read as a value. */
  readonly snapshot: Snapshot<unknown> | undefined;
  /** The number of the poll that found it. Of two versions, the one of the later poll is newer. */
  readonly poll: number;
}

/** The outcome of one poll. */
export type PollOutcome = { readonly poll: number; readonly startedAt: number } & (
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "not found" }
  | { readonly kind: "found"; readonly snapshot: Snapshot<unknown> }
  /** The version that every watch of this poll knows. */
  | { readonly kind: "unchanged" }
);

/** A watch that waits for a poll. */
export interface PollRequest {
  /** When it wants a poll at the latest. */
  readonly dueAt: number;
  readonly known: KnownVersion | undefined;
  readonly tracingOptions: OperationTracingOptions | undefined;
}

interface Waiter extends PollRequest {
  settle(outcome: PollOutcome): void;
  reject(reason: unknown): void;
}

let polls = 0;

const shared = new CallQueues<SharedPoll>();

/** The polls of all watches of one target in this process, under the same credentials and with the same options for requests. */
export function sharedPollOf(adapter: ServiceAdapter<unknown, unknown>, settings: TargetSettings, tryTimeoutInMs: number): SharedPoll {
  const key = JSON.stringify([adapter.key, settings.journalName, settings.leaseId, tryTimeoutInMs]);
  return shared.get(adapter.credentialScope, key, (onIdle) => new SharedPoll(adapter, settings, tryTimeoutInMs, onIdle));
}

/**
 * One poll at a time for all watches that wait. It starts when the first of them is due, and serves all that wait by then: the
 * watch with the shortest interval determines how often the target is polled. A watch that begins to wait during a poll gets the
 * next one, because a write before that moment must be visible to it. Each watch draws its own conclusions from the outcome.
 */
export class SharedPoll {
  readonly #adapter: ServiceAdapter<unknown, unknown>;
  readonly #settings: TargetSettings;
  readonly #tryTimeoutInMs: number;
  readonly #onIdle: () => void;
  /** Those that wait for the next poll. */
  #waiting = new Set<Waiter>();
  /** The poll in flight, and those that wait for it. */
  #current: { readonly waiters: Set<Waiter>; readonly io: AbortController; readonly ended: Promise<void> } | undefined;
  #isStarting = false;
  /** Set for the watch that is due first, or for an earlier time: that of a watch that has ended since. */
  #timer: { readonly dueAt: number; readonly stop: () => void } | undefined;

  constructor(adapter: ServiceAdapter<unknown, unknown>, settings: TargetSettings, tryTimeoutInMs: number, onIdle: () => void) {
    this.#adapter = adapter;
    this.#settings = settings;
    this.#tryTimeoutInMs = tryTimeoutInMs;
    this.#onIdle = onIdle;
  }

  /** The outcome of the next poll. Rejects with the reason of the signal; if no other watch waits, after the request has ended. */
  next(request: PollRequest, signal: AbortSignal): Promise<PollOutcome> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        ...request,
        settle: (outcome) => {
          off();
          resolve(outcome);
        },
        reject: (reason) => {
          off();
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
          reject(reason);
        },
      };
      this.#waiting.add(waiter);
      const off = onAbort(signal, () => this.#remove(waiter, signal.reason));
      if (!this.#timer || request.dueAt < this.#timer.dueAt) this.#schedule();
    });
  }

  #remove(waiter: Waiter, reason: unknown): void {
    const current = this.#current;
    if (current?.waiters.delete(waiter) && current.waiters.size === 0) {
      current.io.abort(reason);
      // When the watch ends, nothing of it is in flight.
      void current.ended.then(() => waiter.reject(reason));
      return;
    }
    this.#waiting.delete(waiter);
    waiter.reject(reason);
    // Otherwise the timer decides: to look for the next one each time would take long when thousands of watches end at once.
    if (this.#waiting.size === 0) this.#schedule();
  }

  /** Sets the timer for the watch that is due first. */
  #schedule(): void {
    if (this.#current || this.#isStarting) return;
    this.#timer?.stop();
    this.#timer = undefined;
    if (this.#waiting.size === 0) {
      this.#onIdle();
      return;
    }
    let dueAt = Infinity;
    for (const waiter of this.#waiting) dueAt = Math.min(dueAt, waiter.dueAt);
    const waitInMs = dueAt - performance.now();
    if (waitInMs > 0) {
      this.#timer = { dueAt, stop: startTimer(waitInMs, () => this.#schedule()) };
      return;
    }
    // Not at once: other watches that were started in the same moment share the poll.
    this.#isStarting = true;
    void Promise.resolve().then(() => this.#run());
  }

  async #run(): Promise<void> {
    this.#isStarting = false;
    const waiters = this.#waiting;
    this.#waiting = new Set();
    if (waiters.size > 0) {
      const io = new AbortController();
      const polling = this.#poll(waiters, io.signal);
      this.#current = { waiters, io, ended: polling.then(() => undefined) };
      const outcome = await polling;
      this.#current = undefined;
      for (const waiter of waiters) waiter.settle(outcome);
    }
    this.#schedule();
  }

  /** Never rejects. */
  async #poll(waiters: ReadonlySet<Waiter>, abortSignal: AbortSignal): Promise<PollOutcome> {
    const about = { poll: ++polls, startedAt: performance.now() };
    const base = baseOf(waiters);
    const [first] = waiters;
    try {
      const found = await runCall(
        "watch",
        { timeoutInMs: this.#tryTimeoutInMs, tracingOptions: first?.tracingOptions, abortSignal },
        this.#settings,
        this.#adapter.url,
        (context) => (base ? readIfChanged(this.#adapter, base.etag, context) : readSnapshot(this.#adapter, context)),
        { targetKind: this.#adapter.kind },
      );
      if (found === "unchanged") return base?.snapshot ? { ...about, kind: "found", snapshot: base.snapshot } : { ...about, kind: "unchanged" };
      return found ? { ...about, kind: "found", snapshot: found } : { ...about, kind: "not found" };
    } catch (error) {
      return { ...about, kind: "failed", error };
    }
  }
}

/**
 * The newest version that a watch knows: the service sends the content only if there is another one. A version without a value
 * is of no use to a watch that knows another one.
 */
function baseOf(waiters: ReadonlySet<Waiter>): KnownVersion | undefined {
  let newest: KnownVersion | undefined;
  for (const { known } of waiters) if (known && known.poll >= (newest?.poll ?? 0)) newest = known;
  if (!newest || newest.snapshot) return newest;
  const { etag } = newest;
  return [...waiters].every(({ known }) => known?.etag === etag) ? newest : undefined;
}
