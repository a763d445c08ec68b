import type { IncomingMessage } from "node:http";

import type { FaultRequest } from "./fault-rule.js";

/** What became of a request, seen from the client. */
export type RequestOutcome =
  /** Still under way, or hanging. */
  | "pending"
  /** The client was sent an answer, the storage's or another. */
  | "answered"
  /** A rule cut the connection. */
  | "cut"
  /** The client gave up, or the proxy was stopped. */
  | "abandoned"
  /** The storage could not be reached or broke off; the client's connection was cut. */
  | "failed";

/** A request that went through the proxy. Changes until its outcome is known. */
export interface LoggedRequest extends FaultRequest {
  readonly outcome: RequestOutcome;
  /** What the client was sent; undefined if nothing. */
  readonly status: number | undefined;
  /** What the storage answered; undefined if it was not asked, or has not answered. */
  readonly storageStatus: number | undefined;
  /** The rules that struck, in order. */
  readonly ruleNames: readonly string[];
}

/**
 * The log's entry of one request. Query and headers are parsed when somebody asks, as most requests pass unlooked at;
 * the message itself is not kept, it would keep its socket and buffers alive.
 */
export class RequestRecord implements LoggedRequest {
  readonly method: string;
  readonly url: string;
  readonly path: string;
  outcome: RequestOutcome = "pending";
  status: number | undefined;
  storageStatus: number | undefined;
  readonly ruleNames: string[] = [];
  readonly #rawHeaders: readonly string[];
  #headers: Readonly<Record<string, string>> | undefined;
  #query: URLSearchParams | undefined;

  constructor(message: IncomingMessage) {
    this.method = message.method ?? "";
    this.url = message.url ?? "";
    const end = this.url.indexOf("?");
    this.path = end < 0 ? this.url : this.url.slice(0, end);
    this.#rawHeaders = message.rawHeaders;
  }

  get headers(): Readonly<Record<string, string>> {
    return (this.#headers ??= headersOf(this.#rawHeaders));
  }

  get query(): URLSearchParams {
    return (this.#query ??= new URLSearchParams(this.url.slice(this.path.length)));
  }
}

/** Node's flat list of names and values as an object; names in lower case, repeated ones joined. */
export function headersOf(rawHeaders: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase() ?? "";
    const value = rawHeaders[i + 1] ?? "";
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : `${earlier}, ${value}`;
  }
  return headers;
}
