import { setMaxListeners } from "node:events";
import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** How often, or how much later, a request that changes something reaches the service. */
export type Delivery =
  | "once"
  /** Twice in a row, if the first copy is carried out. The client gets the response to the second one. */
  | "twice"
  /** The client's connection is cut at once, and the request is carried out all the same, so much later. */
  | { readonly lateInMs: number };

/** A reverse proxy that sends some writes twice, or late. */
export interface CopyingProxy extends AsyncDisposable {
  readonly url: string;
  /** How many requests the client sent. */
  readonly requests: number;
  /** How many of them were carried out twice. */
  readonly copies: number;
  /** How many were carried out when their client had lost its connection. */
  readonly late: number;
}

/**
 * Starts a proxy on the loopback that re-sends every `nth` request that changes something, as a browser or a reverse proxy does
 * when a connection breaks before the response: the SDK sees one request and one response. Or does with each what a function says.
 */
export async function startCopyingProxy(targetUrl: string, deliveryOf: number | (() => Delivery)): Promise<CopyingProxy> {
  const target = new URL(targetUrl);
  // Free sockets are closed well before a server's usual 5 seconds, so that none is reused while the server closes it.
  const agent = new Agent({ keepAlive: true, timeout: 2_000 });
  const counted = { requests: 0, copies: 0, late: 0, changes: 0 };
  const stopped = new AbortController();
  setMaxListeners(0, stopped.signal);

  async function serve(message: IncomingMessage, client: ServerResponse): Promise<void> {
    counted.requests++;
    const body = await readAll(message);
    const changes = message.method !== "GET" && message.method !== "HEAD";
    const delivery = changes && typeof deliveryOf === "function" ? deliveryOf() : "once";
    if (typeof delivery === "object") {
      client.destroy();
      await sleep(delivery.lateInMs, undefined, { signal: stopped.signal, ref: false });
      await forward(message, body, target, agent);
      counted.late++;
      return;
    }
    let response = await forward(message, body, target, agent);
    const isNth = (): boolean => typeof deliveryOf === "number" && ++counted.changes % deliveryOf === 0;
    if (changes && response.status < 300 && (delivery === "twice" || isNth())) {
      counted.copies++;
      response = await forward(message, body, target, agent);
    }
    if (client.destroyed) return;
    client.writeHead(response.status, response.headers);
    client.end(response.body);
  }

  const server = createServer((message, client) => {
    serve(message, client).catch(() => client.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  // An idle connection is never closed: that would be a fault of its own.
  server.keepAliveTimeout = 0;
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${target.pathname.replace(/\/+$/, "")}`,
    get requests() {
      return counted.requests;
    },
    get copies() {
      return counted.copies;
    },
    get late() {
      return counted.late;
    },
    [Symbol.asyncDispose]: () => {
      stopped.abort();
      return close(server, agent);
    },
  };
}

interface Response {
  readonly status: number;
  readonly headers: string[];
  readonly body: Buffer;
}

function forward(message: IncomingMessage, body: Buffer, target: URL, agent: Agent): Promise<Response> {
  return new Promise((resolve, reject) => {
    const { method, url: path, rawHeaders: headers } = message;
    const upstream = request({ agent, hostname: target.hostname, port: target.port, method, path, headers }, (response) => {
      readAll(response).then((received) => resolve({ status: response.statusCode ?? 0, headers: response.rawHeaders, body: received }), reject);
    });
    upstream.once("error", reject);
    upstream.end(body);
  });
}

async function readAll(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function close(server: Server, agent: Agent): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
    agent.destroy();
  });
}
