import type { OperationTracingOptions } from "@azure/core-tracing";
import type { QueueLike } from "../clients/queue.js";
import type { InboxTableAction } from "../clients/table.js";
import type { ConsumerSettings } from "./options.js";

/** What a handler gets besides the payload. */
export interface MessageContext {
  /**
   * Aborts with a `MessageLostError` before another consumer can get the message, with a `DeadlineError` when
   * `maxProcessingTimeInMs` is over, and with an `AbortError` when the consumer stops and waits no longer.
   * After that it does not count that the handler returns; only a commit does.
   */
  readonly signal: AbortSignal;
  /** 1 for the first. Deliveries that never reached a handler are not counted. */
  readonly attempt: number;
  readonly messageId: string;
  /** The idempotency key: of the sender, or the message id. */
  readonly key: string;
  readonly insertedOn: Date;
  /** What an earlier attempt handed to {@link MessageContext.checkpoint}, if it got through. */
  readonly lastCheckpoint: unknown;
  /** Parent for the spans of the handler's own requests. */
  readonly tracingOptions: OperationTracingOptions | undefined;

  /** Hides the message for at least so long from now. Not needed to keep it: that happens by itself. */
  readonly extend: (options?: { seconds?: number | undefined }) => Promise<void>;
  /** When the handler is through: deliver the message again. The last word of `retry` and `poison` counts. */
  readonly retry: (options?: { delayInMs?: number | undefined }) => void;
  /** When the handler is through: put the message aside. */
  readonly poison: (reason: string) => void;
  /**
   * Writes entities of one partition, and that this key is done, in one transaction. Once for each key, whoever
   * calls, however often: `"duplicate"` says that it was done before, and nothing was written now. Needs a
   * `TableInbox` with the mode `"commit"`, on the table of the entities. A conflict of the entities themselves is
   * thrown as the SDK raises it; read again and call again.
   */
  readonly commit: (partitionKey: string, actions: readonly InboxTableAction[]) => Promise<"committed" | "duplicate">;
  /**
   * Notes how far the handler has come, in the message itself, for the next attempt. It costs no request: it goes
   * along when the message is renewed the next time, or with `extend` or a retry. Must fit into 64 KiB with the payload.
   */
  readonly checkpoint: (data: unknown) => void;
}

/** Works on one message. Returning means done, throwing means again later. */
export type MessageHandler<T> = (payload: T, context: MessageContext) => unknown;

/** Which message an event is about. */
export interface MessageInfo {
  readonly messageId: string;
  readonly key: string;
  readonly attempt: number;
  readonly insertedOn: Date;
}

/** The events of a `QueueConsumer`, with what their listeners get. */
export interface QueueConsumerEvents {
  /** A message has arrived. */
  received: (message: MessageInfo) => void;
  /** Its handler has finished, and it is off the queue. */
  completed: (message: MessageInfo & { readonly durationInMs: number }) => void;
  /** The inbox knows its key to be done. */
  duplicate: (message: MessageInfo) => void;
  /** Its handler failed or asked for it: it is delivered again after the delay. */
  retry: (message: MessageInfo & { readonly delayInMs: number; readonly error: unknown }) => void;
  /** It was put aside. */
  poisoned: (message: MessageInfo & { readonly reason: string; readonly error: unknown }) => void;
  /** It is no longer ours; somebody will get it again. */
  lost: (message: MessageInfo & { readonly error: unknown }) => void;
  /** Something went wrong that is tried again: the queue or the inbox cannot be reached, or an event listener threw. */
  error: (error: unknown) => void;
  /** The queue had nothing. */
  empty: (poll: { readonly nextPollInMs: number }) => void;
  /** `stop()` is through. */
  stopped: () => void;
}

/** Tells the listeners. */
export type Emit = <E extends keyof QueueConsumerEvents>(event: E, ...args: Parameters<QueueConsumerEvents[E]>) => void;

/** What working on a message needs to know of its consumer. */
export interface ConsumerContext<T> {
  readonly queue: QueueLike;
  readonly handler: MessageHandler<T>;
  readonly settings: ConsumerSettings<T>;
  readonly emit: Emit;
  /** Aborts when the consumer is stopping and has waited long enough: handlers are to stop. */
  readonly stopHandlers: AbortSignal;
  /** Aborts when it has waited long enough for those, too: everything is dropped as it is. */
  readonly dropAll: AbortSignal;
}
