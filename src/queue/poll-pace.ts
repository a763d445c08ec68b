import { fullJitter, jitter } from "../core/retry.js";
import type { Emit, QueueConsumerEvents, WorkObserver } from "./context.js";
import type { ConsumerSettings } from "./options.js";

/** So many failures of handlers in a row, and twice as many as there are slots, are not the fault of single messages. */
const minFailuresInRow = 20;

/** Each message that is received and given back costs a request, and keeps it from the process that has its group. */
const crowdedPollInMs = 100;

/** While the inbox cannot be used, messages are given back for this long at most. */
const maxGiveBackInMs = 60_000;

/**
 * When to poll next, and for how many messages.
 *
 * | state                                 | wait before the next poll               | messages         |
 * |---------------------------------------|-----------------------------------------|------------------|
 * | messages were received                | none                                    | as slots allow   |
 * | most of them were given back, as their groups have too many | 100 ms            | as slots allow   |
 * | the queue is empty                    | doubles with each empty poll            | as slots allow   |
 * | the queue cannot be reached           | doubles with each failure               | as slots allow   |
 * | the inbox cannot be used              | doubles with each failure               | 1, as a probe    |
 * | handlers fail one after the other     | doubles with each failure               | 1, as a probe    |
 * | paused                                | until it is resumed                     |                  |
 */
export class PollPace implements WorkObserver {
  readonly #settings: Pick<ConsumerSettings<unknown>, "minPollInMs" | "maxPollInMs" | "concurrency">;
  readonly #emit: Emit;
  /** Ends the current wait: the reason for it is gone. */
  readonly #wake: () => void;
  #intervalInMs: number;
  #receiveErrors = 0;
  #infrastructureErrors = 0;
  #failuresInRow = 0;
  #paused = false;
  #expectedAt = 0;
  #isCrowded = false;

  constructor(settings: Pick<ConsumerSettings<unknown>, "minPollInMs" | "maxPollInMs" | "concurrency">, emit: Emit, wake: () => void) {
    this.#settings = settings;
    this.#emit = emit;
    this.#wake = wake;
    this.#intervalInMs = settings.minPollInMs;
  }

  /** How often the queue or the inbox has failed in a row. */
  get consecutiveErrors(): number {
    return this.#receiveErrors + this.#infrastructureErrors;
  }

  /** `pause` was called. */
  get isPauseRequested(): boolean {
    return this.#paused;
  }

  /** It polls less, or not at all. */
  get isPaused(): boolean {
    return this.#paused || this.#probes;
  }

  pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#pausedFor("requested", undefined);
  }

  resume(): void {
    this.#paused = false;
    this.#intervalInMs = this.#settings.minPollInMs;
    this.#wake();
  }

  /** The wait was cut short: there may be a message. */
  notified(): void {
    this.#intervalInMs = this.#settings.minPollInMs;
  }

  /** How many messages to request. */
  messages(capacity: number): number {
    return this.#probes ? 1 : capacity;
  }

  /** A poll has received so many messages. Returns how long to wait. */
  received(messages: number): number {
    this.#receiveErrors = 0;
    if (messages > 0) {
      this.#intervalInMs = this.#settings.minPollInMs;
      if (!this.#probes) return this.#isCrowded ? Math.max(crowdedPollInMs, this.#settings.minPollInMs) : 0;
      return this.#backoff(Math.max(this.#infrastructureErrors, this.#failuresOver));
    }
    const expectedInMs = this.#expectedAt - performance.now();
    const nextPollInMs = Math.min(jitter(this.#intervalInMs, 0.2), expectedInMs > 0 ? expectedInMs : Infinity);
    this.#intervalInMs = Math.min(this.#intervalInMs * 2, this.#settings.maxPollInMs);
    this.#emit("empty", { nextPollInMs });
    return nextPollInMs;
  }

  /** What became of the messages of a poll: too many of their groups were received, and were given back. */
  admitted(kept: number, excess: number): void {
    this.#isCrowded = excess > kept;
  }

  /** Messages that this consumer has given back become visible after so long: the poll after that is not later. */
  expectMessages(inMs: number): void {
    const now = performance.now();
    const at = now + Math.ceil(inMs / 1_000) * 1_000;
    if (this.#expectedAt <= now || at < this.#expectedAt) this.#expectedAt = at;
  }

  /** A poll failed. Returns how long to wait. */
  receiveFailed(error: unknown): number {
    this.#receiveErrors++;
    this.#emit("error", error);
    return this.#backoff(this.#receiveErrors);
  }

  infrastructureFailed(error: unknown): number {
    this.#infrastructureErrors++;
    this.#emit("error", error);
    if (this.#infrastructureErrors === 1) this.#pausedFor("infrastructure", error);
    return fullJitter(this.#infrastructureErrors, 1_000, maxGiveBackInMs);
  }

  infrastructureWorks(): void {
    if (this.#infrastructureErrors === 0) return;
    this.#infrastructureErrors = 0;
    this.#wake();
  }

  handlerFailed(error: unknown): void {
    this.#failuresInRow++;
    if (this.#failuresOver === 1) this.#pausedFor("failures", error);
  }

  handlerSucceeded(): void {
    const paused = this.#failuresOver > 0;
    this.#failuresInRow = 0;
    if (paused) this.#wake();
  }

  /** The message that was to show whether handlers work again had none: the next one need not wait for that. */
  handlerNotRun(): void {
    if (this.#failuresOver > 0 && this.#infrastructureErrors === 0) this.#wake();
  }

  get #probes(): boolean {
    return this.#infrastructureErrors > 0 || this.#failuresOver > 0;
  }

  /** How many failures in a row there were since they became too many. */
  get #failuresOver(): number {
    return Math.max(0, this.#failuresInRow - Math.max(minFailuresInRow, 2 * this.#settings.concurrency));
  }

  #backoff(errors: number): number {
    const { minPollInMs, maxPollInMs } = this.#settings;
    return jitter(Math.min(maxPollInMs, minPollInMs * 2 ** Math.min(errors, 20)), 0.2);
  }

  #pausedFor(reason: QueueConsumerEvents["paused"]["reason"], error: unknown): void {
    this.#emit("paused", { reason, error });
  }
}
