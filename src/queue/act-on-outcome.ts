import { logger, redactUrl } from "../core/telemetry.js";
import { createError, LockModeMismatchError } from "../errors.js";
import type { ConsumerContext } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { InboxClaimResult } from "./inbox/inbox.js";
import { processMessage } from "./process-message.js";
import type { Successor } from "./process-message.js";
import type { ReceivedMessage } from "./received-message.js";
import { deleteStoredPayload, endsBeforeRetry, giveBackWaiting } from "./settle.js";

const unusedReleaseTimeoutInMs = 5_000;
const endsInGroup = "its time to live ends while it waits for its group";

/** What becomes of a message that was received. Undefined: it is given back at once. */
export type Outcome = InboxClaimResult | "no inbox" | { readonly kind: "excess"; readonly delayInMs: number } | undefined;

/** Handles a message, or settles it without a handler, by the outcome of its claim. Never rejects. */
export async function actOnOutcome<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, outcome: Outcome, takeSuccessor: () => Successor | undefined): Promise<void> {
  try {
    if (message.lease.remainingInMs > 0) await act(consumer, message, outcome, takeSuccessor);
    else await drop(consumer, message, outcome);
  } catch (error) {
    consumer.emit("error", error);
  } finally {
    message.lease.abandon();
  }
}

/** The message is lost before its handler was started. The next delivery takes its claim over in any case, and then does not count this one. */
async function drop<T>({ emit, dropAll }: ConsumerContext<T>, { info, lease }: ReceivedMessage<T>, outcome: Outcome): Promise<void> {
  emit("lost", { ...info, error: lease.lostError });
  if (typeof outcome !== "object" || outcome.kind !== "claimed") return;
  await callInbox((request) => outcome.claim.release(false, request), { timeoutInMs: unusedReleaseTimeoutInMs, abortSignals: [dropAll] });
}

async function act<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, outcome: Outcome, takeSuccessor: () => Successor | undefined): Promise<void> {
  if (outcome === undefined) {
    return giveBackUnclaimed(consumer, message);
  }
  if (outcome === "no inbox") return processMessage(consumer, message, undefined);
  switch (outcome.kind) {
    case "claimed":
      message.setClaimCounts(outcome.claim);
      return processMessage(consumer, message, outcome.claim, takeSuccessor);
    case "completed": {
      consumer.pace.handlerNotRun();
      const settled = await message.lease.delete();
      consumer.emit("duplicate", message.info);
      if (settled === "done" && message.storedPayload) await deleteStoredPayload(consumer, message);
      return;
    }
    case "busy":
      return giveBackWaiting(consumer, message, busyDelayInMs(outcome.retryAfterInMs, message.givenBack), "its time to live ends while another message with its key or group is handled");
    case "excess":
      return giveBackWaiting(consumer, message, outcome.delayInMs, endsInGroup);
    case "gap":
      return waitForPredecessor(consumer, message, outcome);
    case "sequenceUsed":
      consumer.pace.handlerNotRun();
      await deadLetter(consumer, message, "its sequence was used before in its group: by another message, or it was skipped", undefined);
      return;
    case "payloadMismatch":
      consumer.pace.handlerNotRun();
      await deadLetter(consumer, message, "its idempotency key was used before, for another payload", undefined);
      return;
    case "superseded": // another consumer has the message
  }
}

/** The consumer stops, or the inbox could not be used for as long as a message may wait for it. */
async function giveBackUnclaimed<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>): Promise<void> {
  // Another consumer can have it at once. In an outage, it may be too late for that.
  if (consumer.stopping.aborted || !endsBeforeRetry(consumer, message, 0)) await message.giveBack();
  else await deadLetter(consumer, message, "its time to live ends while the inbox cannot be used", undefined);
}

/** Not for longer than it lives: the queue would delete it, and its group would wait for ever. */
async function waitForPredecessor<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, { lastSequence, retryAfterInMs }: Extract<InboxClaimResult, { kind: "gap" }>): Promise<void> {
  if (message.sequence === undefined) consumer.emit("error", otherOrder(consumer, message));
  const delayInMs = busyDelayInMs(retryAfterInMs, message.givenBack);
  if (endsBeforeRetry(consumer, message, delayInMs)) {
    await deadLetter(consumer, message, `its time to live ends while it waits for sequence ${lastSequence + 1} of its group`, undefined);
  } else {
    logger.verbose(`message ${message.info.messageId} of queue ${consumer.queue.name} waits for sequence ${lastSequence + 1} of its group`);
    await message.giveBack(delayInMs);
  }
}

/** Other consumers keep the order of this group. The message is theirs. */
function otherOrder<T>({ queue }: ConsumerContext<T>, { group }: ReceivedMessage<T>): LockModeMismatchError {
  const message =
    `Messages of the group ${JSON.stringify(group)} are handled in the order of their sequences, and this consumer has no order: "sequence". It leaves them to the others. ` +
    "Use the same order in all consumers of a queue. To end the order, stop all consumers, and purge the groups of the inbox (groupsOlderThanInMs).";
  return createError(LockModeMismatchError, message, { url: redactUrl(queue.url), setting: "order", expected: "none", found: "sequence" });
}

/** Most handlers of another message with the same key end soon: the first delay is short, and the following ones are longer. */
function busyDelayInMs(retryAfterInMs: number, earlierDeliveries: number): number {
  return Math.min(retryAfterInMs, 1_000 * 2 ** Math.min(earlierDeliveries, 10));
}

/** The queue would delete the message while it waits for its group. */
export async function actOnExpiry<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>): Promise<void> {
  try {
    if (consumer.settings.poisonQueue) await deadLetter(consumer, message, endsInGroup, undefined);
    else consumer.emit("lost", { ...message.info, error: message.lease.lostError });
  } finally {
    message.lease.abandon();
  }
}
