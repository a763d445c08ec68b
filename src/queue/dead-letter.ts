import type { QueueCallOptions, QueueLike } from "../clients.js";
import { onAbort } from "../core/abort.js";
import { logger } from "../core/telemetry.js";
import { boundedCall } from "./bounded-call.js";
import { byteLength, maxMessageBytes, sealEnvelope } from "./envelope.js";
import type { Envelope, PoisonFacts } from "./envelope.js";
import type { Workplace } from "./process-message.js";
import type { Incoming } from "./received-message.js";

/** How long a message stays that should be put aside and cannot. */
const blockedDelayInSeconds = 300;

/**
 * Puts a message aside: first sends it to the poison queue, then deletes it. A crash in between leaves two of it with
 * the same key, which a redrive and an inbox make one again. Returns whether it was sent.
 */
export async function putAside<T>(place: Workplace<T>, incoming: Incoming<T>, reason: string, error: unknown): Promise<boolean> {
  const { emit, settings, queue, dropAll } = place;
  const { info, message, ownership, content } = incoming;
  const { poisonQueue } = settings;
  if (!poisonQueue) {
    emit("error", new Error(`message ${info.messageId} should be put aside (${reason}), but no poisonQueue was given: it stays in ${queue.name}`));
    await ownership.release(blockedDelayInSeconds);
    return false;
  }
  const facts = {
    reason,
    ...(error !== undefined && { error: describe(error) }),
    attempts: info.attempt,
    queue: queue.name,
    messageId: info.messageId,
    insertedOn: info.insertedOn.toISOString(),
    poisonedOn: new Date().toISOString(),
    encoding: settings.encoding,
    ...(!content && { raw: true as const }),
  };
  const text = poisonText(info.key, content ?? { asc: 1, text: message.messageText }, facts, message.messageText);
  const sent = await boundedCall(Math.max(1, Math.min(30_000, ownership.remainingInMs)), (options) => sendPoison(poisonQueue, text, options));
  if (sent.kind !== "ok") {
    emit("error", sent.error);
    await ownership.release(Math.ceil(settings.retryDelay(info.attempt, sent.error) / 1_000));
    return false;
  }
  const off = onAbort(dropAll, () => ownership.abandon());
  await ownership.delete();
  off();
  emit("poisoned", { ...info, reason, error });
  return true;
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : JSON.stringify(error);
}

/**
 * The text for the poison queue: the content with its key and the facts, always as plain JSON for whoever looks into
 * it. Long reasons and errors are cut. If there is no room even so, it is the message exactly as it was: never lost is
 * worth more than explained, and what is left out stands in the event.
 */
export function poisonText(key: string, content: Envelope, facts: PoisonFacts, original: string): string {
  const { body, text } = content;
  const carried = { asc: 1 as const, key, ...(text === undefined ? { body } : { text }) };
  for (const limit of [2_000, 200, 20]) {
    const poison = { ...facts, reason: cut(facts.reason, limit), ...(facts.error !== undefined && { error: cut(facts.error, limit) }) };
    const sealed = sealEnvelope({ ...carried, poison }, "text");
    if (byteLength(sealed) <= maxMessageBytes) return sealed;
  }
  logger.warning(`message ${facts.messageId} goes to the poison queue as it is, without room for the reason`);
  return original;
}

/** Poison waits until somebody looks at it, so it never expires. */
export async function sendPoison(poisonQueue: QueueLike, text: string, options: QueueCallOptions): Promise<void> {
  await poisonQueue.sendMessage(text, { ...options, messageTimeToLive: -1 });
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit)}…`;
}
