/* Orders over HTTP. A client repeats a request that it got no response to, with the same Idempotency-Key, to any instance. */
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { isConcurrencyError } from "azure-storage-concurrency";
import { BadRequest, parseOrder, regions } from "./orders.js";
import type { Orders } from "./orders.js";

export interface ApiParts {
  /** Undefined: this instance takes no orders. */
  readonly orders: Orders | undefined;
  readonly readiness: () => Readiness;
  readonly reports: () => Promise<readonly object[]>;
  readonly writeMetrics: (request: IncomingMessage, response: ServerResponse) => void;
}

export interface Readiness {
  readonly isReady: boolean;
  readonly details: Readonly<Record<string, unknown>>;
}

interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const maxBodyInBytes = 10_000;

export function createApi(parts: ApiParts): Server {
  return createServer((request, response) => {
    // A client that has gone does not wait for its order: the call ends, and a repetition finds out what came of it.
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const path = (request.url ?? "/").split("?")[0] ?? "/";
    if (request.method === "GET" && path === "/metrics") {
      parts.writeMetrics(request, response);
      return;
    }
    route(parts, request, path, gone.signal).catch(replyToError).then(({ status, body, headers }) => {
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(`${JSON.stringify(body)}\n`);
    }, () => response.destroy());
  });
}

async function route({ orders, readiness, reports }: ApiParts, request: IncomingMessage, path: string, signal: AbortSignal): Promise<Reply> {
  if (request.method === "GET" && path === "/health") return { status: 200, body: { alive: true } };
  if (request.method === "GET" && path === "/ready") {
    const { isReady, details } = readiness();
    return { status: isReady ? 200 : 503, body: { ready: isReady, ...details } };
  }
  if (request.method === "GET" && path === "/reports") return { status: 200, body: await reports() };
  if (orders && path === "/orders" && request.method === "POST") return await placeOrder(orders, request, signal);
  const [, region, id = ""] = /^\/orders\/(\w+)\/([\w-]{1,50})$/.exec(path) ?? [];
  const known = regions.find((each) => each === region);
  const order = orders && known && request.method === "GET" ? await orders.find(known, id) : undefined;
  return order ? { status: 200, body: { id, region, ...order } } : { status: 404, body: { error: "There is nothing here." } };
}

async function placeOrder(orders: Orders, request: IncomingMessage, signal: AbortSignal): Promise<Reply> {
  const key = request.headers["idempotency-key"];
  if (typeof key !== "string" || !/^[\w-]{1,100}$/.test(key)) throw new BadRequest("Idempotency-Key must be 1 to 100 letters, digits, - or _");
  const { value, replayed } = await orders.place(key, parseOrder(await readBody(request)), signal);
  // Another status for a repetition is for the load generator; a client need not look.
  return { status: replayed ? 200 : 201, body: value, headers: { location: `/orders/${value.region}/${value.id}` } };
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBodyInBytes) throw new BadRequest(`The body must not have more than ${maxBodyInBytes} bytes.`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new BadRequest("The body must be JSON.");
  }
}

/** Everything but a mistake of the client: repeat the request. The key makes that safe, whatever came of this one. */
function replyToError(error: unknown): Reply {
  if (error instanceof BadRequest) return { status: 400, body: { error: error.message } };
  if (isConcurrencyError(error, "IDEMPOTENCY_MISMATCH")) return { status: 422, body: { error: "This Idempotency-Key was used for another order." } };
  return { status: 503, body: { error: "Repeat the request with the same Idempotency-Key." }, headers: { "retry-after": "1" } };
}
