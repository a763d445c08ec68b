import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { jitter } from "../core/retry.js";
import { Capacity } from "../queue/capacity.js";

/** How many messages are sent to one queue at the same time: far below the 2,000 messages a second of a queue. */
const concurrency = 16;

const minPauseInMs = 1_000;
const maxPauseInMs = 60_000;

/**
 * The sends of this process to one queue. Each queue has its own: one that is missing, or does not respond, does not delay the others.
 *
 * After a failure of the queue nothing is sent to it for a while: a second, and twice as long after each further failure, up to a minute.
 * Then one message is sent, and if that succeeds all others.
 */
export class QueueLane {
  readonly #capacity = new Capacity(concurrency);
  #failures = 0;
  #pause: { readonly clock: Clock; readonly forInMs: number } | undefined;
  #isProbing = false;

  /** Runs a send when it is its turn. False: the queue is paused, and nothing was sent. */
  async run(send: () => Promise<void>, isFailureOfQueue: (error: unknown) => boolean): Promise<boolean> {
    if (this.#isPaused()) return false;
    await this.#capacity.take();
    try {
      // The queue may have failed meanwhile.
      if (this.#isPaused()) return false;
      await this.#send(send, isFailureOfQueue);
      return true;
    } finally {
      this.#capacity.release();
    }
  }

  async #send(send: () => Promise<void>, isFailureOfQueue: (error: unknown) => boolean): Promise<void> {
    const isProbe = this.#failures > 0;
    if (isProbe) this.#isProbing = true;
    try {
      await send();
      this.#failures = 0;
      this.#pause = undefined;
    } catch (error) {
      if (isFailureOfQueue(error)) {
        const forInMs = jitter(Math.min(maxPauseInMs, minPauseInMs * 2 ** Math.min(this.#failures, 10)), 0.2);
        this.#pause = { clock: startStopwatch(), forInMs };
        // Sends that were in flight together fail together: they count once.
        if (isProbe || this.#failures === 0) this.#failures++;
      }
      throw error;
    } finally {
      if (isProbe) this.#isProbing = false;
    }
  }

  #isPaused(): boolean {
    return this.#failures > 0 && (this.#isProbing || (this.#pause !== undefined && this.#pause.clock() < this.#pause.forInMs));
  }
}
