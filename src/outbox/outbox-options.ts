import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { checkDrainTimeout, defaultDrainTimeoutInMs } from "../core/background-service.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { EventNames } from "../core/typed-events.js";
import type { EnqueueOptions } from "../queue/enqueue.js";
import { checkQueue } from "../queue/options.js";
import { OutgoingQueues } from "../queue/outgoing.js";

/**
 * Options of {@link Outbox}.
 * @example
 * ```ts
 * const outbox = new Outbox(table, { queues: (name) => queueService.getQueueClient(name) });
 * ```
 */
export interface OutboxOptions {
  /**
   * The queues to which the relay sends what ended processes left: their clients, or a function that returns the client for the name of a
   * queue. What is stored names the queue only. A process that adds a message to a queue knows its client.
   */
  queues: readonly QueueLike[] | ((name: string) => QueueLike);
  /**
   * How old a message must be before the relay sends it: until then the process that has committed it may be about to do so. At least
   * 1,000. All processes that share a table use the same value.
   * @defaultValue 30_000: longer than a send takes, so that few messages are sent twice
   */
  relayAfterInMs?: number | undefined;
  /** How often the relay looks for what ended processes left: 1 request each time. @defaultValue 10_000: less than `relayAfterInMs` */
  pollIntervalInMs?: number | undefined;
  /**
   * How long {@link Outbox.stop} waits for messages that are being sent. What is not sent by then is left to the relay of another process.
   * @defaultValue 25_000: orchestrators end a process 30 seconds after SIGTERM
   */
  drainTimeoutInMs?: number | undefined;
}

/** Options of {@link Outbox.add}: those of {@link enqueue}, without those of a request. */
export interface OutboxMessageOptions extends Omit<EnqueueOptions, keyof CallOptions> {
  /** @defaultValue a new one for each call of `runTransaction`: the same if its function runs again */
  idempotencyKey?: string | undefined;
}

/** What {@link Outbox.list} returns of a message that is not sent yet. */
export interface OutboxMessage {
  /** Identifies the queue: `account:queue`. */
  readonly queue: string;
  /** The key with which it is sent, however often that is. */
  readonly idempotencyKey: string;
  /** When its transaction was committed, by the clock of the service. */
  readonly addedOn: Date;
}

/** The events of {@link Outbox}, with their details. */
export interface OutboxEvents {
  /** A message was sent. `queue` is `account:queue`. `relayed`: by the relay, and not by the process that has committed it, right after the commit. */
  sent: { readonly queue: string; readonly idempotencyKey: string; readonly relayed: boolean };
  /**
   * Something failed, and is repeated: a send, or the search for what ended processes left. A {@link SchemaError}: another program has
   * damaged a row; the others go on.
   */
  error: unknown;
}

const optionNames: OptionNames<OutboxOptions> = { queues: 1, relayAfterInMs: 1, pollIntervalInMs: 1, drainTimeoutInMs: 1 };
export const messageOptionNames: OptionNames<OutboxMessageOptions> = { idempotencyKey: 1, delayInMs: 1, timeToLiveInSeconds: 1, group: 1, sequence: 1, encoding: 1, overflow: 1 };
export const callOptionNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };
export const outboxEventNames: EventNames<OutboxEvents> = { sent: 1, error: 1 };

/** The checked options of an outbox. */
export interface OutboxSettings {
  readonly queues: OutgoingQueues;
  readonly relayAfterInMs: number;
  readonly pollIntervalInMs: number;
  readonly drainTimeoutInMs: number;
}

export function outboxSettings(options: OutboxOptions): OutboxSettings {
  checkOptions("Outbox", options, optionNames);
  const { queues, relayAfterInMs = 30_000, pollIntervalInMs = 10_000, drainTimeoutInMs = defaultDrainTimeoutInMs } = options;
  if (typeof queues !== "function" && !Array.isArray(queues)) throw new TypeError("Outbox: queues must be an array of QueueClients, or a function that returns one for a name");
  const clients = typeof queues === "function" ? [] : queues.map((queue: QueueLike) => checkQueue("Outbox: queues", queue));
  return {
    queues: new OutgoingQueues(clients, "queues of the Outbox", typeof queues === "function" ? queues : undefined),
    relayAfterInMs: checkNumber("relayAfterInMs", relayAfterInMs, { min: 1_000, max: 3_600_000 }),
    pollIntervalInMs: checkNumber("pollIntervalInMs", pollIntervalInMs, { min: 1, max: 2 ** 31 - 1 }),
    drainTimeoutInMs: checkDrainTimeout(drainTimeoutInMs),
  };
}
