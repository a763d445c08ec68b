import type { QueueLike } from "../clients/queue.js";
import { QueueConsumer } from "../queue/consumer.js";
import type { MessageHandler } from "../queue/context.js";
import { enqueue } from "../queue/enqueue.js";
import type { EnqueueOptions, EnqueueResult } from "../queue/enqueue.js";
import type { QueueConsumerOptions } from "../queue/options.js";
import { redrive } from "../queue/redrive.js";
import type { RedriveOptions, RedriveResult } from "../queue/redrive.js";

/** Options of {@link ConcurrentQueue}: those of its consumers, unless a call has its own. */
export type ConcurrentQueueOptions<T> = QueueConsumerOptions<T>;

/** All helpers for one queue. `T` is the type of the payload of its messages. */
export class ConcurrentQueue<T = unknown> {
  readonly client: QueueLike;
  readonly #options: ConcurrentQueueOptions<T>;

  constructor(client: QueueLike, options: ConcurrentQueueOptions<T> = {}) {
    this.client = client;
    this.#options = { ...options };
  }

  /** See {@link enqueue}. */
  enqueue(payload: T, options?: EnqueueOptions): Promise<EnqueueResult> {
    return enqueue(this.client, payload, { encoding: this.#options.encoding, ...options });
  }

  /** Creates a consumer, which is not started yet. See {@link QueueConsumer}. */
  consume(handler: MessageHandler<T>, options?: QueueConsumerOptions<T>): QueueConsumer<T> {
    return new QueueConsumer(this.client, handler, { ...this.#options, ...options });
  }

  /** Moves messages from the `poisonQueue` back to the queue. See {@link redrive}. */
  redrive(options?: RedriveOptions): Promise<RedriveResult> {
    if (!this.#options.poisonQueue) throw new TypeError("redrive needs the option poisonQueue");
    return redrive(this.#options.poisonQueue, this.client, options);
  }
}
