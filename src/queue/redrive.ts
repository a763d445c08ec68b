import type { CallOptions } from "../clients/call.js";
import type { QueueCallOptions, QueueLike, QueueMessageLike } from "../clients/queue.js";
import { Deadline, RequestTimeoutError } from "../core/deadline.js";
import { inParallel } from "../core/parallel.js";
import { observed } from "../core/pending-call.js";
import { read } from "../core/request.js";
import { isPopReceiptMismatch, isUnauthorized } from "../core/storage-errors.js";
import { describeSpan, logger, redactUrl, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, OperationTimeoutError } from "../errors.js";
import { byteLength, decodeText, encodeText, findEnvelope, isLaterEnvelope, isReferenceBody, maxMessageBytes, poisonDetailsOf, sealEnvelope, storedPoisonDetailsOf, withoutBookkeeping } from "./envelope.js";
import type { PoisonDetails } from "./envelope.js";
import { checkQueue } from "./options.js";
import { serviceTimeOf } from "./service-time.js";

/** Options of {@link redrive}. */
export interface RedriveOptions extends CallOptions {
  /** The maximum number of messages to move. @defaultValue all that are there when it begins: those that fail again stay */
  maxMessages?: number | undefined;
  /** Selects the messages for which it returns `true`; the others stay. Messages that were too large for the details have none. @defaultValue all: most causes concern all messages */
  filter?: ((details: PoisonDetails | undefined) => boolean) | undefined;
  /** Only messages that were in the poison queue at this time, by the clock of the service. @defaultValue the time of the call */
  insertedBefore?: Date | undefined;
}

const names: OptionNames<RedriveOptions> = { maxMessages: 1, filter: 1, insertedBefore: 1, abortSignal: 1, tracingOptions: 1 };

/** The result of {@link redrive}. */
export interface RedriveResult {
  /** How many messages were moved. */
  readonly moved: number;
  /** How many messages stayed: the filter excluded them, they were poisoned after the call began (or after `insertedBefore`), or they cannot be sent. */
  readonly skipped: number;
}

const batchSize = 32;
const concurrency = 16;
/** Longer than the SDK's own retries, which take 16 s. */
const requestTimeoutInMs = 20_000;
/** A batch is received and moved in 7 requests, one after the other: 140 s at most. */
const visibilityTimeout = 150;
/** A message with a checkpoint is hidden until it has the checkpoint; after a crash, it becomes visible without. */
const hiddenInSeconds = 30;
/** After a failure. The caller waits for it. */
const giveBackTimeoutInMs = 5_000;

/**
 * Moves messages from a poison queue back to their queue: with the original key, checkpoint and lifetime, which begins again, and a new
 * count of attempts. Messages of other producers come back as they are. First sends, then deletes: a crash in between leaves two
 * messages with the same key, and with an inbox they take effect once.
 *
 * 16 messages are moved at a time, in the order in which they were received. If a request fails, the call rejects, and the messages
 * that it has received and not moved become visible at once, as far as the poison queue responds within 5 seconds; otherwise, and
 * after a crash, within three minutes. Costs 2 requests for each message, 3 for one with a checkpoint, 1 for each that stays, and 1 for each 32.
 * @throws `TypeError` if `filter` is not a function, `insertedBefore` not a valid date, or both queues are the same.
 * @throws `RangeError` if `maxMessages` is not a whole number of 1 or more.
 * @throws {@link OperationTimeoutError} if a request gets no response within 20 seconds. The message that it was about is in the poison
 * queue, and may be in the queue as well.
 * @example
 * ```ts
 * const { moved } = await redrive(poisonQueue, queue, { filter: (details) => details?.reason === "failed 5 times" });
 * ```
 */
