import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { observed } from "../core/pending-call.js";
import { checkOptions, mergeDefined } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { QueueConsumer } from "../queue/consumer.js";
import type { CommitMessageContext, MessageHandler } from "../queue/context.js";
import { enqueue } from "../queue/enqueue.js";
import type { EnqueueOptions, EnqueueResult } from "../queue/enqueue.js";
import { enqueueMany } from "../queue/enqueue-many.js";
import type { EnqueueManyOptions } from "../queue/enqueue-many.js";
import { checkQueue, consumerSettings } from "../queue/options.js";
import type { CommitConsumerOptions, QueueConsumerOptions } from "../queue/options.js";
import { redrive } from "../queue/redrive.js";
import type { RedriveOptions, RedriveResult } from "../queue/redrive.js";
import { queueMetadata } from "../target/queue-metadata.js";
import type { Mutator, UpdateResult } from "../update/mutator.js";
import type { LeasedUpdateOptions, NamedLockRef } from "../update/exclusive-access.js";
import { leasedUpdate } from "../update/leased-update.js";

/** Options of {@link ConcurrentQueue}: those of its consumers, unless a call has its own. */
export interface ConcurrentQueueOptions<T> extends QueueConsumerOptions<T> {
  /**
   * Options of every `enqueue` and `enqueueMany`, unless the call has its own.
   * @defaultValue the `encoding` and the `overflow` of the consumers: both sides must have the same
   */
  enqueueDefaults?: Pick<EnqueueOptions, "timeToLiveInSeconds" | "encoding" | "overflow"> | undefined;
}

const enqueueDefaultNames: OptionNames<NonNullable<ConcurrentQueueOptions<never>["enqueueDefaults"]>> = { timeToLiveInSeconds: 1, encoding: 1, overflow: 1 };

/**
 * All helpers for one queue. `T` is the type of the payload of its messages.
 * @example
 * ```ts
 * const orders = new ConcurrentQueue<Order>(queueClient, { poisonQueue, inbox: new ClaimInbox(table) });
 * await orders.enqueue(order, { idempotencyKey: order.id });
 * await orders.consume((order, { signal }) => ship(order, signal)).start();
 * ```
 */
export class ConcurrentQueue<T = unknown> {
  readonly #client: QueueLike;
  readonly #consumerDefaults: QueueConsumerOptions<T>;
  readonly #enqueueDefaults: Partial<EnqueueOptions>;

  /**
   * Checks the client and the options. Sends no request.
   * @throws `TypeError` or `RangeError` if `client` is not a queue client, or an option is wrong.
   */
  constructor(client: QueueLike, options: ConcurrentQueueOptions<T> = {}) {
    this.#client = checkQueue("ConcurrentQueue", client);
    const { enqueueDefaults, ...consumerDefaults } = options;
    checkOptions("ConcurrentQueue: enqueueDefaults", enqueueDefaults, enqueueDefaultNames);
    // Rejects invalid options now rather than in the first call.
    consumerSettings(consumerDefaults);
    this.#consumerDefaults = consumerDefaults;
    this.#enqueueDefaults = mergeDefined<EnqueueOptions>({ encoding: consumerDefaults.encoding, overflow: consumerDefaults.overflow }, enqueueDefaults);
  }

  /** The client that was passed in. Not enumerable: it holds credentials, which must not be printed with the facade. */
  get client(): QueueLike {
    return this.#client;
  }

  /**
   * Sends a message with an idempotency key. See {@link enqueue}.
   * @throws `TypeError` if the payload cannot be written as JSON.
   * @throws `RangeError` if the message would be larger than 64 KiB, or with `overflow`, the payload is larger than 64 MiB.
   * @throws {@link CommitUnknownError} if the service did not respond.
   */
  enqueue(payload: T, options?: EnqueueOptions): Promise<EnqueueResult> {
    return enqueue(this.#client, payload, mergeDefined(this.#enqueueDefaults, options));
  }

  /**
   * Sends many messages, several at a time. See {@link enqueueMany}.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   * @throws `Error` if the iterable throws.
   */
  enqueueMany(
    messages: Iterable<T> | AsyncIterable<T>,
    toMessage?: (item: T) => Omit<EnqueueOptions, keyof CallOptions> & { payload: T },
    options?: EnqueueManyOptions,
  ): Promise<readonly (EnqueueResult | { readonly error: unknown })[]> {
    const { timeToLiveInSeconds, encoding, overflow } = this.#enqueueDefaults;
    // What is not a function, or not a message, is passed on: the call rejects it.
    const withDefaults = (item: T): { payload: unknown } => mergeDefined<EnqueueOptions & { payload: unknown }>({ timeToLiveInSeconds }, toMessage ? observed(toMessage(item)) : { payload: item });
    const isWrong = toMessage !== undefined && typeof toMessage !== "function";
    return enqueueMany(this.#client, messages, isWrong ? toMessage : withDefaults, mergeDefined({ encoding, overflow }, options));
  }

  /** Creates a consumer, which is not started yet, whose handlers commit their effects. See {@link QueueConsumer}. */
  consume(handler: MessageHandler<T, CommitMessageContext>, options: CommitConsumerOptions<T>): QueueConsumer<T>;
  /** Creates a consumer, which is not started yet. See {@link QueueConsumer}. */
  consume(handler: MessageHandler<T>, options?: QueueConsumerOptions<T>): QueueConsumer<T>;
  consume(handler: MessageHandler<T, CommitMessageContext>, options?: QueueConsumerOptions<T> | CommitConsumerOptions<T>): QueueConsumer<T> {
    // The overloads tie the handler to the inbox, as those of the constructor do.
    return new QueueConsumer<T>(this.#client, handler, mergeDefined(this.#consumerDefaults as object, options) as CommitConsumerOptions<T>);
  }

  /**
   * Moves messages from the `poisonQueue` back to the queue. See {@link redrive}.
   * @throws `TypeError` if the option `poisonQueue` of the queue is not set.
   */
  async redrive(options?: RedriveOptions): Promise<RedriveResult> {
    const { poisonQueue } = this.#consumerDefaults;
    if (!poisonQueue) throw new TypeError("ConcurrentQueue.redrive needs the option poisonQueue of the queue");
    return redrive(poisonQueue, this.#client, options);
  }

  /**
   * Changes the metadata of the queue under a lock. See {@link leasedUpdate} and {@link queueMetadata}.
   * @throws {@link LeaseUnavailableError} if the lock is not free within `waitInMs`.
   * @throws {@link TargetNotFoundError} if the queue does not exist.
   */
  updateMetadata(
    mutator: Mutator<Record<string, string>>,
    options: LeasedUpdateOptions<Record<string, string>> & { lock: NamedLockRef },
  ): Promise<UpdateResult<Record<string, string>>> {
    return leasedUpdate(queueMetadata(this.#client), mutator, options);
  }
}
