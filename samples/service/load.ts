/* Clients that order. One that gets no response, or 503, sends its request again, with the same key, to the next instance. */
import { randomInt, randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { regions } from "./orders.js";
import type { OrderRequest, PlacedOrder } from "./orders.js";

export interface Load {
  /** What the clients were told: each order by its id. */
  readonly placed: ReadonlyMap<string, OrderRequest>;
  /** Requests that were sent again. */
  readonly repeated: number;
  /** Clients that gave up: their orders may or may not be placed. */
  readonly givenUp: number;
  /** Lets the clients finish their orders. */
  stop(): Promise<void>;
}

export interface LoadOptions {
  /** The instances, as they are now. */
  readonly urls: () => readonly string[];
  readonly clients: number;
  /** How long a client waits between two orders. */
  readonly pauseInMs: number;
  /** A response that does not come within this time counts as lost. */
  readonly answerTimeoutInMs?: number;
  /** How often a client sends a request before it gives up. @defaultValue 100 */
  readonly maxTries?: number;
}

export function startLoad({ urls, clients, pauseInMs, answerTimeoutInMs = 5_000, maxTries = 100 }: LoadOptions): Load {
  const placed = new Map<string, OrderRequest>();
  const state = { repeated: 0, givenUp: 0, stopped: false };

  const order = async (client: number, n: number): Promise<void> => {
    const request: OrderRequest = { region: regions[randomInt(regions.length)]!, customer: `customer-${client}`, amount: randomInt(100, 10_000), card: cardOf(n) };
    const key = randomUUID();
    for (let tries = 0; tries < maxTries; tries++) {
      if (tries > 0) state.repeated++;
      const id = await send(urls()[(client + tries) % Math.max(1, urls().length)], key, request, answerTimeoutInMs);
      if (id !== undefined) {
        placed.set(id, request);
        return;
      }
      await pause(50 + randomInt(200));
    }
    state.givenUp++;
  };

  const work = async (client: number): Promise<void> => {
    for (let n = client; !state.stopped; n++) {
      await order(client, n);
      await pause(pauseInMs * (0.5 + Math.random()));
    }
  };
  const running = Promise.all(Array.from({ length: clients }, (_, client) => work(client)));
  // A client whose order is rejected ends the load: `stop` throws its error.
  running.catch(() => undefined);
  return {
    placed,
    get repeated() {
      return state.repeated;
    },
    get givenUp() {
      return state.givenUp;
    },
    stop: async () => {
      state.stopped = true;
      await running;
    },
  };
}

/** Most cards are good. */
function cardOf(n: number): string {
  if (n % 60 === 30) return "unreadable";
  return n % 20 === 10 ? "declined" : "good";
}

/** The id of the order, or undefined if the request has to be repeated. @throws if the service says that it is wrong. */
async function send(url: string | undefined, key: string, request: OrderRequest, answerTimeoutInMs: number): Promise<string | undefined> {
  if (url === undefined) return undefined;
  let response: Response;
  try {
    response = await fetch(`${url}/orders`, {
      method: "POST",
      headers: { "idempotency-key": key, "content-type": "application/json" },
      body: JSON.stringify(request),
      signal: AbortSignal.timeout(answerTimeoutInMs),
    });
    if (response.ok) return ((await response.json()) as PlacedOrder).id;
  } catch {
    return undefined; // The connection broke, or the response did not come in time.
  }
  if (response.status === 503) return undefined;
  throw new Error(`the order was rejected with ${response.status}: ${await response.text()}`);
}