export async function redrive(poisonQueue: QueueLike, queue: QueueLike, options: RedriveOptions = {}): Promise<RedriveResult> {
  checkOptions("redrive", options, names);
  checkQueue("redrive", poisonQueue);
  checkQueue("redrive", queue);
  if (addressOf(poisonQueue) === addressOf(queue)) throw new TypeError(`redrive: ${addressOf(queue)} is both the poison queue and the queue`);
  const max = checkNumber("maxMessages", options.maxMessages ?? Infinity, { min: 1, integer: true });
  const { filter } = options;
  if (filter !== undefined && typeof filter !== "function") throw new TypeError("redrive: filter must be a function");
  const { insertedBefore } = options;
  if (insertedBefore !== undefined && !(insertedBefore instanceof Date && !Number.isNaN(insertedBefore.getTime()))) throw new TypeError("redrive: insertedBefore must be a valid Date");
  return withSpan("redrive", options, async (tracingOptions, span) => {
    const run = new Redrive(poisonQueue, queue, { abortSignal: options.abortSignal, tracingOptions });
    try {
      await run.move(max, filter, insertedBefore);
    } catch (error) {
      const deadline = new Deadline(giveBackTimeoutInMs, () => new RequestTimeoutError(giveBackTimeoutInMs));
      await run.giveBack(deadline.signal);
      deadline.dispose();
      if (!(error instanceof RequestTimeoutError)) throw error;
      const url = addressOf(poisonQueue);
      const message = `redrive of ${url}: ${error.message}. ${run.moved} messages were moved before.`;
      throw createError(OperationTimeoutError, message, { url, elapsedInMs: error.timeoutInMs, committed: "unknown", cause: error });
    }
    const result = { moved: run.moved, skipped: run.skipped };
    await run.giveBack(options.abortSignal);
    describeSpan(span, { outcome: `moved ${result.moved}, skipped ${result.skipped}`, requests: run.requests });
    return result;
  }, { targetKind: "queue", url: queue.url });
}

/** The URL of a queue, without the query and in one notation. */
function addressOf({ url }: QueueLike): string {
  const address = redactUrl(url);
  return (URL.canParse(address) ? new URL(address).href : address).replace(/\/$/, "");
}

class Redrive {
  moved = 0;
  skipped = 0;
  requests = 0;
  readonly #poisonQueue: QueueLike;
  readonly #queue: QueueLike;
  readonly #call: CallOptions;
  /** What was received and not moved, with the last receipt. */
  readonly #held = new Map<string, QueueMessageLike>();

  constructor(poisonQueue: QueueLike, queue: QueueLike, call: CallOptions) {
    this.#poisonQueue = poisonQueue;
    this.#queue = queue;
    this.#call = call;
  }

  async move(max: number, filter: RedriveOptions["filter"], insertedBefore: Date | undefined): Promise<void> {
    let startedOn = insertedBefore;
    let reachedNewer = false;
    while (this.moved < max && !reachedNewer) {
      const numberOfMessages = Math.min(batchSize, max - this.moved);
      const response = await this.#send((call) => this.#poisonQueue.receiveMessages({ ...call, numberOfMessages, visibilityTimeout }));
      startedOn ??= serviceTimeOf(response, visibilityTimeout);
      // Messages that stay become visible again after a while. A batch of nothing else is the end: they would come again and again.
      const fresh = response.receivedMessageItems.filter(({ messageId }) => !this.#held.has(messageId));
      for (const message of response.receivedMessageItems) this.#held.set(message.messageId, message);
      if (fresh.length === 0) return;
      const moves: { readonly message: QueueMessageLike; readonly original: Original }[] = [];
      for (const message of fresh) {
        const original = tryOriginalOf(message);
        // A message that was poisoned after the start would be moved back and forth.
        const newer = message.insertedOn > startedOn;
        reachedNewer ||= newer;
        // A caller without TypeScript may return anything: only `true` moves a message.
        if (newer || (filter && (observed(filter(original?.details)) as unknown) !== true) || !isSendable(message, original)) this.skipped++;
        else moves.push({ message, original });
      }
      await inParallel(moves, concurrency, ({ message, original }) => this.#move(message, original));
    }
  }

  async #move(message: QueueMessageLike, { text, timeToLiveInSeconds, textWithCheckpoint }: Original): Promise<void> {
    const timing = timeToLiveInSeconds === undefined ? {} : { messageTimeToLive: timeToLiveInSeconds };
    const hidden = textWithCheckpoint ? { visibilityTimeout: hiddenInSeconds } : {};
    const sent = await this.#send((call) => this.#queue.sendMessage(text, { ...call, ...timing, ...hidden }));
    if (textWithCheckpoint) await this.#addCheckpoint(sent, textWithCheckpoint(sent.messageId));
    try {
      await this.#send((call) => this.#poisonQueue.deleteMessage(message.messageId, message.popReceipt, call));
    } catch (error) {
      // Deleted by a first send whose response was lost; or received by another redrive, whose copy has the same key.
      if (!isPopReceiptMismatch(error)) throw error;
    }
    this.#held.delete(message.messageId);
    this.moved++;
  }

  /** Consumers believe a checkpoint only with the id of its message, which the service chooses when the message is sent. */
  async #addCheckpoint({ messageId, popReceipt }: Awaited<ReturnType<QueueLike["sendMessage"]>>, text: string): Promise<void> {
    if (popReceipt === undefined) return;
    try {
      await this.#send((call) => this.#queue.updateMessage(messageId, popReceipt, text, 0, call));
    } catch (error) {
      // Written by a first send whose response was lost.
      if (isPopReceiptMismatch(error)) return;
      // Rather the message without its checkpoint than no message: it becomes visible by itself.
      if (!isUnauthorized(error)) throw error;
      logger.warning(`message ${messageId} was moved without its checkpoint: the client may not update messages of its queue`);
    }
  }

