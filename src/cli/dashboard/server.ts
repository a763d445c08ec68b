import { randomBytes, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exitCodes } from "../exit-codes.js";
import { describeFailure } from "../failure.js";
import type { Dashboard } from "./dashboard.js";
import { html, icon } from "./page-files.js";
import type { PageFiles } from "./page-files.js";
import { readAction } from "./read-action.js";

const host = "127.0.0.1";
/** An action names one thing. */
const maxBodyBytes = 64 * 1024;

export interface DashboardServer {
  /** With the token: a person who has it sees what the account has. */
  readonly url: string;
  stop(): Promise<void>;
}

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

type Shown = Pick<Dashboard, "snapshot" | "payloadOf" | "inspectLock" | "perform"> & { readonly options: { readonly allowActions: boolean } };

/**
 * Serves the page to this machine only, and there to those who know the token. What another page in the same browser sends is refused by
 * its `Host` (a name that was pointed to this address) or its `Origin`, before the token counts.
 * @param port - 0: a free one.
 */
export async function startServer(dashboard: Shown, files: PageFiles, port: number): Promise<DashboardServer> {
  const token = randomBytes(24).toString("base64url");
  const server = createServer((request, response) => {
    answer(dashboard, files, { token, authority: `${host}:${portOf(server)}` }, request)
      .catch((error: unknown) => failed(error))
      .then((reply) => send(response, reply), () => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    url: `http://${host}:${portOf(server)}/${token}/`,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

async function answer(dashboard: Shown, files: PageFiles, own: { readonly token: string; readonly authority: string }, request: IncomingMessage): Promise<Reply> {
  const origin = `http://${own.authority}`;
  const { headers, method = "" } = request;
  if (headers.host !== own.authority) return refused("The address is another one.");
  if (headers.origin !== undefined && headers.origin !== origin) return refused("The request is from another page.");
  const address = request.url ?? "";
  const url = new URL(URL.canParse(address, origin) ? address : "/", origin);
  const [, token = "", ...path] = url.pathname.split("/");
  if (!isSame(token, own.token)) return refused("Open the address that the command has printed.");
  const name = path.join("/");
  if (method === "POST" && name === "actions") {
    // A browser sends it with each POST; a program that has the token has no reason to leave it out.
    if (headers.origin !== origin || headers["content-type"] !== "application/json") return refused("Actions come from the page.");
    if (!dashboard.options.allowActions) return refused("The dashboard was started without --allow-actions.");
    return json(200, { message: await dashboard.perform(readAction(await readBody(request))) });
  }
  if (method !== "GET") return { status: 405, type: "text/plain", body: "This cannot be done." };
  switch (name) {
    case "":
      return { status: 200, type: "text/html", body: html };
    case "page.js":
      return { status: 200, type: "text/javascript", body: files.script };
    case "page.css":
      return { status: 200, type: "text/css", body: files.style };
    case "icon.svg":
      return { status: 200, type: "image/svg+xml", body: icon };
    case "snapshot":
      return json(200, await dashboard.snapshot());
    case "payload": {
      const payload = dashboard.payloadOf(parameter(url, "queue"), parameter(url, "id"), parameter(url, "version"));
      return payload === undefined ? json(404, { error: "The message is not shown any more." }) : json(200, { payload });
    }
    case "lock":
      if (!dashboard.options.allowActions) return refused("The dashboard was started without --allow-actions.");
      return json(200, await dashboard.inspectLock(parameter(url, "container"), parameter(url, "name")));
    default:
      return { status: 404, type: "text/plain", body: "There is no such page." };
  }
}

/** Does not tell by its time how much of it is right. */
function isSame(given: string, token: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function parameter(url: URL, name: string): string {
  return url.searchParams.get(name) ?? "";
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw new RangeError("the action is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function json(status: number, value: unknown): Reply {
  return { status, type: "application/json", body: JSON.stringify(value) };
}

function refused(why: string): Reply {
  return { status: 403, type: "text/plain", body: why };
}

function failed(error: unknown): Reply {
  const { exitCode, message } = describeFailure(error);
  const status = ({ [exitCodes.changed]: 409, [exitCodes.notFound]: 404, [exitCodes.usage]: 400 } as Record<number, number>)[exitCode] ?? 500;
  return json(status, { error: message });
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

function send(response: ServerResponse, { status, type, body }: Reply): void {
  response.writeHead(status, {
    "content-type": `${type}; charset=utf-8`,
    "content-security-policy": policy,
    // The address has the token, and what the account has is for the person who started it.
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  });
  response.end(body);
}
