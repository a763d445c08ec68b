import { onAbort } from "../internal/abort.js";
import { boundedCall } from "./bounded-call.js";
import type { Incoming } from "./incoming.js";
import { poisonText, sendPoison } from "./poison.js";
import type { Workplace } from "./work.js";

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
