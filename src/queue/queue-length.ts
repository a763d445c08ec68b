import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import { startStopwatch } from "../core/deadline.js";
import { read } from "../core/request.js";

/** A probe may ask every second: the length is read this often at most. */
const refreshAfterInMs = 10_000;
const timeoutInMs = 5_000;

/** What is known of the messages that wait in a queue. */
export class QueueLength {
  readonly #queue: QueueLike;
  #messages: number | undefined;
  #oldestOn: Date | undefined;
  #refreshedBeforeInMs: (() => number) | undefined;

  constructor(queue: QueueLike) {
    this.#queue = queue;
  }

  get approximateMessageCount(): number | undefined {
    return this.#messages;
  }

  get oldestMessageInsertedOn(): Date | undefined {
    return this.#oldestOn;
  }

  /** A queue returns its messages roughly in their order: the oldest of the last receive is about the oldest of all. */
  received(messages: readonly QueueMessageLike[]): void {
    const times = messages.map(({ insertedOn }) => insertedOn.getTime());
    this.#oldestOn = times.length === 0 ? undefined : new Date(Math.min(...times));
  }

  /** Reads the length, unless that was done a moment ago. What fails here fails in the next poll as well, and is reported there. */
  async refresh(abortSignal: AbortSignal): Promise<void> {
    if (this.#refreshedBeforeInMs && this.#refreshedBeforeInMs() < refreshAfterInMs) return;
    this.#refreshedBeforeInMs = startStopwatch();
    try {
      const { approximateMessagesCount } = await read((signal) => this.#queue.getProperties({ abortSignal: signal }), { timeoutInMs, abortSignal });
      this.#messages = approximateMessagesCount;
    } catch {
      this.#messages = undefined;
    }
  }
}
