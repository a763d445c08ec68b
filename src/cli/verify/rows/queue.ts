import type { QueueClient, QueueServiceClient } from "@azure/storage-queue";

import type { SdkResponse } from "../exchange.js";
import type { Row } from "../row.js";

/** A queue with one message, whose receipt is kept up to date. */
export interface QueueSubject {
  readonly service: QueueServiceClient;
  readonly queue: QueueClient;
  readonly messageId: string;
  popReceipt: string;
}

export interface QueueRow extends Row {
  /**
   * `last writer wins`: nothing is checked. `pop receipt`: only who received the message last may.
   * `hides`: what is received is hidden for its visibility timeout. `none`: it does not touch what others do.
   */
  readonly concurrency: "last writer wins" | "pop receipt" | "hides" | "none";
  /** Whether the response has a receipt. */
  readonly givesReceipt: boolean;
  readonly call: (subject: QueueSubject, value: string) => Promise<SdkResponse>;
  /** The value that the last call wrote. */
  readonly read?: (subject: QueueSubject) => Promise<string | undefined>;
}

/** Rejections of a receipt. */
export const receiptResponses = {
  stale: { azure: "404 MessageNotFound", azurite: "400 PopReceiptMismatch" },
  malformed: { azure: "400 InvalidQueryParameterValue", azurite: "400 PopReceiptMismatch" },
} as const;

const staleReceipt = "rejects an outdated receipt with 400 PopReceiptMismatch; Azure with 404 MessageNotFound";

/** Queue operations. None of them takes a condition or a lease, or returns an ETag. */
export const queueRows: readonly QueueRow[] = [
  {
    operation: "Put Message",
    concurrency: "none",
    givesReceipt: true,
    note: "a repeated send after a lost response creates a second message",
    helper: "`enqueue` with an `idempotencyKey`",
    call: ({ queue }, value) => queue.sendMessage(value),
  },
  {
    operation: "Get Messages",
    concurrency: "hides",
    givesReceipt: true,
    note: "hidden for the visibility timeout, then received by another consumer",
    azurite: "in strict order; Azure guarantees none",
    helper: "`QueueConsumer`",
    call: ({ queue }) => queue.receiveMessages({ visibilityTimeout: 30 }),
  },
  {
    operation: "Peek Messages",
    concurrency: "none",
    givesReceipt: false,
    call: ({ queue }) => queue.peekMessages(),
  },
  {
    operation: "Update Message",
    source: "documented; recorded: the response to an outdated receipt",
    concurrency: "pop receipt",
    givesReceipt: true,
    note: "the last writer with the receipt wins; each update creates a new receipt. Without a visibility timeout the message is visible at once",
    azurite: staleReceipt,
    helper: "`QueueConsumer` renews and releases",
    call: ({ queue, messageId, popReceipt }, value) => queue.updateMessage(messageId, popReceipt, value, 30),
  },
  {
    operation: "Delete Message",
    source: "documented; recorded: the response to an outdated receipt",
    concurrency: "pop receipt",
    givesReceipt: false,
    note: "also works after the visibility timeout, if no consumer has received the message again",
    azurite: staleReceipt,
    helper: "`QueueConsumer`",
    call: ({ queue, messageId, popReceipt }) => queue.deleteMessage(messageId, popReceipt),
  },
  {
    operation: "Clear Messages",
    concurrency: "last writer wins",
    givesReceipt: false,
    note: "hidden ones, too",
    call: ({ queue }) => queue.clearMessages(),
  },
  {
    operation: "Set Queue Metadata",
    concurrency: "last writer wins",
    givesReceipt: false,
    note: "no condition and no lease: only a separate lock protects it",
    helper: "`leasedUpdate(queueMetadata)`, with a `lock`",
    call: ({ queue }, value) => queue.setMetadata({ value }),
    read: async ({ queue }) => (await queue.getProperties()).metadata?.["value"],
  },
  {
    operation: "Set Queue ACL",
    concurrency: "last writer wins",
    givesReceipt: false,
    helper: "`BlobLocks`",
    call: ({ queue }, value) => queue.setAccessPolicy([{ id: value, accessPolicy: { permissions: "r", startsOn: new Date(0), expiresOn: new Date(1_000) } }]),
    read: async ({ queue }) => (await queue.getAccessPolicy()).signedIdentifiers.map(({ id }) => id).join(),
  },
  {
    operation: "Set Queue Service Properties",
    concurrency: "last writer wins",
    givesReceipt: false,
    helper: "`BlobLocks`",
    call: ({ service }, value) =>
      service.setProperties({ cors: [{ allowedOrigins: `http://${value}`, allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 1 }] }),
    read: async ({ service }) => (await service.getProperties()).cors?.[0]?.allowedOrigins.replace("http://", ""),
  },
];
