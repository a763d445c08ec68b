import { onAbort } from "../core/deadline.js";
import { fullJitter } from "../core/retry.js";
import { logger } from "../core/telemetry.js";
import { isConcurrencyError } from "../errors.js";
import type { SchemaError } from "../errors.js";
import type { ConsumerContext } from "./context.js";
import { byteLength, isReferenceBody, lifetimeOf, maxMessageBytes, sealEnvelope } from "./envelope.js";
import type { Envelope, StoredPoisonDetails } from "./envelope.js";
import type { ReceivedMessage } from "./received-message.js";

/** How long a message stays hidden that should be dead-lettered and cannot. */
const blockedDelayInMs = 300_000;

/** While the poison queue cannot be reached, messages come back after this long at most. */
const maxUnpoisonedDelayInMs = 60_000;

/**
 * Moves a message to the poison queue: first sends it there, then deletes it. A crash in between leaves two copies with the same
 * key; after a redrive, an inbox recognises one of them as a duplicate. Returns whether it was sent.
 */
export async function deadLetter<T>(consumer: ConsumerContext<T>, received: ReceivedMessage<T>, reason: string, error: unknown): Promise<boolean> {
  const { emit, settings, queue, dropAll } = consumer;
  const { info, message, lease, content } = received;
  const { poisonQueue } = settings;
  // Another consumer may have it now: a copy would be one too many.
  if (lease.remainingInMs <= 0) {
    emit("lost", { ...info, error: lease.lostError });
    return false;
  }
  if (!poisonQueue) {
    emit("error", new Error(`Message ${info.messageId} cannot be moved to a poison queue (${reason}): set the option poisonQueue. It stays in ${queue.name}.`, { cause: error }));
    await received.releaseFailed(blockedDelayInMs, info.attempt - 1);
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
    timeToLiveInSeconds: lifetimeOf(message),
    ...(!content && { raw: true as const }),
  };
  const text = poisonText(info.idempotencyKey, content ? { ...content, checkpoint: received.checkpoint } : { asc: 1, text: message.messageText }, details, message.messageText);
  const sent = await consumer.poisonSender.send(poisonQueue, text, { remainingInMs: lease.remainingInMs, abortSignal: dropAll });
  if (sent.kind === "failed") {
    if (!sent.skipped) emit("error", sent.error);
    // No attempt is counted meanwhile, so the delay of the attempt does not grow: that of the deliveries does.
    const delayInMs = Math.max(consumer.retryDelay(info.attempt, sent.error), fullJitter(received.deliveries - 1, 1_000, maxUnpoisonedDelayInMs));
    await received.releaseUnpoisoned(delayInMs, truncate(reason, 2_000), error === undefined ? undefined : truncate(describe(error), 2_000));
    return false;
  }
  const off = onAbort(dropAll, () => lease.abandon());
  await lease.delete();
  off();
  emit("poisoned", { ...info, reason, error });
  return true;
}

/** Never throws: an application may throw anything, and its message must be moved all the same. */
function describe(error: unknown): string {
  try {
    if (typeof error === "string") return error;
    if (isConcurrencyError(error, "SCHEMA")) return `${error.name}: ${error.message}: ${issuesOf(error)}`;
    if (error instanceof Error) return `${error.name}: ${error.message}`;
    const json = JSON.stringify(error) as string | undefined;
    if (json !== undefined) return json;
  } catch {
    // A BigInt, a circular object, or a toJSON or getter that throws.
  }
  try {
    return String(error);
  } catch {
    return "unknown error";
  }
}

/** With the schema's own messages, which may quote the payload: the poison queue contains the payload as well. */
function issuesOf({ issues }: SchemaError): string {
  return issues.map(({ message, path }) => `${(path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".") || "payload"}: ${message}`).join("; ");
}

/**
 * The text for the poison queue: the content with its key and the details, always as plain JSON, for operators who inspect it.
 * Long reasons and errors are truncated. If it is still too large, or cannot be written, the original text is sent unchanged: not to
 * lose the message matters more than to explain it, and the event has the details.
 */
export function poisonText(key: string, content: Envelope, details: StoredPoisonDetails, original: string): string {
  const { body, text, checkpoint, group, sequence, traceparent } = content;
  // The blob stays, and a redrive sends the reference again: it has its own key.
  const envelope = { asc: 1 as const, key: isReferenceBody(body) ? "" : key, group, sequence, ...(text === undefined ? { body } : { text }), checkpoint };
  // The reason matters more than the trace.
  for (const [limit, trace] of [[2_000, { traceparent }], [200, { traceparent }], [20, { traceparent }], [20, {}]] as const) {
    const error = details.error === undefined ? {} : { error: truncate(details.error, limit) };
    const poison = { ...details, reason: truncate(details.reason, limit), ...error };
    const sealed = trySeal({ ...envelope, ...trace, poison });
    if (sealed === undefined) break;
    if (byteLength(sealed) <= maxMessageBytes) return sealed;
  }
  logger.warning(`message ${details.messageId} is moved to the poison queue without the reason: it would be too large, or is nested too deeply`);
  return original;
}

/** JSON can be read at any depth, but not written: undefined. */
function trySeal(envelope: Envelope): string | undefined {
  try {
    return sealEnvelope(envelope, "text");
  } catch {
    return undefined;
  }
}

function truncate(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit)}…`;
}
