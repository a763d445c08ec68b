import type { AdapterRequest } from "../../clients/call.js";
import type { MessageProperties } from "../message-properties.js";

/**
 * Records which keys are being handled, and which are completed, so that a `QueueConsumer` handles each key by one handler at a
 * time, and no key again that is completed. {@link ClaimInbox} keeps the records in a table. Implement it to keep them elsewhere.
 *
 * The consumer decides by its own clock how long it holds a claim, counted from before it sent the request: an implementation
 * needs no timers. Any call may reject.
 * @example
 * ```ts
 * class SqlInbox implements Inbox {
 *   prepare({ abortSignal }: AdapterRequest) {
 *     return db.query("SELECT 1 FROM inbox", { signal: abortSignal });
 *   }
 *   claim(deliveries: readonly InboxDelivery[], request: AdapterRequest) {
 *     return Promise.all(deliveries.map((delivery) => claimRow(db, delivery, request)));
 *   }
 * }
 * ```
 */
export interface Inbox {
  /**
   * Called by `start`, which rejects with the same error.
   * @throws an error of the store if it cannot be used.
   */
  prepare(request: AdapterRequest): Promise<void>;
  /**
   * Returns one result for each delivery, in the same order. It may be called again with the same deliveries, if its response was
   * lost: a delivery that has the claim gets it again.
   * @throws an error of the store if a request fails. The consumer repeats the call while it holds the messages.
   */
  claim(deliveries: readonly InboxDelivery[], request: AdapterRequest): Promise<readonly InboxClaimResult[]>;
}

/** One delivery of a message. The message id and the dequeue count together identify it. See {@link Inbox}. */
export interface InboxDelivery extends MessageProperties {
  /** The URL of the queue, without the query. Keys of different queues are independent. */
  readonly queueUrl: string;
  /** What must not be handled by two handlers at a time, nor again once it is completed. */
  readonly idempotencyKey: string;
  /** A fingerprint of the payload as it was sent: two payloads with one key are a mistake of the sender. Not a cryptographic hash. */
  readonly payloadHash: string;
  /** How long the claim must last, counted from when it is written, unless it is renewed. */
  readonly claimDurationInMs: number;
  /** When the message was received, by the clock of the queue service: for comparison with times that a service has stored. */
  readonly receivedOn: Date;
}

/**
 * What an {@link Inbox} returns for one delivery:
 * - `claimed`: the handler may start.
 * - `completed`: a handler has completed the key before. The consumer deletes the message.
 * - `busy`: another message with the same key has the claim. The consumer delivers this one again, after `retryAfterInMs` at most.
 * - `payloadMismatch`: the key is completed, but for another payload. The consumer moves the message to the poison queue.
 * - `superseded`: a later delivery of the same message has the claim, so another consumer has the message. The consumer drops it.
 */
export type InboxClaimResult =
  | { readonly kind: "claimed"; readonly claim: InboxClaim }
  | { readonly kind: "completed" }
  | { readonly kind: "busy"; readonly retryAfterInMs: number }
  | { readonly kind: "superseded" }
  | { readonly kind: "payloadMismatch" };

/**
 * The right to handle a key until it expires. See {@link Inbox}. `renew` and `complete` are repeated if they reject or their response
 * is lost, and must then find their own earlier effect and return the same. `"lost"`: another consumer has taken over.
 */
export interface InboxClaim {
  /** How many claims of this key were released with `failed: true`. Used for messages that cannot carry the count themselves. */
  readonly failures: number;
  /**
   * Lets the claim last for another `claimDurationInMs` from now.
   * @throws an error of the store if the request fails. The consumer repeats the call until the claim expires.
   */
  renew(request: AdapterRequest): Promise<"renewed" | "lost">;
  /**
   * Records for good that the key is completed.
   * @throws an error of the store if the request fails. The consumer repeats the call while it holds the message.
   */
  complete(request: AdapterRequest): Promise<"completed" | "lost">;
  /**
   * Ends the claim, so that other messages with the same key can start at once. Has no effect if another consumer has taken over.
   * @param failed - Whether the attempt counts as a failure.
   * @throws an error of the store if the request fails. The consumer does not repeat the call: the claim expires.
   */
  release(failed: boolean, request: AdapterRequest): Promise<void>;
}
