import type { QueueCallOptions, QueueLike } from "../clients/queue.js";
import { onAbort } from "../core/deadline.js";
import { logger } from "../core/telemetry.js";
import { request } from "../core/request.js";
import type { ConsumerContext } from "./context.js";
import { byteLength, maxMessageBytes, sealEnvelope } from "./envelope.js";
import type { Envelope, PoisonFacts } from "./envelope.js";
import type { ReceivedMessage } from "./received-message.js";

/** How long a message stays that should be put aside and cannot. */
const blockedDelayInSeconds = 300;

/**
 * Puts a message aside: first sends it to the poison queue, then deletes it. A crash in between leaves two of it with
 * the same key, which a redrive and an inbox make one again. Returns whether it was sent.
 */
export async function deadLetter<T>(consumer: ConsumerContext<T>, received: ReceivedMessage<T>, reason: string, error: unknown): Promise<boolean> {
  const { emit, settings, queue, dropAll } = consumer;
  const { info, message, lease, content } = received;
  const { poisonQueue } = settings;
  if (!poisonQueue) {
    emit("error", new Error(`message ${info.messageId} should be put aside (${reason}), but no poisonQueue was given: it stays in ${queue.name}`));
    await lease.release(blockedDelayInSeconds);
    return false;
  }
  const details = {
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
  const text = poisonText(info.key, content ?? { asc: 1, text: message.messageText }, details, message.messageText);
  const sent = await request((abortSignal) => sendPoison(poisonQueue, text, { abortSignal }), {
    timeoutInMs: Math.max(1, Math.min(30_000, lease.remainingInMs)),
  });
  if (sent.kind !== "ok") {
    emit("error", sent.error);
    await lease.release(Math.ceil(settings.retryDelay(info.attempt, sent.error) / 1_000));
    return false;
  }
  const off = onAbort(dropAll, () => lease.abandon());
  await lease.delete();
  off();
  emit("poisoned", { ...info, reason, error });
  return true;
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : JSON.stringify(error);
}

/**
 * The text for the poison queue: the content with its key and the details, always as plain JSON for whoever looks into
 * it. Long reasons and errors are cut. If there is no room even so, it is the message exactly as it was: never lost is
 * worth more than explained, and what is left out stands in the event.
 */
export function poisonText(key: string, content: Envelope, details: PoisonFacts, original: string): string {
  const { body, text } = content;
  const carried = { asc: 1 as const, key, ...(text === undefined ? { body } : { text }) };
  for (const limit of [2_000, 200, 20]) {
    const poison = { ...details, reason: cut(details.reason, limit), ...(details.error !== undefined && { error: cut(details.error, limit) }) };
    const sealed = sealEnvelope({ ...carried, poison }, "text");
    if (byteLength(sealed) <= maxMessageBytes) return sealed;
  }
  logger.warning(`message ${details.messageId} goes to the poison queue as it is, without room for the reason`);
  return original;
}

/** Poison waits until somebody looks at it, so it never expires. */
export async function sendPoison(poisonQueue: QueueLike, text: string, options: QueueCallOptions): Promise<void> {
  await poisonQueue.sendMessage(text, { ...options, messageTimeToLive: -1 });
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit)}…`;
}
