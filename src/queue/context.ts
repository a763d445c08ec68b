import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import type { TableAction } from "../clients/table.js";
import type { EventNames } from "../core/typed-events.js";
import type { MessageLostError } from "../errors.js";
import type { CommitResult } from "./inbox/commit-inbox.js";
import type { MessageProperties } from "./message-properties.js";
import type { ConsumerSettings } from "./options.js";

/** What events and handlers know of a message. See {@link QueueConsumer}. */
export interface MessageInfo extends MessageProperties {
  /** The idempotency key that the sender set, or that of `idempotencyKeyOf`, or the message id. */
  readonly idempotencyKey: string;
  /** 1 for the first attempt. Deliveries that never reached a handler are not counted. */
  readonly attempt: number;
}

/**
 * The second argument of a handler, after the payload. Its functions do not depend on `this`.
 * @example
 * ```ts
 * new QueueConsumer(queue, async (order: Order, { signal, checkpoint }) => {
 *   checkpoint({ charged: await charge(order, signal) });
 * });
 * ```
 */
export interface MessageContext extends MessageInfo {
  /**
   * Aborts with a `MessageLostError` before another consumer can receive the message, with an `OperationTimeoutError` when
   * `maxProcessingTimeInMs` is over, and with an `AbortError` when the consumer stops and waits no longer. After that, a return
   * of the handler is ignored; only a commit takes effect.
   */
  readonly signal: AbortSignal;
  /** What an earlier attempt passed to {@link MessageContext.checkpoint}, if it was written. */
  readonly lastCheckpoint: unknown;
  /** The parent for the spans of the handler's own requests. */
  readonly tracingOptions: OperationTracingOptions;

  /**
   * Hides the message for at least this long from now: by default the visibility timeout. Not needed to keep it, as it is renewed
   * automatically.
   * @throws {@link MessageLostError} if another consumer has the message.
   */
  readonly extend: (options?: { durationInMs?: number | undefined }) => Promise<void>;
  /**
   * Requests that the message is delivered again after the handler has ended, by default after `retryDelayInMs`. The last call of
   * `retry` and `poison` counts.
   */
  readonly retry: (options?: { delayInMs?: number | undefined }) => void;
  /** Requests that the message is moved to the poison queue (dead-lettered) after the handler has ended. */
  readonly poison: (reason: string) => void;
  /**
   * Stores the progress of the handler in the message itself, for the next attempt. It costs no request: it is sent with the next
   * renewal, with `extend`, or with a retry.
   * @throws `RangeError` if it does not fit into 64 KiB with the payload.
   */
  readonly checkpoint: (data: unknown) => void;
}

/**
 * The second argument of a handler if the inbox is a {@link CommitInbox}.
 * @example
 * ```ts
 * const outcome = await context.commit([["upsert", { rowKey: order.id, state: "paid" }]]);
 * ```
 */
export interface CommitMessageContext extends MessageContext {
  /** The partition that `partitionOf` returned. */
  readonly partitionKey: string;
  /**
   * Writes entities of the partition, and the record that this key is completed, in one transaction. It is committed once for each
   * key, however many consumers call it, and however often. A conflict of the entities themselves is thrown as the SDK raises it;
   * read again and call again. At most 99 actions.
   * @throws {@link CommitUnknownError} if the outcome cannot be determined; throw it from the handler.
   * @throws {@link MessageLostError} if another consumer has the message.
   * @throws `RangeError` if an entity is of another partition, or there are more than 99 actions.
   */
  readonly commit: (actions: readonly TableAction[], options?: CallOptions) => Promise<CommitResult>;
}

/**
 * Processes one message. If it returns, the message is deleted; if it throws, the message is retried after a delay. See
 * {@link QueueConsumer}.
 */
export type MessageHandler<T, C extends MessageContext = MessageContext> = (payload: T, context: C) => unknown;

/**
 * The events of a {@link QueueConsumer}, with their details.
 * @example
 * ```ts
 * consumer.on("poisoned", ({ messageId, reason }) => alert(messageId, reason));
 * ```
 */
export interface QueueConsumerEvents {
  /** A message was received. */
  received: MessageInfo;
  /** The handler of a message has ended, and the message is deleted. */
  completed: MessageInfo & { readonly durationInMs: number };
  /** According to the inbox, the key of a message was completed before. */
  duplicate: MessageInfo;
  /** The handler of a message failed or requested a retry: the message is delivered again after the delay. */
  retried: MessageInfo & { readonly delayInMs: number; readonly error: unknown };
  /** A message was moved to the poison queue. */
  poisoned: MessageInfo & { readonly reason: string; readonly error: unknown };
  /** This consumer has lost a message; it will be delivered again. */
  lost: MessageInfo & { readonly error: MessageLostError };
  /** A poll received no messages. */
  empty: { readonly nextPollInMs: number };
  /** `stop` has ended. */
  stopped: Record<string, never>;
  /** A failure that is retried: the queue, the poison queue or the inbox cannot be reached. */
  error: unknown;
}

export const consumerEventNames: EventNames<QueueConsumerEvents> = {
  received: 1,
  completed: 1,
  duplicate: 1,
  retried: 1,
  poisoned: 1,
  lost: 1,
  empty: 1,
  stopped: 1,
  error: 1,
};

/** Calls the listeners of an event. */
export type Emit = <E extends keyof QueueConsumerEvents>(event: E, detail: QueueConsumerEvents[E]) => void;

/** What the processing of a message needs of its consumer. */
export interface ConsumerContext<T> {
  readonly queue: QueueLike;
  /** With a {@link CommitInbox}, its context is a {@link CommitMessageContext}. */
  readonly handler: (payload: T, context: MessageContext) => unknown;
  readonly settings: ConsumerSettings<T>;
  readonly emit: Emit;
  /** Aborts when the consumer is stopping and has waited long enough for handlers: they must end. */
  readonly stopHandlers: AbortSignal;
  /** Aborts when it has waited long enough after that, too: all messages are dropped as they are. */
  readonly dropAll: AbortSignal;
}
