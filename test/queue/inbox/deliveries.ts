import type { InboxDelivery } from "../../../src/index.js";
import { startStopwatch } from "../../../src/core/stopwatch.js";

let messages = 0;

/** A delivery of a message, hidden for 60 seconds. */
export function deliver(key: string, facts: Partial<InboxDelivery> = {}): InboxDelivery {
  return {
    queue: "jobs",
    key,
    messageId: `message-${++messages}`,
    dequeueCount: 1,
    clock: startStopwatch(),
    serviceTime: () => Date.now(),
    visibilityInMs: 60_000,
    ...facts,
  };
}

/** The next delivery of the same message. */
export function again(delivery: InboxDelivery): InboxDelivery {
  return { ...delivery, dequeueCount: delivery.dequeueCount + 1, clock: startStopwatch() };
}
