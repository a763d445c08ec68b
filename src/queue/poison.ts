import type { QueueCallOptions, QueueLike } from "../clients.js";
import { logger } from "../internal/log.js";
import { byteLength, maxMessageBytes } from "./encoding.js";
import type { Envelope, PoisonFacts } from "./envelope.js";
import { sealEnvelope } from "./envelope.js";

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
