import type { AbortSignalLike, AdapterRequest, CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { ServiceRunner } from "../core/background-service.js";
import type { BackgroundService, StopOptions } from "../core/background-service.js";
import { check } from "../core/request.js";
import { recorder } from "../core/measure.js";
import { EventDispatcher } from "../core/typed-events.js";
import type { TypedEvents } from "../core/typed-events.js";
import { isParentNotFound, isUnauthorized } from "../core/storage-errors.js";
import { errorLabel, errorType, logger, redactUrl, withSpan } from "../core/telemetry.js";
import { createError, TargetNotFoundError } from "../errors.js";
import { consumerEventNames } from "./context.js";
import type { CommitMessageContext, ConsumerContext, Emit, MessageHandler, QueueConsumerEvents } from "./context.js";
import { checkQueue, consumerSettings } from "./options.js";
import type { CommitConsumerOptions, ConsumerSettings, QueueConsumerOptions } from "./options.js";
import { PollingLoop } from "./polling-loop.js";

/**
 * The health of a consumer, for probes.
 * @example
 * ```ts
 * const { isRunning, consecutiveErrors } = consumer.health();
 * response.statusCode = isRunning && consecutiveErrors < 10 ? 200 : 503;
 * ```
 */
export interface QueueConsumerHealth {
  /** Whether the consumer has started, and `stop` has not been called since. */
  readonly isRunning: boolean;
  /** Whether it polls less, or not at all: see the event `paused`. */
  readonly isPaused: boolean;
  /** Messages that are being processed. */
  readonly inFlight: number;
  /** Handlers that were abandoned, and still run. */
  readonly abandoned: number;
  /** When a receive was last sent. */
  readonly lastPollOn: Date | undefined;
  /** When a message was last completed, or recognised as a duplicate. */
  readonly lastSuccessOn: Date | undefined;
  /** How often the queue or the inbox has failed in a row. */
  readonly consecutiveErrors: number;
  /** How many messages the queue has, hidden ones included, as read for an earlier call of `health`. Undefined: not known yet. */
  readonly approximateMessageCount: number | undefined;
  /** When the oldest message of the last receive was sent. Undefined: the queue was empty. */
  readonly oldestMessageInsertedOn: Date | undefined;
}

/**
 * Receives messages, keeps them hidden while a handler processes them, and deletes them when it is done. A queue delivers at
 * least once; with an inbox, duplicates are recognised. `T` is the type of the payload: with a schema, the output of the schema.
 *
 * Each message costs a share of a receive and one delete, and an update for each half of the visibility timeout that its handler
 * takes.
 * @example
 * ```ts
 * const consumer = new QueueConsumer(queue, (order: Order, { signal }) => ship(order, signal), {
 *   inbox: new ClaimInbox(table),
 *   poisonQueue,
 * });
 * consumer.on("error", (error) => console.error(error));
 * await consumer.run({ abortSignal: shutdown.signal });
 * ```
 */
export class QueueConsumer<T = unknown> implements BackgroundService, TypedEvents<QueueConsumerEvents> {
  readonly #queue: QueueLike;
  readonly #handler: ConsumerContext<T>["handler"];
  readonly #settings: ConsumerSettings<T>;
  readonly #events: EventDispatcher<QueueConsumerEvents>;
  readonly #service: ServiceRunner;
  readonly #abandoned = { count: 0 };
  #loop: PollingLoop<T> | undefined;
  #paused = false;

  /** With a {@link CommitInbox} and `partitionOf`, the handler commits its effect: `context.commit(actions)`. */
  constructor(queue: QueueLike, handler: MessageHandler<T, CommitMessageContext>, options: CommitConsumerOptions<T>);
  /** Without an inbox, or with one that claims keys: {@link ClaimInbox}, or an {@link Inbox} of the application. */
  constructor(queue: QueueLike, handler: MessageHandler<T>, options?: QueueConsumerOptions<T>);
  constructor(
    queue: QueueLike,
    handler: MessageHandler<T> | MessageHandler<T, CommitMessageContext>,
    options: QueueConsumerOptions<T> | CommitConsumerOptions<T> = {},
  ) {
    if (typeof handler !== "function") throw new TypeError("QueueConsumer: the handler must be a function");
    this.#settings = consumerSettings(options);
    this.#queue = checkQueue("QueueConsumer", queue);
    const { poisonQueue } = this.#settings;
    if (poisonQueue && redactUrl(poisonQueue.url) === redactUrl(queue.url)) {
      throw new TypeError(`QueueConsumer: the poison queue must be another queue than ${queue.name}: its messages would be handled again and again`);
    }
    // The context has what the handler needs: the overloads tie both to the inbox.
    this.#handler = handler as ConsumerContext<T>["handler"];
    const name = `QueueConsumer of ${queue.name}`;
    this.#events = new EventDispatcher(name, consumerEventNames);
    this.#service = new ServiceRunner({
      name,
      drainTimeoutInMs: this.#settings.drainTimeoutInMs,
      prepare: (request) => this.#prepare(request),
      launch: () => {
        this.#loop = new PollingLoop(this.#queue, this.#handler, this.#settings, this.#emit, this.#abandoned);
        if (this.#paused) this.#loop.pause();
        return this.#loop;
      },
    });
  }

  /** Whether it has started, and `stop` has not been called since. */
  get isRunning(): boolean {
    return this.#service.isRunning;
  }

  /**
   * Checks that the queue, the inbox table and the container of `overflow` exist, creates the poison queue and (if requested) the inbox table if they do not exist,
   * and starts to poll. Does nothing if it is running.
   * @throws {@link TargetNotFoundError} if the queue, the inbox table or the container does not exist.
   */
  start(options?: CallOptions): Promise<void> {
    return this.#service.start(options);
  }

  /**
   * Stops polling; waits for the handlers up to `drainTimeoutInMs`, renewing their messages; then aborts their signals and
   * releases their messages to the queue, which takes two seconds at most. Afterwards no timer and no request is left.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  stop(options?: StopOptions): Promise<void> {
    return this.#service.stop(options);
  }

  /**
   * Starts, runs until the signal aborts or `stop` is called, and stops. Rejects only if it could not start.
   * @throws {@link TargetNotFoundError} if the queue does not exist.
   */
  run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    return this.#service.run(options);
  }

  /** Stops polling until {@link QueueConsumer.resume} is called; handlers go on. Remembered if it has not started. */
  pause(): void {
    this.#paused = true;
    this.#loop?.pause();
  }

  /** Polls again, at once. */
  resume(): void {
    this.#paused = false;
    this.#loop?.resume();
  }

  /** Polls at once. To be called when it is known that the queue has a message. */
  notify(): void {
    this.#loop?.notify();
  }

  /**
   * The current state, at once. Reads the length of the queue in the background, for the next call: 1 request in 10 seconds at most, and
   * none if it is not called.
   */
  health(): QueueConsumerHealth {
    const idle = { isPaused: false, inFlight: 0, abandoned: 0, lastPollOn: undefined, lastSuccessOn: undefined, consecutiveErrors: 0, approximateMessageCount: undefined, oldestMessageInsertedOn: undefined };
    return { isRunning: this.isRunning, ...(this.#loop?.health ?? idle) };
  }

  /** Adds a listener. A listener that throws has no effect on the consumer. */
  on<K extends keyof QueueConsumerEvents>(event: K, listener: (detail: QueueConsumerEvents[K]) => void): this {
    this.#events.add(event, listener);
    return this;
  }

  /** Adds a listener for the next event only. */
  once<K extends keyof QueueConsumerEvents>(event: K, listener: (detail: QueueConsumerEvents[K]) => void): this {
    this.#events.add(event, listener, true);
    return this;
  }

  /** Removes a listener. */
  off<K extends keyof QueueConsumerEvents>(event: K, listener: (detail: QueueConsumerEvents[K]) => void): this {
    this.#events.remove(event, listener);
    return this;
  }

  /** Stops, as {@link QueueConsumer.stop} does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #prepare({ abortSignal, tracingOptions: parent }: AdapterRequest): Promise<void> {
    const { poisonQueue, inbox, commits, overflow } = this.#settings;
    await withSpan("QueueConsumer.start", { abortSignal, tracingOptions: parent }, async (tracingOptions = {}) => {
      const request = { abortSignal, tracingOptions };
      await checkExists("queue", this.#queue, request);
      if (overflow) await checkExists("container", overflow, request);
      if (poisonQueue) await createPoisonQueue(poisonQueue, request);
      await (commits?.inbox ?? inbox)?.prepare(request);
    }, { targetKind: "queue", url: this.#queue.url });
  }

  readonly #emit: Emit = (event, detail) => {
    recorder?.countDelivery(this.#queue.name, event);
    logEvent(this.#queue.name, event, detail);
    this.#events.emit(event, detail, failureOf(event, detail));
  };
}

/** A SAS that may receive messages need not allow to ask for the properties: then the first poll shows whether the queue exists. */
async function checkExists(kind: string, client: Pick<QueueLike, "url" | "getProperties">, request: AdapterRequest): Promise<void> {
  try {
    await check(client.url, (options) => client.getProperties(options), request);
  } catch (error) {
    if (isUnauthorized(error)) return;
    if (!isParentNotFound(error)) throw error;
    const url = redactUrl(client.url);
    throw createError(TargetNotFoundError, `The ${kind} ${url} does not exist. Create it, or check its name.`, { url, cause: error });
  }
}

/** A SAS for one queue cannot create another one. */
async function createPoisonQueue(poisonQueue: QueueLike, request: AdapterRequest): Promise<void> {
  try {
    await check(poisonQueue.url, (options) => poisonQueue.createIfNotExists(options), request);
  } catch (error) {
    if (!isUnauthorized(error)) throw error;
    await checkExists("queue", poisonQueue, request);
  }
}

/** What an event reports that a developer must see, even without a listener. Being stopped is no failure. */
function failureOf(event: keyof QueueConsumerEvents, detail: unknown): unknown {
  if (event === "error") return detail;
  if (event === "poisoned" || event === "abandoned") return (detail as { error?: unknown }).error ?? namedError(event === "poisoned" ? "PoisonMessage" : "AbandonedHandler");
  const { error } = detail as { error?: unknown };
  return event === "retried" && errorType(error) !== "AbortError" ? error : undefined;
}

/** Of an event that has no error. What is reported shows the name. */
function namedError(name: string): Error {
  return Object.assign(new Error(name), { name });
}

/** A failure that is not retried is a warning; one that is retried is not. Of a message only the id is logged. */
function logEvent(queue: string, event: keyof QueueConsumerEvents, detail: unknown): void {
  if (event === "error") logger.warning(`queue ${queue}: ${errorLabel(detail)}`);
  if (event !== "lost" && event !== "poisoned" && event !== "retried") return;
  const { messageId, error } = detail as { messageId: string; error?: unknown };
  const message = `message ${messageId} of queue ${queue}: ${event}${error === undefined ? "" : ` after ${errorLabel(error)}`}`;
  if (event === "retried") logger.verbose(message);
  else logger.warning(message);
}
