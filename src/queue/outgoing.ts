import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { sha256 } from "../core/identity.js";
import { inParallel } from "../core/parallel.js";
import { observed } from "../core/pending-call.js";
import { fullJitter, retry } from "../core/retry.js";
import { isTransient } from "../core/storage-errors.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isConcurrencyError, printable } from "../errors.js";
import { prepareMessage, sendMessage } from "./enqueue.js";
import type { EnqueueOptions } from "./enqueue.js";
import { queueIdentityOf } from "./inbox/record.js";
import { maxOutgoingCharacters, outgoingLength } from "./inbox/stored-outgoing.js";
import type { StoredMessage } from "./inbox/stored-outgoing.js";
import { checkQueue } from "./options.js";

/**
 * A message that is sent if a commit succeeds: see `send` of {@link CommitMessageContext.commit} and {@link CommitTransaction}.
 * @example
 * ```ts
 * await context.commit([["create", order]], { send: [{ queue: invoices, payload: { order: order.rowKey } }] });
 * ```
 */
export interface OutgoingMessage extends Omit<EnqueueOptions, keyof CallOptions | "overflow"> {
  /** Where it is sent. */
  readonly queue: QueueLike;
  /** Sent as JSON. */
  readonly payload: unknown;
  /** @defaultValue derived from queue and key of the incoming message and the position: the same whenever it is sent again */
  readonly idempotencyKey?: string | undefined;
}

const names: OptionNames<OutgoingMessage> = { queue: 1, payload: 1, idempotencyKey: 1, encoding: 1, timeToLiveInSeconds: 1, delayInMs: 1, group: 1, sequence: 1 };

/** A message to send, with the client that sends it. */
export interface PreparedOutgoing {
  readonly client: QueueLike;
  readonly stored: StoredMessage;
}

/** @throws `TypeError` or `RangeError` if the message could not be sent. Nothing is sent before the commit, so it must be found out before. */
export function prepareOutgoing(call: string, message: OutgoingMessage, keyPrefix: string, position: number): PreparedOutgoing {
  if (typeof (observed(message) as OutgoingMessage | null | undefined) !== "object" || (message as OutgoingMessage | null) === null) {
    throw new TypeError(`${call}: a message to send must be an object with queue and payload`);
  }
  checkOptions(`${call}: send`, message, names);
  const { queue, payload, ...options } = message;
  checkQueue(`${call}: the queue of a message to send`, queue);
  const idempotencyKey = options.idempotencyKey ?? `${keyPrefix}/${position}`;
  const { key, text, timing } = prepareMessage(call, payload, { ...options, idempotencyKey });
  return { client: queue, stored: { queue: queueIdentityOf(queue.url), key, text, timing } };
}

/** @throws `RangeError` if the record could not contain all of them. */
export function checkOutgoing(call: string, messages: readonly PreparedOutgoing[]): readonly StoredMessage[] {
  const stored = messages.map((message) => message.stored);
  const characters = outgoingLength(stored);
  if (characters > maxOutgoingCharacters) {
    throw new RangeError(`${call}: the messages to send have ${characters} characters together, and their record has room for ${maxOutgoingCharacters}`);
  }
  return stored;
}

/** What the keys of outgoing messages begin with: different for each incoming queue and key, and the same for each delivery. */
export async function outgoingKeyPrefix(queueUrl: string, idempotencyKey: string): Promise<string> {
  const prefix = `${queueIdentityOf(queueUrl)}/${idempotencyKey}`;
  // A key has 1,024 characters at most.
  return prefix.length <= 1_000 ? prefix : `${queueIdentityOf(queueUrl)}/sha256=${await sha256(idempotencyKey)}`;
}

/** The clients for the queues that outgoing messages name: what is stored names a queue, and only the application has clients. */
export class OutgoingQueues {
  readonly #clients = new Map<string, QueueLike>();
  readonly #option: string;
  readonly #find: ((name: string) => QueueLike) | undefined;

  /**
   * @param option - The option that names queues, for messages.
   * @param find - Finds the client for the name of a queue that is not known. May throw.
   */
  constructor(clients: readonly QueueLike[], option = "outgoingQueues of the consumer", find?: (name: string) => QueueLike) {
    for (const client of clients) this.add(client);
    this.#option = option;
    this.#find = find;
  }

  learn(messages: readonly PreparedOutgoing[]): void {
    for (const { client } of messages) this.add(client);
  }

  add(client: QueueLike): void {
    this.#clients.set(queueIdentityOf(client.url), client);
  }

  knowsAll(messages: readonly StoredMessage[]): boolean {
    return messages.every(({ queue }) => this.#clients.has(queue));
  }

  /** @throws `Error` if the application has not shown a client for the queue. Another process may have one. */
  clientOf({ queue }: StoredMessage): QueueLike {
    const client = this.#clients.get(queue) ?? this.#found(queue);
    if (client) return client;
    throw new Error(`A message to queue ${printable(queue)} was committed, but not sent, and this process has no client for the queue. Name it in the option ${this.#option}.`);
  }

  /** The queue of another account may have the same name. */
  #found(queue: string): QueueLike | undefined {
    const client = this.#find?.(queue.slice(queue.indexOf(":") + 1));
    if (!client || queueIdentityOf(checkQueue(this.#option, client).url) !== queue) return undefined;
    this.#clients.set(queue, client);
    return client;
  }
}

const concurrency = 16;
const maxAttempts = 3;

/** Sends the messages of a commit. */
export async function sendOutgoing(call: string, messages: readonly StoredMessage[], queues: OutgoingQueues, request: CallOptions): Promise<void> {
  await inParallel(messages, concurrency, (message) => sendStored(call, message, queues.clientOf(message), request));
}

/** Sends a message. One whose outcome is unknown is sent again: the key is the same, so a consumer with an inbox recognises the duplicate. */
export async function sendStored(call: string, message: StoredMessage, client: QueueLike, request: CallOptions): Promise<void> {
  await retry(() => sendMessage(call, client, message, request), {
    maxAttempts,
    shouldRetry: (error) => isTransient(error) || isConcurrencyError(error, "COMMIT_UNKNOWN"),
    backoff: (attempt) => fullJitter(attempt - 1, 100, 2_000),
    abortSignal: request.abortSignal,
  });
}
