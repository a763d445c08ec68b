import type { AdapterRequest } from "../../clients/call.js";
import type { MessageProperties } from "../message-properties.js";

/**
 * Records which keys are being handled, and which are completed, so that a `QueueConsumer` handles each key by one handler at a
 * time, and no key again that is completed. {@link ClaimInbox} keeps the records in a table. Implement it to keep them elsewhere.
 *
 * A delivery may have a group. A claim is then the right to handle the key and the right to handle the group: both or neither, and
 * they are renewed, completed and released together. An implementation that ignores the group lets handlers of a group run at the same
 * time; one that ignores the sequence lets them run in any order.
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
  /** At most one handler of a group may run at a time. Undefined: the message is in no group. */
  readonly group: string | undefined;
  /**
   * The position of the message in its group, from 1 on, if the consumer has `order: "sequence"`: it may start only after the one before
   * it was completed. Undefined: messages of a group may start in any order.
   */
  readonly sequence: number | undefined;
  /** A fingerprint of the payload as it was sent: two payloads with one key are a mistake of the sender. Not a cryptographic hash. */
  readonly payloadHash: string;
  /** How long the claim must last, counted from when it is written, unless it is renewed. */
  readonly claimDurationInMs: number;
  /** When the message was received, or a later time, by the clock of the queue service: for comparison with times that a service has stored. */
  readonly receivedOn: Date;
}

/**
 * What an {@link Inbox} returns for one delivery:
 * - `claimed`: the handler may start.
 * - `completed`: a handler has completed the key before. The consumer deletes the message.
 * - `busy`: another message with the same key, or of the same group, has the claim. The consumer delivers this one again, after
 *   `retryAfterInMs` at most.
 * - `payloadMismatch`: the key is completed, but for another payload. The consumer moves the message to the poison queue.
 * - `superseded`: a later delivery of the same message has the claim, so another consumer has the message. The consumer drops it.
 * - `gap`: the message that must come before it in its group is not completed. The consumer delivers this one again, after
 *   `retryAfterInMs` at most.
 * - `sequenceUsed`: another message with its sequence was completed, or skipped. The consumer moves it to the poison queue.
 */
export type InboxClaimResult =
  | { readonly kind: "claimed"; readonly claim: InboxClaim }
  | { readonly kind: "completed" }
  | { readonly kind: "busy"; readonly retryAfterInMs: number }
  | { readonly kind: "superseded" }
  | { readonly kind: "payloadMismatch" }
  | { readonly kind: "gap"; readonly lastSequence: number; readonly retryAfterInMs: number }
  | { readonly kind: "sequenceUsed" };

/** What `completeAndClaim` of an {@link InboxClaim} returns if the key is completed. See {@link Inbox}. */
export interface InboxHandOver {
  /** What `claim` would return for the next message. Undefined: it was not claimed. */
  readonly next: InboxClaimResult | undefined;
}

/**
 * The right to handle a key until it expires. See {@link Inbox}. `renew` and `complete` are repeated if they reject or their response
 * is lost, and must then find their own earlier effect and return the same. `"lost"`: another consumer has taken over.
 */
export interface InboxClaim {
  /** How many claims of this key were released with `failed: true`. Used for messages that cannot carry the count themselves. */
  readonly failures: number;
  /**
   * How often this key was claimed, this claim included: a claim that its delivery gets again counts once. Used for messages that cannot
   * carry the number of their deliveries. Undefined: the consumer counts all deliveries of such a message, also those that were given back.
   */
  readonly claims?: number | undefined;
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
   * Optional. As `complete`, and in the same step claims `next`: another message of the same group that this consumer has received and,
   * with a sequence, the one that follows. So a group that has many messages is not free in between, and costs one request for each.
   * `next` of the result is what a call of `claim` would return for it. Undefined: the key is completed, but `next` was not claimed; the
   * consumer calls `claim`.
   * @throws an error of the store if the request fails. The consumer repeats the call while it holds the message.
   */
  completeAndClaim?(next: InboxDelivery, request: AdapterRequest): Promise<"lost" | InboxHandOver>;
  /**
   * Ends the claim, so that other messages with the same key can start at once. Has no effect if another consumer has taken over.
   * @param failed - Whether the attempt counts as a failure.
   * @throws an error of the store if the request fails. The consumer does not repeat the call: the claim expires.
   */
  release(failed: boolean, request: AdapterRequest): Promise<void>;
}
