import type { CallOptions } from "../../clients/call.js";
import type { TransactionActionLike } from "../../clients/table.js";
import type { Renewal } from "../../core/renewal.js";
import type { Clock } from "../../core/stopwatch.js";

/** One delivery of a message: the queue counts them, so message and count together are always unique. */
export interface InboxDelivery {
  /** The name of the queue: keys of different queues are independent. */
  readonly queue: string;
  readonly key: string;
  readonly messageId: string;
  readonly dequeueCount: number;
  /** The time since before the receive was sent. */
  readonly clock: Clock;
  /** The current time by the clock of the service, in milliseconds since 1970. */
  readonly serviceTime: () => number;
  /** For how long the message is hidden. */
  readonly visibilityInMs: number;
}

/** The outcome of claiming a delivery. */
export type InboxClaimResult =
  /** The handler may start. */
  | { readonly kind: "claimed"; readonly claim: InboxClaim }
  /** A handler has completed it before. */
  | { readonly kind: "done" }
  /** A handler processes another message with the same key, for at most `forInMs` unless it extends its claim. */
  | { readonly kind: "busy"; readonly forInMs: number }
  /** A later delivery of the same message was claimed: another consumer has the message by now. */
  | { readonly kind: "outdated" };

/** The right to process a key, until it expires. The inbox rejects every transition if another consumer has taken over. */
export interface InboxClaim {
  /** How many handlers were started for this message, including this one. */
  readonly attempts: number;
  readonly clock: Clock;
  readonly claimDurationInMs: number;
  extend(): Promise<Renewal>;
  /** False: another consumer has taken over. @throws if the inbox cannot be reached; call again. */
  complete(): Promise<boolean>;
  /** Ends the claim, so that other messages with the same key can start at once. */
  release(): Promise<void>;
  /** Cuts off the requests in flight: no caller waits for them any more. */
  abandon(): void;
}

/** Records which keys are being processed and which are done. */
export interface Inbox {
  /**
   * `"claim"`: a key is claimed before the handler starts and completed after it. `"commit"`: nothing is written before; the
   * handler writes its entities and the record together.
   */
  readonly mode: "claim" | "commit";
  /** Called once before the first message. */
  prepare(options?: CallOptions): Promise<void>;
  /** Returns one outcome for each delivery. Safe to call again with the same deliveries. */
  claim(deliveries: readonly InboxDelivery[], options?: CallOptions): Promise<InboxClaimResult[]>;
  /** Writes the actions if the key has not been committed yet. Only with the mode `"commit"`. */
  commit?(
    delivery: InboxDelivery,
    call: number,
    partitionKey: string,
    actions: readonly TransactionActionLike[],
    options?: CallOptions,
  ): Promise<"committed" | "duplicate">;
}
