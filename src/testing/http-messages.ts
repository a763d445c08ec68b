import { request } from "node:http";
import { request as secureRequest } from "node:https";
import type { Agent, IncomingMessage, ServerResponse } from "node:http";
import type { FaultResponse } from "./fault-rule.js";

// These belong to one connection and not to the message. All others, including `Host`, are forwarded unchanged: signatures cover
// many of them, and Azurite compares the host with that of a copy source in another account.
const connectionHeaders: ReadonlySet<string> = new Set(["connection", "keep-alive", "proxy-connection"]);

/** Forwards the request, and resolves with the head of the response. The body is streamed unless it was read before. */
export function forward(
  message: IncomingMessage,
  body: Buffer | undefined,
  client: ServerResponse,
  target: URL,
  agent: Agent,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const secure = target.protocol === "https:";
    const upstream = (secure ? secureRequest : request)({
      agent,
      hostname: target.hostname.replace(/^\[|\]$/g, ""),
      port: target.port === "" ? (secure ? 443 : 80) : target.port,
      method: message.method,
      path: message.url,
      headers: requestHeaders(message, secure ? target.host : undefined),
    });
    upstream.once("response", resolve);
    upstream.on("error", reject);
    if (body !== undefined) {
      upstream.end(body);
      return;
    }
    message.pipe(upstream);
    client.once("close", () => {
      // Half a request can never be completed. A complete one is carried out, as on a real network, even if no client waits for it.
      if (!message.readableEnded) upstream.destroy(new Error("the client broke off its request"));
    });
  });
}

/** Names and values in Node's flat list, in the original order and spelling. */
export function endToEndHeaders(message: IncomingMessage): string[] {
  const { rawHeaders } = message;
  const kept: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!connectionHeaders.has(name.toLowerCase())) kept.push(name, rawHeaders[i + 1] ?? "");
  }
  return kept;
}

/** @param host - Replaces that of the proxy: an account on Azure is found by it. Signatures do not cover it. */
function requestHeaders(message: IncomingMessage, host: string | undefined): string[] {
  const headers = endToEndHeaders(message).map((each, index, all) => (host !== undefined && index % 2 === 1 && all[index - 1]?.toLowerCase() === "host" ? host : each));
  const { "content-length": length, "transfer-encoding": encoding } = message.headers;
  // Without either there is no body, but Node would send the header of a chunked one for these methods.
  const bodiless = length === undefined && encoding === undefined;
  if (bodiless && message.method !== "GET" && message.method !== "HEAD") headers.push("Content-Length", "0");
  return headers;
}

/** Sends a response from memory, with the current length of its body. */
export function sendWhole(client: ServerResponse, method: string, { status, headers, body }: FaultResponse): void {
  const fields = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) fields.set(name.toLowerCase(), value);
  fields.delete("transfer-encoding");
  // The length in a response to HEAD is that of the resource, and a 204 or 304 has no body.
  if (method !== "HEAD" && status !== 204 && status !== 304) fields.set("content-length", String(body.length));
  client.writeHead(status, Object.fromEntries(fields));
  client.end(body);
}

/** Reads and discards the rest of a message. */
export function drain(message: IncomingMessage): Promise<void> {
  if (message.readableEnded) return Promise.resolve();
  return new Promise((resolve, reject) => {
    message.once("end", resolve);
    message.once("error", reject);
    message.once("close", () => reject(new Error("the message was broken off")));
    message.resume();
  });
}

export async function readAll(message: IncomingMessage, maxLength: number = Infinity): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of message) {
    chunks.push(chunk as Buffer);
    length += (chunk as Buffer).length;
    if (length > maxLength) throw new RangeError("the body is too long");
  }
  return Buffer.concat(chunks);
}
