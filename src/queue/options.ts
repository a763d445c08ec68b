import type { ContainerLike } from "../clients/blob.js";
import type { QueueLike } from "../clients/queue.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { checkDrainTimeout, defaultDrainTimeoutInMs } from "../core/background-service.js";
import { observed } from "../core/pending-call.js";
import { jitter } from "../core/retry.js";
import { checkNumber, checkOneOf, checkOptions, checkStandardSchema } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { checkEncoding, maxDelayInMs } from "./envelope.js";
import type { QueueEncoding } from "./envelope.js";
import type { CommitInbox } from "./inbox/commit-inbox.js";
import type { Inbox } from "./inbox/inbox.js";
import type { MessageProperties } from "./message-properties.js";
import { checkOverflow } from "../overflow/stored-text.js";

/**
 * Options of a {@link QueueConsumer}.
 * @example
 * ```ts
 * const options: QueueConsumerOptions<Order> = { inbox: new ClaimInbox(table), poisonQueue, schema: orderSchema };
 * ```
 */
export interface QueueConsumerOptions<T> {
  /** Recognises duplicates. Without one, a message that is delivered twice is handled twice. @defaultValue none: it costs requests */
  inbox?: Inbox | undefined;
  /**
   * The queue for messages that cannot be decoded or have failed too often, usually the client of `<queue>-poison`. It is created
   * if it does not exist. Without one, they stay in the queue and are retried, at the longest interval.
   * @defaultValue none: the library does not choose the name of a queue
   */
  poisonQueue?: QueueLike | undefined;
  /** How many messages are processed at the same time. @defaultValue 16: half of what one receive can return */
  concurrency?: number | undefined;
  /**
   * How long a message stays hidden without renewal, and so after a crash. Renewed halfway through.
   * @defaultValue 60: a crash delays its messages by a minute at most
   */
  visibilityTimeoutInSeconds?: number | undefined;
  /** After this many failed attempts, a message is moved to the poison queue. @defaultValue 5, as Azure Functions has it */
  maxAttempts?: number | undefined;
  /**
   * After this many deliveries without an outcome, a message is moved to the poison queue: it ends its process each time, for example.
   * Deliveries that were given back are not counted.
   * @defaultValue 50: far more than a message meets by deployments and lost responses
   */
  maxDeliveries?: number | undefined;
  /**
   * How long until a failed message is delivered again: rounded up to whole seconds, 7 days at most.
   * @defaultValue 1 s after the first attempt, doubled each time up to 5 minutes, ±20 %: a dependency that is down is not overloaded
   */
  retryDelayInMs?: number | ((attempt: number, error: unknown) => number) | undefined;
  /** The wait after an empty poll. It doubles with each further empty poll. @defaultValue 100: prompt after a pause */
  minPollIntervalInMs?: number | undefined;
  /** The longest wait while the queue stays empty. @defaultValue 10_000: 9,000 requests a day when nothing happens */
  maxPollIntervalInMs?: number | undefined;
  /**
   * After this time the signal of a handler aborts, which counts as a failure. If it has not ended five seconds later, it is abandoned: its
   * slot is free again, and its message is retried.
   * @defaultValue Infinity: only the caller knows
   */
  maxProcessingTimeInMs?: number | undefined;
  /**
   * How long `stop` waits for handlers before it aborts their signals.
   * @defaultValue 25_000: orchestrators end a process 30 seconds after SIGTERM
   */
  drainTimeoutInMs?: number | undefined;
  /** How the texts of messages are encoded. @defaultValue "text": shorter, and readable in tools */
  encoding?: QueueEncoding | undefined;
  /**
   * Decodes the payload from the text of a message. If it throws, the message is moved to the poison queue.
   * @defaultValue JSON where it is JSON, else the text itself: messages of other producers work
   */
  decode?: ((text: string, message: MessageProperties) => T | Promise<T>) | undefined;
  /**
   * Validates the payload. The handler gets the output of the schema: with its defaults, coercions and transformations. If the
   * payload is invalid, the message is moved to the poison queue.
   * @defaultValue none: the handler gets the payload as it was sent
   */
  schema?: StandardSchemaLike<T> | undefined;
  /**
   * The key of a message that was sent without one, for producers that do not use `enqueue`.
   * @defaultValue the message id: every message is another one
   */
  idempotencyKeyOf?: ((payload: T, message: MessageProperties) => string) | undefined;
  /**
   * The container where `enqueue` stores payloads that do not fit into a message: the one that the producers have. Without it, such a
   * message is moved to the poison queue.
   * @defaultValue none: payloads are in the messages
   */
  overflow?: ContainerLike | undefined;
  /**
   * The group of a message: at most one handler of a group runs at a time, over all consumers of the queue. Undefined: the message is in
   * no group. Needs an inbox that claims keys. It must depend on nothing but the message. If it throws, the message is moved to the poison
   * queue.
   * @defaultValue the group that the sender set with `enqueue`
   */
  groupOf?: ((payload: T, message: MessageProperties) => string | undefined) | undefined;
  /**
   * With `"sequence"`, a message starts only after the one before it in its group was completed, by the sequence that its sender set. A
   * message without group or sequence is moved to the poison queue, and one in the poison queue blocks its group. Needs an inbox that
   * claims keys. All consumers of the queue must have the same order.
   * @defaultValue "any": a message that fails does not block its group
   */
  order?: "any" | "sequence" | undefined;
}

