import type { QueueLike } from "../clients/queue.js";

type Received = Awaited<ReturnType<QueueLike["receiveMessages"]>>;

/**
 * When the service has responded to a receive, by its own clock. In a browser, CORS may hide the header with the date; the body tells as well,
 * as each message becomes visible again when the visibility timeout that was requested is over.
 */
export function serviceTimeOf({ date, receivedMessageItems: [first] }: Received, visibilityTimeoutInSeconds: number): Date {
  if (date) return date;
  const nextVisibleOn = first?.nextVisibleOn?.getTime() ?? NaN;
  return Number.isNaN(nextVisibleOn) ? new Date() : new Date(nextVisibleOn - visibilityTimeoutInSeconds * 1_000);
}
