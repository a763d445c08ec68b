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
  if (endsBeforeRetry(consumer, message, delayInMs)) return poisonMessage(consumer, message, noNextAttempt(delayInMs), error, claim);
  // The message cannot carry the count: the inbox does.
  if (message.needsClaimFailures) await claim?.release(true).catch((notReleased: unknown) => consumer.emit("error", notReleased));
  report(consumer, message, await message.releaseFailed(delayInMs), delayInMs, error);
}

/** Whether the queue would delete a message before its next attempt could begin, although there is a queue that can keep it. */
export function endsBeforeRetry<T>({ settings }: ConsumerContext<T>, message: ReceivedMessage<T>, delayInMs: number): boolean {
  return settings.poisonQueue !== undefined && message.lifeInMs < delayInMs + settings.maxPollInMs + 1_000;
}

function noNextAttempt(delayInMs: number): string {
  return `its time to live would be over before the next attempt, in ${Math.round(delayInMs)} ms`;
}

/** With less, a message that is given back for a second or two may be gone before the next poll. */
const minLifeInMs = 5_000;

/**
 * Gives a message back that waits for another one. Its consumer polls in time, so it may come back as long as it lives: most of those that
 * wait for their key are duplicates, which are no more than noise in the poison queue.
 */
export async function giveBackWaiting<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, delayInMs: number, reason: string): Promise<void> {
  if (consumer.settings.poisonQueue && message.lifeInMs < minLifeInMs) {
    await deadLetter(consumer, message, reason, undefined);
    return;
  }
  consumer.pace.expectMessages(shortened(message, delayInMs));
  await message.giveBack(delayInMs);
}

/** The delay is the choice of the consumer: at half of its life at the latest, the message is tried again. */
function shortened<T>({ lifeInMs }: ReceivedMessage<T>, delayInMs: number): number {
  return Math.max(0, Math.min(delayInMs, lifeInMs / 2));
}

/** Gives a message back because the inbox, its payload or a queue to send to cannot be used. It is not counted, however often that happens. */
export async function giveBackUncharged<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, longestInMs: number, error: unknown): Promise<void> {
  const delayInMs = shortened(message, longestInMs);
  if (endsBeforeRetry(consumer, message, delayInMs)) await deadLetter(consumer, message, noNextAttempt(delayInMs), error);
  else await giveBackMessage(consumer, message, delayInMs, error);
}

/** Gives a message back at once, or after a delay. It is not counted. */
export async function giveBackMessage<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, delayInMs: number, error: unknown): Promise<void> {
  report(consumer, message, await message.giveBack(delayInMs), delayInMs, error);
}

/** Another writer has changed the entities of the effect. This is no failure; but the delivery counts, as some conflicts never end. */
export async function retryConflict<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, error: unknown): Promise<void> {
  const longestInMs = Math.min(maxConflictDelayInMs, 500 * 2 ** Math.min(message.deliveries, 10));
  const delayInMs = shortened(message, 1_000 * Math.floor((Math.random() * longestInMs) / 1_000));
  if (endsBeforeRetry(consumer, message, delayInMs)) return poisonMessage(consumer, message, noNextAttempt(delayInMs), error, undefined);
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
