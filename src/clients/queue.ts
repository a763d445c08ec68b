import type { OperationTracingOptions } from "@azure/core-tracing";

/** Options of one queue request, as the SDK accepts them. */
export interface QueueCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

/** A message as `receiveMessages()` returns it. */
export interface QueueMessageLike {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly messageText: string;
  readonly insertedOn: Date;
  readonly expiresOn: Date;
  readonly dequeueCount: number;
  /** Shows the time of the service where the date of the response is not visible. */
  readonly nextVisibleOn?: Date | undefined;
}

/**
 * A `QueueClient`, for `enqueue`, `QueueConsumer` and `queueMetadata`.
 * @example
 * ```ts
 * const queue: QueueLike = queueService.getQueueClient("orders");
 * await enqueue(queue, { order: 17 });
 * ```
 */
export interface QueueLike {
  readonly url: string;
  readonly name: string;
  getProperties(options?: QueueCallOptions): Promise<{ metadata?: Record<string, string> | undefined; approximateMessagesCount?: number | undefined }>;
  setMetadata(metadata?: Record<string, string>, options?: QueueCallOptions): Promise<object>;
  createIfNotExists(options?: QueueCallOptions): Promise<object>;
  sendMessage(
    messageText: string,
    options?: QueueCallOptions & { messageTimeToLive?: number; visibilityTimeout?: number },
  ): Promise<{ messageId: string; popReceipt?: string | undefined }>;
  receiveMessages(
    options?: QueueCallOptions & { numberOfMessages?: number; visibilityTimeout?: number },
  ): Promise<{ date?: Date | undefined; receivedMessageItems: readonly QueueMessageLike[] }>;
  updateMessage(
    messageId: string,
    popReceipt: string,
    message?: string,
    visibilityTimeout?: number,
    options?: QueueCallOptions,
  ): Promise<{ popReceipt?: string | undefined }>;
  deleteMessage(messageId: string, popReceipt: string, options?: QueueCallOptions): Promise<object>;
}
