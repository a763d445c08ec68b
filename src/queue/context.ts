import type { OperationTracingOptions } from "@azure/core-tracing";
import type { QueueLike } from "../clients/queue.js";
import type { TransactionActionLike } from "../clients/table.js";
import type { ConsumerSettings } from "./options.js";

/** The second argument of a handler, after the payload. */
export interface MessageContext {
  /**
   * Aborts with a `MessageLostError` before another consumer can receive the message, with a `OperationTimeoutError` when
   * `maxProcessingTimeInMs` is over, and with an `AbortError` when the consumer stops and waits no longer. After that, a return
   * of the handler is ignored; only a commit takes effect.
   */
  readonly signal: AbortSignal;
  /** 1 for the first attempt. Deliveries that never reached a handler are not counted. */
  readonly attempt: number;
  readonly messageId: string;
  /** The idempotency key that the sender set, or the message id. */
  readonly key: string;
  readonly insertedOn: Date;
  /** What an earlier attempt passed to {@link MessageContext.checkpoint}, if it was written. */
  readonly lastCheckpoint: unknown;
  /** Parent for the spans of the handler's own requests. */
  readonly tracingOptions: OperationTracingOptions | undefined;

  /** Hides the message for at least this long from now. Not needed to keep it: it is renewed automatically. */
  readonly extend: (options?: { seconds?: number | undefined }) => Promise<void>;
  /** Requests that the message is delivered again after the handler has ended. The last call of `retry` and `poison` counts. */
  readonly retry: (options?: { delayInMs?: number | undefined }) => void;
  /** Requests that the message is moved to the poison queue (dead-lettered) after the handler has ended. */
  readonly poison: (reason: string) => void;
  /**
   * Writes entities of one partition, and the record that this key is done, in one transaction. It is committed once for each
   * key, however many consumers call it, and however often: `"duplicate"` means that it was committed before, and nothing was
   * written now. Needs a `TableInbox` with the mode `"commit"`, on the table of the entities. A conflict of the entities
   * themselves is thrown as the SDK raises it; read again and call again.
   */
  readonly commit: (partitionKey: string, actions: readonly TransactionActionLike[]) => Promise<"committed" | "duplicate">;
  /**
   * Stores the progress of the handler in the message itself, for the next attempt. It costs no request: it is sent with the next
   * renewal, with `extend`, or with a retry. Must fit into 64 KiB with the payload.
   */
  readonly checkpoint: (data: unknown) => void;
}

/** Processes one message. If it returns, the message is deleted; if it throws, the message is retried after a delay. */
export type MessageHandler<T> = (payload: T, context: MessageContext) => unknown;

/** The message of an event. */
export interface MessageInfo {
  readonly messageId: string;
  readonly key: string;
  readonly attempt: number;
  readonly insertedOn: Date;
}

/** The events of a `QueueConsumer`, with the arguments of their listeners. */
export interface QueueConsumerEvents {
  /** A message was received. */
  received: (message: MessageInfo) => void;
  /** The handler of a message has ended, and the message is deleted. */
  completed: (message: MessageInfo & { readonly durationInMs: number }) => void;
  /** According to the inbox, the key of a message is done. */
  duplicate: (message: MessageInfo) => void;
  /** The handler of a message failed or requested a retry: it is delivered again after the delay. */
  retry: (message: MessageInfo & { readonly delayInMs: number; readonly error: unknown }) => void;
  /** A message was moved to the poison queue. */
  poisoned: (message: MessageInfo & { readonly reason: string; readonly error: unknown }) => void;
  /** This consumer has lost a message; it will be delivered again. */
  lost: (message: MessageInfo & { readonly error: unknown }) => void;
  /** A failure that is retried: the queue or the inbox cannot be reached, or an event listener threw. */
  error: (error: unknown) => void;
  /** A poll received no messages. */
  empty: (poll: { readonly nextPollInMs: number }) => void;
  /** `stop()` has ended. */
  stopped: () => void;
}

/** Calls the listeners of an event. */
export type Emit = <E extends keyof QueueConsumerEvents>(event: E, ...args: Parameters<QueueConsumerEvents[E]>) => void;

/** What the processing of a message needs of its consumer. */
export interface ConsumerContext<T> {
  readonly queue: QueueLike;
  readonly handler: MessageHandler<T>;
  readonly settings: ConsumerSettings<T>;
  readonly emit: Emit;
  /** Aborts when the consumer is stopping and has waited long enough for handlers: they must end. */
  readonly stopHandlers: AbortSignal;
  /** Aborts when it has waited long enough after that, too: all messages are dropped as they are. */
  readonly dropAll: AbortSignal;
}
