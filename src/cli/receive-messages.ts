import type { QueueClient, ReceivedMessageItem } from "@azure/storage-queue";
import { inParallel } from "../core/parallel.js";

/** What the service returns at most. */
export const maxPeek = 32;

/** Long enough to read ten thousand messages. After a crash, they are visible again by then. */
const hiddenInSeconds = 120;

/**
 * Only 32 messages can be peeked, and none can be deleted that was not received. So messages are received until `see` has seen enough
 * (returns false) or there are no others, and then all are made visible again. `see` may delete some of its messages.
 */
export async function receiveMessages(queue: QueueClient, see: (fresh: readonly ReceivedMessageItem[]) => boolean | Promise<boolean>): Promise<void> {
  const received = new Map<string, string>();
  try {
    for (let goesOn = true; goesOn;) {
      const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: maxPeek, visibilityTimeout: hiddenInSeconds });
      const fresh = receivedMessageItems.filter(({ messageId }) => !received.has(messageId));
      for (const { messageId, popReceipt } of receivedMessageItems) received.set(messageId, popReceipt);
      goesOn = fresh.length > 0 && (await see(fresh));
    }
  } finally {
    await inParallel([...received], 16, async ([messageId, popReceipt]) => {
      // Deleted by `see`; or another program may have received or deleted it meanwhile.
      await queue.updateMessage(messageId, popReceipt, undefined, 0).catch(() => undefined);
    });
  }
}