/**
 * Options of a {@link QueueConsumer} with a {@link CommitInbox}.
 * @example
 * ```ts
 * const options: CommitConsumerOptions<Order> = { inbox: new CommitInbox(table), partitionOf: (order) => order.customer };
 * ```
 */
export interface CommitConsumerOptions<T> extends Omit<QueueConsumerOptions<T>, "inbox"> {
  /** Commits the effect of a message together with the record that it took effect. */
  inbox: CommitInbox;
  /**
   * The partition of the effect. It must depend on nothing but the message: duplicates are recognised within a partition. If it
   * throws, the message is moved to the poison queue.
   */
  partitionOf: (payload: T, message: MessageProperties & { readonly idempotencyKey: string }) => string;
  /**
   * The queues that handlers send to with a commit. After a crash, the next delivery sends what was committed, and needs a client for it:
   * without this option it uses those that the handler names, then or in an earlier message.
   * @defaultValue none: most handlers name the queue each time
   */
  outgoingQueues?: readonly QueueLike[] | undefined;
}

/** The options with their defaults. */
export interface ConsumerSettings<T> {
  readonly inbox: Inbox | undefined;
  readonly commits: Pick<CommitConsumerOptions<T>, "inbox" | "partitionOf"> | undefined;
  readonly outgoingQueues: readonly QueueLike[];
  readonly poisonQueue: QueueLike | undefined;
  readonly concurrency: number;
  readonly visibilityTimeoutInSeconds: number;
  readonly maxAttempts: number;
  readonly maxDeliveries: number;
  readonly retryDelay: (attempt: number, error: unknown) => number;
  readonly minPollInMs: number;
  readonly maxPollInMs: number;
  readonly maxProcessingTimeInMs: number;
  readonly drainTimeoutInMs: number;
  readonly encoding: QueueEncoding;
  readonly decode: QueueConsumerOptions<T>["decode"];
  readonly schema: StandardSchemaLike<T> | undefined;
  readonly idempotencyKeyOf: QueueConsumerOptions<T>["idempotencyKeyOf"];
  readonly overflow: ContainerLike | undefined;
  readonly groupOf: QueueConsumerOptions<T>["groupOf"];
  readonly order: "any" | "sequence";
}

type AnyConsumerOptions<T> = Omit<QueueConsumerOptions<T>, "inbox"> & {
  inbox?: Inbox | CommitInbox | undefined;
  partitionOf?: CommitConsumerOptions<T>["partitionOf"] | undefined;
  outgoingQueues?: readonly QueueLike[] | undefined;
};

/** For the facade, whose options contain those of its consumers. */
export const consumerOptionNames: OptionNames<AnyConsumerOptions<never>> = {
  inbox: 1,
  partitionOf: 1,
  outgoingQueues: 1,
  poisonQueue: 1,
  concurrency: 1,
  visibilityTimeoutInSeconds: 1,
  maxAttempts: 1,
  maxDeliveries: 1,
  retryDelayInMs: 1,
  minPollIntervalInMs: 1,
  maxPollIntervalInMs: 1,
  maxProcessingTimeInMs: 1,
  drainTimeoutInMs: 1,
  encoding: 1,
  decode: 1,
  schema: 1,
  idempotencyKeyOf: 1,
  overflow: 1,
  groupOf: 1,
  order: 1,
};

const defaults = Object.freeze({
  concurrency: 16,
  visibilityTimeoutInSeconds: 60,
  maxAttempts: 5,
  maxDeliveries: 50,
  minPollInMs: 100,
  maxPollInMs: 10_000,
  maxProcessingTimeInMs: Infinity,
});

