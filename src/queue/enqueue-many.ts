import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { abortReason, isAborted } from "../core/deadline.js";
import { iterate } from "../core/iterate.js";
import { inParallel } from "../core/parallel.js";
import { observed } from "../core/pending-call.js";
import { describeSpan, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { prepareMessage, sendMessage } from "./enqueue.js";
import type { EnqueueOptions, EnqueueResult } from "./enqueue.js";
import { checkEncoding } from "./envelope.js";
import { checkQueue } from "./options.js";
import { checkOverflow } from "../overflow/stored-text.js";

/** Options of {@link enqueueMany}. */
export interface EnqueueManyOptions extends CallOptions, Pick<EnqueueOptions, "encoding" | "overflow"> {
  /** How many messages are sent at the same time. @defaultValue 16: far below the 2,000 messages a second of a queue */
  concurrency?: number | undefined;
}

const names: OptionNames<EnqueueManyOptions> = { concurrency: 1, encoding: 1, overflow: 1, abortSignal: 1, tracingOptions: 1 };
const messageNames: OptionNames<Message> = { payload: 1, idempotencyKey: 1, encoding: 1, timeToLiveInSeconds: 1, delayInMs: 1, group: 1, sequence: 1, overflow: 1 };

type Message = Omit<EnqueueOptions, keyof CallOptions> & { payload: unknown };
type Result = EnqueueResult | { readonly error: unknown };

/**
 * Sends many messages, several at a time. Returns one result for each message, in order: that of {@link enqueue}, or the error of a
 * message that could not be sent, or for which `toMessage` threw. Costs 1 request for each message, which takes 30 seconds at most,
 * and 1 more for each payload that goes to a blob.
 *
 * An abort does not reject the call: the results of messages that were not sent have the reason of the signal as their error, and so
 * have those in flight, which may have been sent. An iterable that is not an array is read only as far as messages are sent, and not
 * any further after an abort: what it has not returned has no result.
 * @param messages - The payloads, or what `toMessage` makes a message of.
 * @param toMessage - Returns payload and options of a message. Give each an `idempotencyKey`, so that you can repeat the call.
 * @throws `TypeError` or `RangeError` if an argument is wrong.
 * @throws `Error` if the iterable throws: after the messages in flight, with the number of messages that were sent, and the error as
 * its `cause`.
 * @example
 * ```ts
 * const results = await enqueueMany(queue, orders, (order) => ({ payload: order, idempotencyKey: order.id }));
 * const failed = orders.filter((_, i) => "error" in results[i]);
 * ```
 */
export async function enqueueMany<T>(
  queue: QueueLike,
  messages: Iterable<T> | AsyncIterable<T>,
  toMessage?: (item: T) => Omit<EnqueueOptions, keyof CallOptions> & { payload: unknown },
  options: EnqueueManyOptions = {},
): Promise<readonly (EnqueueResult | { readonly error: unknown })[]> {
  checkOptions("enqueueMany", options, names);
  checkQueue("enqueueMany", queue);
  checkMessages(messages);
  if (toMessage !== undefined && typeof toMessage !== "function") throw new TypeError("enqueueMany: toMessage must be a function");
  const encoding = checkEncoding(options.encoding);
  const overflow = options.overflow && checkOverflow("enqueueMany", options.overflow);
  const concurrency = checkNumber("concurrency", options.concurrency ?? 16, { min: 1, max: 10_000, integer: true });
  return withSpan("enqueueMany", options, async (tracingOptions, span) => {
    const { abortSignal } = options;
    const results: Result[] = [];
    let requests = 0;
    const send = async (item: T): Promise<EnqueueResult> => {
      const { payload, ...own } = toMessage ? checkMessage(toMessage(item)) : { payload: item };
      const message = prepareMessage("enqueueMany", payload, { ...own, encoding: (own as Message).encoding ?? encoding, overflow: (own as Message).overflow ?? overflow });
      requests += message.large ? 2 : 1;
      return sendMessage("enqueueMany", queue, message, { abortSignal, tracingOptions });
    };
    const sentCount = (): number => results.filter((result) => !("error" in result)).length;
    try {
      await inParallel(untilAborted(messages, abortSignal), concurrency, async (item, index) => {
        // The position is taken now: results of later messages may come first.
        results[index] = { error: undefined };
        results[index] = await send(item).catch((error: unknown) => ({ error }));
      });
    } catch (error) {
      // No send rejects: it is the iterable. An async one is ended by an abort.
      if (!isAborted(abortSignal)) throw new Error(`enqueueMany: the iterable of messages threw. ${sentCount()} messages were sent before.`, { cause: error });
    }
    if (abortSignal && isAborted(abortSignal) && Array.isArray(messages)) {
      while (results.length < messages.length) results.push({ error: abortReason(abortSignal) });
    }
    describeSpan(span, { outcome: `sent ${sentCount()} of ${results.length}`, requests });
    return results;
  }, { targetKind: "queue", url: queue.url }, { spanKind: "producer" });
}

/** A text is iterable, too, but not meant as a list of characters. */
function checkMessages(messages: unknown): void {
  const given = messages as Partial<Iterable<unknown> & AsyncIterable<unknown>> | null | undefined;
  if (typeof messages === "object" && (typeof given?.[Symbol.iterator] === "function" || typeof given?.[Symbol.asyncIterator] === "function")) return;
  throw new TypeError("enqueueMany: messages must be an array, an iterable or an async iterable");
}

/** @throws `TypeError` if `toMessage` returned something else: a promise, or a message with a misspelt option. */
function checkMessage(message: Message): Message {
  if (typeof (observed(message) as Message | null | undefined) !== "object" || (message as Message | null) === null || !("payload" in message)) {
    throw new TypeError("enqueueMany: toMessage must return an object with the payload");
  }
  checkOptions("enqueueMany: toMessage", message, messageNames);
  return message;
}

function untilAborted<T>(messages: Iterable<T> | AsyncIterable<T>, abortSignal: CallOptions["abortSignal"]): Iterable<T> | AsyncIterable<T> {
  return Symbol.asyncIterator in messages ? iterate(() => messages, { abortSignal }) : takeUntilAborted(messages, abortSignal);
}

function* takeUntilAborted<T>(messages: Iterable<T>, abortSignal: CallOptions["abortSignal"]): Generator<T, undefined, undefined> {
  if (isAborted(abortSignal)) return undefined;
  // Checked after each item, and not before the next one is taken: no item is taken that gets no result.
  for (const message of messages) {
    yield message;
    if (isAborted(abortSignal)) return undefined;
  }
  return undefined;
}