  /** Shows the messages again that were received and not moved. If this fails, they become visible after two and a half minutes. */
  async giveBack(abortSignal: CallOptions["abortSignal"]): Promise<void> {
    await inParallel([...this.#held.values()], concurrency, async ({ messageId, popReceipt }) => {
      await this.#send((call) => this.#poisonQueue.updateMessage(messageId, popReceipt, undefined, 0, call), abortSignal).catch(() => undefined);
    });
  }

  #send<R>(send: (call: QueueCallOptions) => Promise<R>, abortSignal: CallOptions["abortSignal"] = this.#call.abortSignal): Promise<R> {
    const { tracingOptions } = this.#call;
    this.requests++;
    return read((signal) => send({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) }), { abortSignal, timeoutInMs: requestTimeoutInMs });
  }
}

/** A message as it is sent to its queue again, and why it was poisoned. */
interface Original {
  readonly text: string;
  readonly timeToLiveInSeconds?: number | undefined;
  readonly details: PoisonDetails | undefined;
  /** The text with its checkpoint, for a message with this id. Undefined: it has none. */
  readonly textWithCheckpoint?: ((messageId: string) => string) | undefined;
}

/** Undefined: its envelope is nested too deeply to be written again. */
function tryOriginalOf(message: QueueMessageLike): Original | undefined {
  try {
    return originalOf(message);
  } catch {
    return undefined;
  }
}

function originalOf({ messageText, insertedOn }: QueueMessageLike): Original {
  const found = findEnvelope(messageText);
  // With a later envelope, a redrive of a later version removes what a consumer has added.
  if (!found && hasLaterEnvelope(messageText)) throw new Error("its envelope is of a later version of this library");
  if (!found) return { text: messageText, details: undefined };
  // A consumer that does not know references has moved it here, with its message id as the key. The next one like it must reject it again.
  const envelope = isReferenceBody(found.envelope.body) ? { ...found.envelope, key: "" } : found.envelope;
  const { poison, ...unpoisoned } = envelope;
  const content = withoutBookkeeping(unpoisoned);
  const { text } = content;
  const stored = storedPoisonDetailsOf(poison, insertedOn);
  if (!stored) {
    // It was too large for the details. Not written anew if nothing changes: it comes back byte for byte. A checkpoint may be the
    // producer's, as the text is that of the message.
    const isUnchanged = Object.keys(content).length === Object.keys(envelope).length;
    return { text: isUnchanged ? messageText : sealEnvelope(content, found.encoding), details: undefined };
  }
  const { encoding, raw, timeToLiveInSeconds } = stored;
  const details = poisonDetailsOf(stored);
  if (raw && typeof text === "string") return { text, timeToLiveInSeconds, details };
  // A message that was sent without an envelope gets one, too: its new message has another id, and its key was the old id.
  const sealed = sealEnvelope(content, encoding);
  if (!fits(sealed)) return { text: typeof text === "string" ? encodeText(text, encoding) : sealed, timeToLiveInSeconds, details };
  const { checkpoint } = envelope;
  const textWithCheckpoint = (of: string): string => sealEnvelope({ ...content, checkpoint, of }, encoding);
  const keepsCheckpoint = checkpoint !== undefined && fits(textWithCheckpoint(anyMessageId));
  return { text: sealed, timeToLiveInSeconds, details, ...(keepsCheckpoint && { textWithCheckpoint }) };
}

function hasLaterEnvelope(messageText: string): boolean {
  if (isLaterEnvelope(messageText)) return true;
  try {
    return isLaterEnvelope(decodeText(messageText, "base64"));
  } catch {
    return false;
  }
}

/** As long as the ids of messages are. */
const anyMessageId = "00000000-0000-0000-0000-000000000000";

function fits(text: string): boolean {
  return byteLength(text) <= maxMessageBytes;
}

/** What XML cannot represent: control characters other than whitespace, lone surrogates, and two that are no characters. */
const notInXml = /(?![\t\n\r\u007F-\u009F])\p{Cc}|\p{Cs}|[\uFFFE\uFFFF]/u;

/** A forged message may become one that the queue rejects. It stays, and does not keep the others from being moved. */
function isSendable({ messageId }: QueueMessageLike, original: Original | undefined): original is Original {
  if (original && fits(original.text) && !notInXml.test(original.text)) return true;
  logger.warning(`message ${messageId} stays in the poison queue: it cannot be sent to its queue`);
  return false;
}