export function consumerSettings<T>(options: QueueConsumerOptions<T> | CommitConsumerOptions<T>): ConsumerSettings<T> {
  const given: AnyConsumerOptions<T> = options;
  checkOptions("QueueConsumer", given, consumerOptionNames);
  const { retryDelayInMs = defaultRetryDelay, minPollIntervalInMs = defaults.minPollInMs, inbox, partitionOf, poisonQueue } = given;
  const minPollInMs = checkNumber("minPollIntervalInMs", minPollIntervalInMs, { min: 1 });
  for (const name of ["decode", "idempotencyKeyOf", "partitionOf", "groupOf"] as const) {
    if (given[name] !== undefined && typeof given[name] !== "function") throw new TypeError(`QueueConsumer: ${name} must be a function`);
  }
  if (given.schema !== undefined) checkStandardSchema("QueueConsumer", given.schema);
  const order = checkOneOf("order", given.order ?? "any", ["any", "sequence"]);
  const inboxes = inboxOf(inbox, partitionOf);
  if (!inboxes.inbox && (given.groupOf || order === "sequence")) throw groupsNeedClaims(given.groupOf ? "groupOf" : 'order: "sequence"', inboxes.commits !== undefined);
  return {
    ...inboxes,
    outgoingQueues: outgoingQueuesOf(given),
    poisonQueue: poisonQueue === undefined ? undefined : checkQueue("QueueConsumer: poisonQueue", poisonQueue),
    concurrency: checkNumber("concurrency", given.concurrency ?? defaults.concurrency, { min: 1, max: 10_000, integer: true }),
    visibilityTimeoutInSeconds: checkNumber(
      "visibilityTimeoutInSeconds",
      given.visibilityTimeoutInSeconds ?? defaults.visibilityTimeoutInSeconds,
      { min: 1, max: 7 * 86_400, integer: true },
    ),
    maxAttempts: checkNumber("maxAttempts", given.maxAttempts ?? defaults.maxAttempts, { min: 1, integer: true }),
    maxDeliveries: checkNumber("maxDeliveries", given.maxDeliveries ?? defaults.maxDeliveries, { min: 1, integer: true }),
    retryDelay: retryDelayOf(retryDelayInMs),
    minPollInMs,
    maxPollInMs: checkNumber("maxPollIntervalInMs", given.maxPollIntervalInMs ?? Math.max(defaults.maxPollInMs, minPollInMs), { min: minPollInMs }),
    maxProcessingTimeInMs: checkNumber("maxProcessingTimeInMs", given.maxProcessingTimeInMs ?? defaults.maxProcessingTimeInMs, { min: 1 }),
    drainTimeoutInMs: checkDrainTimeout(given.drainTimeoutInMs ?? defaultDrainTimeoutInMs),
    encoding: checkEncoding(given.encoding),
    decode: given.decode,
    schema: given.schema,
    idempotencyKeyOf: given.idempotencyKeyOf,
    overflow: given.overflow === undefined ? undefined : checkOverflow("QueueConsumer", given.overflow),
    groupOf: given.groupOf,
    order,
  };
}

/** @throws `TypeError` if it is not a client. */
export function checkQueue(call: string, queue: QueueLike): QueueLike {
  if (typeof (queue as Partial<QueueLike> | null | undefined)?.sendMessage !== "function") throw new TypeError(`${call} needs a QueueClient`);
  return queue;
}

function outgoingQueuesOf<T>({ outgoingQueues = [], partitionOf }: AnyConsumerOptions<T>): readonly QueueLike[] {
  if (!Array.isArray(outgoingQueues)) throw new TypeError("QueueConsumer: outgoingQueues must be an array of QueueClients");
  if (outgoingQueues.length > 0 && !partitionOf) throw new TypeError("QueueConsumer: outgoingQueues needs a CommitInbox as the option inbox");
  return outgoingQueues.map((queue: QueueLike) => checkQueue("QueueConsumer: outgoingQueues", queue));
}

/** With an inbox that is not used as intended, every duplicate would take effect again, and no test would show it. */
function inboxOf<T>(
  inbox: Inbox | CommitInbox | undefined,
  partitionOf: CommitConsumerOptions<T>["partitionOf"] | undefined,
): Pick<ConsumerSettings<T>, "inbox" | "commits"> {
  const given: unknown = inbox;
  if (given !== undefined && (typeof given !== "object" || given === null)) throw new TypeError("QueueConsumer: inbox must be a ClaimInbox, a CommitInbox or an Inbox");
  if (inbox && "commits" in inbox) {
    if (!partitionOf) throw new TypeError("QueueConsumer: a CommitInbox needs the option partitionOf");
    return { inbox: undefined, commits: { inbox, partitionOf } };
  }
  if (partitionOf) throw new TypeError("QueueConsumer: partitionOf needs a CommitInbox as the option inbox");
  if (inbox && (typeof (inbox as Partial<Inbox>).claim !== "function" || typeof (inbox as Partial<Inbox>).prepare !== "function")) {
    throw new TypeError("QueueConsumer: inbox must have the methods prepare and claim");
  }
  return { inbox, commits: undefined };
}

/**
 * A commit has no claim that could contain the group, and its record is in the partition of its effect: the last sequence could not be
 * raised with it. Effects in one partition exclude each other by their transactions.
 */
function groupsNeedClaims(option: string, commits: boolean): TypeError {
  const instead = commits ? "a CommitInbox claims nothing before the handler runs. Use a ClaimInbox" : "set the option inbox";
  return new TypeError(`QueueConsumer: ${option} needs an inbox that claims keys: ${instead}.`);
}

function retryDelayOf(retryDelayInMs: number | ((attempt: number, error: unknown) => number)): ConsumerSettings<unknown>["retryDelay"] {
  const check = (value: number): number => checkNumber("retryDelayInMs", value, { min: 0, max: maxDelayInMs });
  if (typeof retryDelayInMs === "function") return (attempt, error) => check(observed(retryDelayInMs(attempt, error)));
  const constant = check(retryDelayInMs);
  return () => constant;
}

export function defaultRetryDelay(attempt: number): number {
  // Jitter, so that messages that failed together are not delivered again together.
  return jitter(Math.min(300_000, 1_000 * 2 ** Math.min(attempt - 1, 20)), 0.2);
}
