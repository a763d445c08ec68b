import type { ClaimLease } from "./claim-lease.js";
import type { ConsumerContext } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import type { SettleResult } from "./message-lease.js";
import { deleteText } from "../overflow/stored-text.js";
import type { ReceivedMessage } from "./received-message.js";

/** After a conflict of the effect, the next attempt is soon, and at another time than that of the other messages. */
const maxConflictDelayInMs = 30_000;

/** What a failed attempt leads to. */
export interface FailedAttempt {
  readonly error: unknown;
  /** What the handler requested. @defaultValue `retryDelayInMs` */
  readonly delayInMs?: number | undefined;
  readonly claim?: ClaimLease | undefined;
}

/**
 * Counts a failure of a message: it is delivered again after a delay, or moved to the poison queue after the last attempt. So is a
 * message whose life ends before the next attempt could begin: the queue would delete it, and no program would notice.
 */
export async function failMessage<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, failed: FailedAttempt): Promise<void> {
  const { settings } = consumer;
  const { error, claim } = failed;
  const { attempt } = message;
  if (attempt >= settings.maxAttempts) return poisonMessage(consumer, message, `failed ${attempt} times`, error, claim);
  const delayInMs = failed.delayInMs ?? consumer.retryDelay(attempt, error);
  if (settings.poisonQueue && message.lifeInMs < delayInMs + settings.maxPollInMs + 1_000) {
    return poisonMessage(consumer, message, `its time to live would be over before the next attempt, in ${delayInMs} ms`, error, claim);
  }
  // The message cannot carry the count: the inbox does.
  if (message.needsClaimFailures) await claim?.release(true).catch((notReleased: unknown) => consumer.emit("error", notReleased));
  report(consumer, message, await message.releaseFailed(delayInMs), delayInMs, error);
}

/** Gives a message back whose attempt says nothing about it: the consumer stops, or the inbox cannot be used. It is not counted. */
export async function giveBackMessage<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, delayInMs: number, error: unknown): Promise<void> {
  report(consumer, message, await message.giveBack(delayInMs), delayInMs, error);
}

/** Another writer has changed the entities of the effect. This is no failure; but the delivery counts, as some conflicts never end. */
export async function retryConflict<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, error: unknown): Promise<void> {
  const longestInMs = Math.min(maxConflictDelayInMs, 500 * 2 ** Math.min(message.deliveries, 10));
  const delayInMs = 1_000 * Math.floor((Math.random() * longestInMs) / 1_000);
  report(consumer, message, await message.release(delayInMs), delayInMs, error);
}

/** Moves a message to the poison queue, and lets a redrive start at once: it sends the key again, as another message. */
export async function poisonMessage<T>(
  consumer: ConsumerContext<T>,
  message: ReceivedMessage<T>,
  reason: string,
  error: unknown,
  claim: ClaimLease | undefined,
): Promise<void> {
  const sent = await deadLetter(consumer, message, reason, error);
  if (sent) await claim?.release(true).catch((notReleased: unknown) => consumer.emit("error", notReleased));
}

/** After the message was deleted. A crash before that leaves a blob that no message refers to: `purgeOverflow` deletes it. */
export async function deleteStoredPayload<T>({ emit, dropAll }: ConsumerContext<T>, { storedPayload }: ReceivedMessage<T>): Promise<void> {
  const notDeleted = storedPayload && (await deleteText(storedPayload, dropAll));
  if (notDeleted !== undefined && !dropAll.aborted) emit("error", notDeleted);
}

function report<T>({ emit }: ConsumerContext<T>, { info, lease }: ReceivedMessage<T>, settled: SettleResult, delayInMs: number, error: unknown): void {
  if (settled === "lost") emit("lost", { ...info, error: lease.lostError });
  else emit("retried", { ...info, delayInMs, error });
}
