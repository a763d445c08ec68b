import type { IncomingMessage } from "node:http";
import type { FaultRequest } from "./fault-rule.js";

/** The outcome of a request, as the client sees it. */
export type RequestOutcome =
  /** Still in flight, or hanging. */
  | "pending"
  /** The client was sent a response, by the service or by the proxy. */
  | "responded"
  /** A rule cut the connection. */
  | "cut"
  /** The client gave up, or the proxy was stopped. */
  | "abandoned"
  /** The service could not be reached, or its connection broke; the client's connection was cut. */
  | "failed";

/** A request that went through the proxy. Changes until its outcome is known. */
export interface LoggedRequest extends FaultRequest {
  /** What the client has seen of the response. `"pending"` until the request has ended. */
  readonly outcome: RequestOutcome;
  /** The status that the client was sent; undefined if none. */
  readonly status: number | undefined;
  /** The status of the service's response; undefined if the service did not receive the request, or has not responded. */
  readonly storageStatus: number | undefined;
  /** The rules that fired, in order. */
  readonly ruleNames: readonly string[];
}

/**
 * The log entry of one request. Query and headers are parsed on demand, as most are never read; the message itself is not kept, as
 * it would keep its socket and buffers alive.
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
