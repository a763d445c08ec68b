import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import type { TableAction } from "../clients/table.js";
import type { EventNames } from "../core/typed-events.js";
import type { MessageLostError } from "../errors.js";
import type { RunTransactionOptions } from "../transaction/run-transaction.js";
import type { Transaction } from "../transaction/transaction.js";
import type { CommitResult } from "./inbox/commit-inbox.js";
import type { MessageProperties } from "./message-properties.js";
import type { ConsumerSettings } from "./options.js";
import type { OutgoingMessage, OutgoingQueues } from "./outgoing.js";
import type { PoisonSender } from "./poison-sender.js";

/** What events and handlers know of a message. See {@link QueueConsumer}. */
export interface MessageInfo extends MessageProperties {
  /** The idempotency key that the sender set, or that of `idempotencyKeyOf`, or the message id. */
  readonly idempotencyKey: string;
  /** The group of the message, by `groupOf` of the consumer or by its sender. */
  readonly group: string | undefined;
  /**
   * 1 plus the number of failed attempts. Deliveries without a failure are not counted: lost responses, a process that ended, a consumer
   * that was stopped, an inbox that could not be reached. A message of a producer without an envelope cannot carry the count: an inbox
   * that claims keys counts instead, or else its deliveries are counted.
   */
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
   * of the handler is ignored. `aborted` and `throwIfAborted` read the clock, as {@link MessageContext.assertHeld} does; listeners are
   * called up to a second later, if the process or its event loop was blocked.
   */
  readonly signal: AbortSignal;
  /**
   * Call it right before an effect: by the clock, and without a request, it checks that no other consumer can have the message or the
   * claim now, even if the process was suspended a moment ago.
   * @throws {@link MessageLostError} if message or claim are not held any more.
   */
  readonly assertHeld: () => void;
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
   * Requests that the message is delivered again after the handler has ended, by default after `retryDelayInMs`, and after 7 days at
   * most. The last call of `retry` and `poison` counts.
   * @throws `RangeError` if the delay is negative, or longer than 7 days.
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
 * Options of {@link CommitMessageContext.commit}.
 * @example
 * ```ts
 * await context.commit(actions, { send: [{ queue: invoices, payload: { order: 17 } }] });
 * ```
 */
export interface CommitOptions extends CallOptions {
  /**
   * Messages that are sent if the commit succeeds. They are stored with it, and sent after it; if the process ends before that, the next
   * delivery of the incoming message sends them. Each is sent at least once: the keys are the same, so the inbox of the next consumer drops
   * repeats. If they cannot be sent, the incoming message is retried, whatever the handler returns.
   * @defaultValue none
   */
  send?: readonly OutgoingMessage[] | undefined;
}

/** The argument of the function of {@link CommitMessageContext.transaction}. */
export interface CommitTransaction extends Transaction {
  /**
   * Adds a message to the transaction. It is sent if the transaction is committed: see `send` of {@link CommitOptions}.
   * @throws `TypeError` or `RangeError` if the message cannot be sent.
   */
  send(message: OutgoingMessage): void;
}

/** Options of {@link CommitMessageContext.transaction}: those of {@link runTransaction}; the message takes the place of an operation id. */
export type CommitTransactionOptions = Omit<RunTransactionOptions, "operationId">;

/** The result of {@link CommitMessageContext.transaction}. */
export interface CommitTransactionResult<R> {
  /** `"duplicate"`: the key was committed before, and nothing was written now. */
  readonly outcome: CommitResult;
  /** What the function returned; undefined for a duplicate. */
  readonly value: R | undefined;
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
   * read again and call again, or throw it: conflicts and an unreachable table are not counted as failures of the message. At most 99
   * actions, and one commit for a message. If the handler fails after it, the message is retried, and `commit` returns `"duplicate"`.
   * @throws {@link CommitUnknownError} if the outcome cannot be determined; throw it from the handler.
   * @throws {@link IdempotencyMismatchError} if the key was committed before, for another payload. The message is moved to the poison queue.
   * @throws {@link MessageLostError} if another consumer has the message.
   * @throws `TypeError` if it is called a second time, also while the first call is in progress, or after the handler has ended.
   * @throws `RangeError` if an entity is of another partition or has a row key of the library, there are more than 99 actions, or a message to
   * send is too large.
   */
  readonly commit: (actions: readonly TableAction[], options?: CommitOptions) => Promise<CommitResult>;
  /**
   * Reads and writes entities of the partition in a transaction, as {@link runTransaction} does, together with the record that this key
   * is completed. It takes the place of `commit`. On a conflict the function runs again; messages that are handled at the same time
   * share requests. A conflict that does not end, and a table that cannot be used, are not counted as failures of the message; what the function throws is.
   * @throws {@link CommitUnknownError} if the outcome cannot be determined; throw it from the handler.
   * @throws {@link ConflictError} if other writers kept changing what was read.
   * @throws {@link IdempotencyMismatchError} if the key was committed before, for another payload. The message is moved to the poison queue.
   * @throws {@link MessageLostError} if another consumer has the message.
   * @throws `TypeError` if this handler has called `commit` or `transaction` before, or has ended.
   */
  readonly transaction: <R = void>(fn: (tx: CommitTransaction) => Promise<R> | R, options?: CommitTransactionOptions) => Promise<CommitTransactionResult<R>>;
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
  /** A handler did not end after its signal had aborted, and is not waited for any more. Its message is retried. */
  abandoned: MessageInfo & { readonly durationInMs: number };
  /**
   * The consumer polls less, or not at all: `pause` was called (`"requested"`), handlers fail one after the other (`"failures"`), or the
   * inbox cannot be used (`"infrastructure"`).
   */
  paused: { readonly reason: "requested" | "failures" | "infrastructure"; readonly error: unknown };
  /** A poll received no messages. */
  empty: { readonly nextPollInMs: number };
  /** `stop` has ended. */
  stopped: Record<string, never>;
  /** A failure of something else than a handler: the queue, the poison queue or the inbox cannot be reached, for example. */
  error: unknown;
}

export const consumerEventNames: EventNames<QueueConsumerEvents> = {
  received: 1,
  completed: 1,
  duplicate: 1,
  retried: 1,
  poisoned: 1,
  lost: 1,
  abandoned: 1,
  paused: 1,
  empty: 1,
  stopped: 1,
  error: 1,
};

/** Calls the listeners of an event. */
export type Emit = <E extends keyof QueueConsumerEvents>(event: E, detail: QueueConsumerEvents[E]) => void;

/** Gets to know how handlers and inbox fare, and polls less if they fail. */
export interface WorkObserver {
  handlerFailed(error: unknown): void;
  handlerSucceeded(): void;
  /** Returns for how long to give the message back. */
  infrastructureFailed(error: unknown): number;
  infrastructureWorks(): void;
  /** A message has ended without a handler: this shows nothing of handlers. */
  handlerNotRun(): void;
  /** A message that was given back becomes visible after so long. */
  expectMessages(inMs: number): void;
}

/** What the processing of a message needs of its consumer. */
export interface ConsumerContext<T> {
  readonly queue: QueueLike;
  /** With a {@link CommitInbox}, its context is a {@link CommitMessageContext}. */
  readonly handler: (payload: T, context: MessageContext) => unknown;
  readonly settings: ConsumerSettings<T>;
  readonly emit: Emit;
  /** The clients of the queues that handlers send to. */
  readonly outgoingQueues: OutgoingQueues;
  readonly poisonSender: PoisonSender;
  /** What the handlers and the inbox show about when to poll. */
  readonly pace: WorkObserver;
  /** The delay before the next attempt. Never throws. */
  readonly retryDelay: (attempt: number, error: unknown) => number;
  /** A handler that goes on although the consumer does not wait for it any more. */
  readonly abandon: (handling: Promise<unknown>) => void;
  /** Aborts when the consumer begins to stop: no handler is started any more. */
  readonly stopping: AbortSignal;
  /** Aborts when the consumer is stopping and has waited long enough for handlers: they must end. */
  readonly stopHandlers: AbortSignal;
  /** Aborts when it has waited long enough after that, too: all messages are dropped as they are. */
  readonly dropAll: AbortSignal;
}
