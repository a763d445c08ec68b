import { startStopwatch } from "../../core/deadline.js";
import { read } from "../../core/request.js";
import { describeFailure } from "../failure.js";
import { countRequests } from "./request-counter.js";
import type { Source } from "./snapshot.js";

/** Longer than the SDK's tries of one request take: what takes so long has failed. */
const timeoutInMs = 15_000;

/** Something that is read again and again, while a page is open. */
export class PolledSource<T> {
  readonly #name: string;
  readonly #intervalInMs: number;
  readonly #collect: (abortSignal: AbortSignal) => Promise<T>;
  #source: Source<T>;
  #sinceStart: (() => number) | undefined;
  #poll: Promise<void> | undefined;
  #lastRequests = 0;
  #requests = 0;

  constructor(name: string, intervalInMs: number, collect: (abortSignal: AbortSignal) => Promise<T>) {
    this.#name = name;
    this.#intervalInMs = intervalInMs;
    this.#collect = collect;
    this.#source = { name };
  }

  get source(): Source<T> {
    return this.#source;
  }

  get requests(): number {
    return this.#requests;
  }

  get requestsPerMinute(): number {
    return (this.#lastRequests * 60_000) / this.#intervalInMs;
  }

  /** Polls if that is due. Never rejects: what fails is shown, beside what was found last. */
  async refresh(abortSignal: AbortSignal): Promise<void> {
    // A page asks in the same interval, and timers are not exact.
    if (!this.#poll && (this.#sinceStart === undefined || this.#sinceStart() >= 0.9 * this.#intervalInMs)) {
      this.#sinceStart = startStopwatch();
      this.#poll = this.#run(abortSignal).finally(() => (this.#poll = undefined));
    }
    await this.#poll;
  }

  /** Something was changed: the next refresh polls. */
  expire(): void {
    this.#sinceStart = undefined;
  }

  async #run(abortSignal: AbortSignal): Promise<void> {
    const onCount = (requests: number): void => {
      this.#lastRequests = requests;
      this.#requests += requests;
    };
    try {
      const value = await countRequests(() => read((signal) => this.#collect(signal), { timeoutInMs, abortSignal }), onCount);
      this.#source = { name: this.#name, value, takenOn: new Date().toISOString() };
    } catch (error) {
      this.#source = { ...this.#source, error: describeFailure(error).message };
    }
  }
}
