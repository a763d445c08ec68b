import { Deadline, RequestTimeoutError } from "../core/deadline.js";
import { fullJitter } from "../core/retry.js";
import { isConcurrencyError } from "../errors.js";
import type { ConsumerContext } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import { PayloadUnavailableError, UnusablePayloadError } from "./overflow/reference.js";
import type { ReceivedMessage } from "./received-message.js";
import { failMessage, giveBackUncharged } from "./settle.js";

/** While its payload cannot be read, a message is given back for this long at most. */
const maxUnavailableDelayInMs = 60_000;

/** Thrown for a message without a position. Compared by identity: a decoder may throw anything, also what cannot be inspected. */
const noPosition = new Error('order: "sequence" needs messages with a group and a sequence');

/**
 * Reads and decodes the payload of a message. Returns undefined if a handler can have it, and otherwise how to settle the message:
 *
 * | what failed                                   | the message                                    |
 * |-----------------------------------------------|------------------------------------------------|
 * | the payload in a blob cannot be read now      | is given back: this says nothing about it      |
 * | the payload in a blob is missing or damaged   | is moved to the poison queue                   |
 * | decoder, schema or position                   | is moved to the poison queue                   |
 * | decoder or schema take too long               | has failed, and is retried                     |
 * | any of these while the consumer stops         | is given back                                  |
 */
export async function openMessage<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, isStopping: () => boolean): Promise<(() => Promise<unknown>) | undefined> {
  const { settings, stopHandlers } = consumer;
  const settle = (otherwise: () => Promise<unknown>) => (): Promise<unknown> => (isStopping() ? message.giveBack() : otherwise());
  try {
    // Has limits of its own: a slow blob service is no failure of the message.
    await message.load(stopHandlers);
  } catch (error) {
    return settle(() => settleUnloaded(consumer, message, error));
  }
  const timeoutInMs = Math.min(settings.visibilityTimeoutInSeconds * 1_000, settings.maxProcessingTimeInMs);
  // Raced: the decoder and the schema are functions of the application, which may never settle.
  const limit = new Deadline(timeoutInMs, () => new RequestTimeoutError(timeoutInMs, "the payload was not decoded in time"), stopHandlers);
  try {
    await limit.race(message.open());
    if (settings.order === "sequence" && (message.group === undefined || message.sequence === undefined)) throw noPosition;
    return undefined;
  } catch (error) {
    const timedOut = limit.signal.aborted && error === limit.signal.reason;
    if (!timedOut) consumer.pace.handlerNotRun();
    return settle(() => (timedOut ? failMessage(consumer, message, { error }) : deadLetter(consumer, message, unopenedReasonOf(error), error)));
  } finally {
    limit.dispose();
  }
}

function settleUnloaded<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, error: unknown): Promise<unknown> {
  if (!(error instanceof PayloadUnavailableError)) {
    consumer.pace.handlerNotRun();
    return deadLetter(consumer, message, error instanceof UnusablePayloadError ? error.message : "cannot be decoded", error);
  }
  // Other messages may show that the inbox works, so that the pace of the poller recovers: the delay of this one grows all the same.
  const delayInMs = Math.max(consumer.pace.infrastructureFailed(error), fullJitter(message.givenBack, 1_000, maxUnavailableDelayInMs));
  return giveBackUncharged(consumer, message, delayInMs, error);
}

function unopenedReasonOf(error: unknown): string {
  if (error === noPosition) return 'has no group or no sequence, and the consumer has order: "sequence"';
  return isConcurrencyError(error, "SCHEMA") ? "does not match the schema" : "cannot be decoded";
}
