import type { CallOptions } from "../../clients/call.js";
import type { InboxTableAction } from "../../clients/table.js";
import type { Renewal } from "../../core/renewal.js";
import type { Clock } from "../../core/stopwatch.js";

/** One delivery of a message: the queue counts them, so message and count together are unique for ever. */
export interface InboxDelivery {
  /** Name of the queue: keys of different queues have nothing to do with each other. */
  readonly queue: string;
  readonly key: string;
  readonly messageId: string;
  readonly dequeueCount: number;
  /** Time since before the message was asked for. */
  readonly clock: Clock;
  /** What time it is by the clock of the service, in milliseconds since 1970. */
  readonly serviceTime: () => number;
  /** For how long the message is hidden. */
  readonly visibilityInMs: number;
}

/** What an inbox says about a delivery. */
export type InboxVerdict =
  /** The handler may start. */
  | { readonly kind: "claimed"; readonly claim: InboxClaim }
  /** A handler has completed it before. */
  | { readonly kind: "done" }
  /** A handler works on another message with the same key, for so long at most unless it asks for more. */
  | { readonly kind: "busy"; readonly forInMs: number }
  /** A later delivery of the same message was claimed: this one is somebody else's by now. */
  | { readonly kind: "outdated" };

/** The right to work on a key, until it runs out. Every step is refused if somebody else has taken over. */
export interface InboxClaim {
  /** How many handlers were started on this message, this one included. */
  readonly attempts: number;
  readonly clock: Clock;
  readonly holdInMs: number;
  extend(): Promise<Renewal>;
  /** False: somebody else has taken over. @throws if the inbox cannot be reached; call again. */
  complete(): Promise<boolean>;
  /** Lets others with the same key start at once. */
  release(): Promise<void>;
  /** Cuts off what is still under way: nobody waits for it any more. */
  abandon(): void;
}

/** Remembers which keys are being worked on and which are done. */
export interface Inbox {
  /**
   * `"claim"`: a key is claimed before the handler starts and completed after it. `"commit"`: nothing happens before;
   * the handler writes its effect and the record together.
   */
  readonly mode: "claim" | "commit";
  /** Called once before the first message. */
  prepare(options?: CallOptions): Promise<void>;
  /** One verdict for each delivery. Safe to call again with the same deliveries. */
  claim(deliveries: readonly InboxDelivery[], options?: CallOptions): Promise<InboxVerdict[]>;
  /** Writes the actions if the key has not been committed yet. Only with the mode `"commit"`. */
  commit?(
    delivery: InboxDelivery,
    call: number,
    partitionKey: string,
    actions: readonly InboxTableAction[],
    options?: CallOptions,
  ): Promise<"committed" | "duplicate">;
}
