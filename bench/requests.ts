import { subscribe } from "node:diagnostics_channel";

let sent = 0;

// Node announces every request that its HTTP client starts. So both sides are counted alike, re-sends of the SDK
// included, and neither has a pipeline that differs from what users have.
subscribe("http.client.request.start", () => sent++);

/** How many HTTP requests this process has started. */
export function requestsSent(): number {
  return sent;
}
