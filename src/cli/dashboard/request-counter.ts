import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";

/** The requests of one piece of work, with all that it starts. */
interface Tally {
  count: number;
  readonly max: number;
  readonly onMax: () => void;
  /** Of the work that it is part of. */
  readonly parent: Tally | undefined;
}

const current = new AsyncLocalStorage<Tally>();
const channel = "http.client.request.start";

/** Node reports every request when it is sent: retries of the SDKs count, as the service charges for them. */
function onRequest(): void {
  for (let tally = current.getStore(); tally; tally = tally.parent) if (++tally.count === tally.max) tally.onMax();
}

/** Counts requests until it is disposed of. */
export function startCounting(): Disposable {
  subscribe(channel, onRequest);
  return { [Symbol.dispose]: () => void unsubscribe(channel, onRequest) };
}

/** Runs work, and reports how many requests it has sent, whether it succeeds or not. */
export async function countRequests<R>(work: () => Promise<R>, onCount: (requests: number) => void): Promise<R> {
  const tally: Tally = { count: 0, max: Infinity, onMax: () => undefined, parent: current.getStore() };
  try {
    return await current.run(tally, work);
  } finally {
    onCount(tally.count);
  }
}

/** Runs work whose signal aborts when it sends its last allowed request. */
export async function limitRequests<R>(max: number, outer: AbortSignal, work: (signal: AbortSignal) => Promise<R>): Promise<R> {
  const limit = new AbortController();
  return current.run({ count: 0, max, onMax: () => limit.abort(), parent: current.getStore() }, () => work(AbortSignal.any([outer, limit.signal])));
}
