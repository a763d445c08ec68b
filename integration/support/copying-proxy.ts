import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A reverse proxy that sends some writes twice, and returns the response to the second copy. */
export interface CopyingProxy extends AsyncDisposable {
  readonly url: string;
  /** How many requests the client sent. */
  readonly requests: number;
  /** How many of them were carried out twice. */
  readonly copies: number;
}

/**
 * Starts a proxy on the loopback that re-sends every `nth` request that changes something, as a browser or a reverse proxy does
 * when a connection breaks before the response: the SDK sees one request and one response.
 */
export async function startCopyingProxy(targetUrl: string, nth: number): Promise<CopyingProxy> {
  const target = new URL(targetUrl);
  const agent = new Agent({ keepAlive: true });
  const counted = { requests: 0, copies: 0, changes: 0 };

  async function serve(message: IncomingMessage, client: ServerResponse): Promise<void> {
    counted.requests++;
    const body = await readAll(message);
    let response = await forward(message, body, target, agent);
    if (message.method !== "GET" && message.method !== "HEAD" && response.status < 300 && ++counted.changes % nth === 0) {
      counted.copies++;
      response = await forward(message, body, target, agent);
    }
    client.writeHead(response.status, response.headers);
    client.end(response.body);
  }

  const server = createServer((message, client) => {
    serve(message, client).catch(() => client.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${target.pathname}`,
    get requests() {
      return counted.requests;
    },
    get copies() {
      return counted.copies;
    },
    [Symbol.asyncDispose]: () => close(server, agent),
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
