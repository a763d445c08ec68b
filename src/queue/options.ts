import type { QueueLike } from "../clients/queue.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { jitter } from "../core/retry.js";
import { checkNumber } from "../core/validate.js";
import { checkEncoding } from "./envelope.js";
import type { QueueEncoding } from "./envelope.js";
import type { Inbox } from "./inbox/inbox.js";

/** The properties of a message that are known before its payload is decoded. */
export interface MessageProperties {
  readonly messageId: string;
  readonly insertedOn: Date;
  readonly dequeueCount: number;
}

/** Options of a `QueueConsumer`. */
export interface QueueConsumerOptions<T> {
  /** Recognises duplicates. Without one, a message that is delivered twice is handled twice. @defaultValue none */
  inbox?: Inbox | undefined;
  /**
   * The queue for messages that cannot be decoded or have failed too often, usually the client of `<queue>-poison`. It is created
   * if it does not exist. Without one, they stay in the queue and are retried, at the longest interval.
   * @defaultValue none
   */
  poisonQueue?: QueueLike | undefined;
  /** How many messages are processed at the same time. @defaultValue 16 */
  concurrency?: number | undefined;
  /**
   * How long a message stays hidden without renewal, and so after a crash. Renewed halfway through.
   * @defaultValue 60
   */
  visibilityTimeoutInSeconds?: number | undefined;
  /** After this many failed attempts, a message is moved to the poison queue. @defaultValue 5 */
  maxAttempts?: number | undefined;
  /**
   * Milliseconds until a failed message is delivered again.
   * @defaultValue 1 s for the first, doubled each time up to 5 minutes, ±20 %: a dependency that is down is not stormed
   */
  retryDelay?: number | ((attempt: number, error: unknown) => number) | undefined;
  /** The wait after an empty poll. It doubles with each further empty poll. @defaultValue 100: prompt after a pause */
  minPollIntervalInMs?: number | undefined;
  /** The longest wait while the queue stays empty. @defaultValue 10_000: 9,000 requests a day when nothing happens */
  maxPollIntervalInMs?: number | undefined;
  /** After this time the signal of a handler aborts, and its message is no longer renewed. @defaultValue Infinity */
  maxProcessingTimeInMs?: number | undefined;
  /** How long `stop()` waits for handlers before it aborts their signals. @defaultValue 30_000 */
  drainTimeoutInMs?: number | undefined;
  /** @defaultValue "text" */
  encoding?: QueueEncoding | undefined;
  /**
   * Decodes the payload from the text of a message. If it throws, the message is moved to the poison queue.
   * @defaultValue JSON where it is JSON, else the text itself
   */
  decode?: ((text: string, message: MessageProperties) => T | Promise<T>) | undefined;
  /** Checks the payload. If it is invalid, the message is moved to the poison queue. @defaultValue none */
  schema?: StandardSchemaLike<T> | undefined;
  /**
   * The key of a message that was sent without one, for producers that do not use `enqueue`.
   * @defaultValue the message id
   */
  idempotencyKey?: ((payload: T, message: MessageProperties) => string) | undefined;
}

/** The options with their defaults. */
export interface ConsumerSettings<T> {
  readonly inbox: Inbox | undefined;
  readonly poisonQueue: QueueLike | undefined;
  readonly concurrency: number;
  readonly visibilityTimeoutInSeconds: number;
  readonly maxAttempts: number;
  readonly retryDelay: (attempt: number, error: unknown) => number;
  readonly minPollInMs: number;
  readonly maxPollInMs: number;
  readonly maxProcessingTimeInMs: number;
  readonly drainTimeoutInMs: number;
  readonly encoding: QueueEncoding;
  readonly decode: QueueConsumerOptions<T>["decode"];
  readonly schema: StandardSchemaLike<T> | undefined;
  readonly idempotencyKey: QueueConsumerOptions<T>["idempotencyKey"];
}

const defaults = Object.freeze({
  concurrency: 16,
  visibilityTimeoutInSeconds: 60,
  maxAttempts: 5,
  minPollInMs: 100,
  maxPollInMs: 10_000,
  maxProcessingTimeInMs: Infinity,
  drainTimeoutInMs: 30_000,
});

export function consumerSettings<T>(options: QueueConsumerOptions<T>): ConsumerSettings<T> {
  const { retryDelay = defaultRetryDelay, minPollIntervalInMs = defaults.minPollInMs } = options;
  const minPollInMs = checkNumber("minPollIntervalInMs", minPollIntervalInMs, { min: 1 });
  return {
    inbox: options.inbox,
    poisonQueue: options.poisonQueue,
    concurrency: checkNumber("concurrency", options.concurrency ?? defaults.concurrency, { min: 1, max: 10_000, integer: true }),
    visibilityTimeoutInSeconds: checkNumber(
      "visibilityTimeoutInSeconds",
      options.visibilityTimeoutInSeconds ?? defaults.visibilityTimeoutInSeconds,
      { min: 1, max: 7 * 86_400, integer: true },
    ),
    maxAttempts: checkNumber("maxAttempts", options.maxAttempts ?? defaults.maxAttempts, { min: 1, integer: true }),
    retryDelay: typeof retryDelay === "number" ? constant(checkNumber("retryDelay", retryDelay, { min: 0 })) : retryDelay,
    minPollInMs,
    maxPollInMs: checkNumber("maxPollIntervalInMs", options.maxPollIntervalInMs ?? Math.max(defaults.maxPollInMs, minPollInMs), { min: minPollInMs }),
    maxProcessingTimeInMs: checkNumber("maxProcessingTimeInMs", options.maxProcessingTimeInMs ?? defaults.maxProcessingTimeInMs, { min: 1 }),
    drainTimeoutInMs: checkNumber("drainTimeoutInMs", options.drainTimeoutInMs ?? defaults.drainTimeoutInMs, { min: 0 }),
    encoding: checkEncoding(options.encoding),
    decode: options.decode,
    schema: options.schema,
    idempotencyKey: options.idempotencyKey,
  };
}

function constant(value: number): () => number {
  return () => value;
}

function defaultRetryDelay(attempt: number): number {
  // Jitter, so that messages that failed together are not delivered again together.
  return jitter(Math.min(300_000, 1_000 * 2 ** Math.min(attempt - 1, 20)), 0.2);
}
