import { randomUUID } from "node:crypto";
import type { Agent, IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";
import type { FaultAction, FaultResponse, FaultRequest } from "./fault-rule.js";
import { drain, endToEndHeaders, forward, readAll, sendWhole } from "./http-messages.js";
import type { RequestLog } from "./request-log.js";
import { headersOf, type RequestOutcome, RequestRecord } from "./request-record.js";
import type { RuleSet } from "./rule-set.js";

export interface ExchangeContext {
  readonly target: URL;
  readonly agent: Agent;
  readonly ruleSet: RuleSet;
  readonly log: RequestLog;
  readonly stopped: AbortSignal;
}

/** Handles one request to the proxy. Never rejects. */
export async function serveExchange(message: IncomingMessage, client: ServerResponse, context: ExchangeContext): Promise<void> {
  const exchange = new Exchange(message, client, context);
  try {
    await exchange.run();
  } catch (error) {
    exchange.fail(error);
  }
}

class Exchange {
  readonly #message: IncomingMessage;
  readonly #client: ServerResponse;
  readonly #context: ExchangeContext;
  readonly #record: RequestRecord;

  constructor(message: IncomingMessage, client: ServerResponse, context: ExchangeContext) {
    this.#message = message;
    this.#client = client;
    this.#context = context;
    this.#record = new RequestRecord(message);
    context.log.add(this.#record);
    client.sendDate = false;
    client.once("close", () => this.#settle("abandoned"));
  }

  async run(): Promise<void> {
    const { ruleSet, log, stopped, target, agent } = this.#context;
    const record = this.#record;
    const onFired = (name: string): void => log.countFired(record, name);

    const onRequest = await callRule(() => ruleSet.decideRequest(record, onFired));
    let body: Buffer | undefined;
    if (onRequest.delayInMs > 0) {
      // Read before the wait: the client may have disconnected after it, and the request must arrive nevertheless.
      body = await readAll(this.#message);
      await pause(onRequest.delayInMs, undefined, { signal: stopped, ref: false });
    }
    if (onRequest.action !== undefined) {
      // Without a body left to send, the client sees a closed connection and never a broken pipe.
      await drain(this.#message);
      await this.#act(onRequest.action);
      return;
    }

    stopped.throwIfAborted();
    log.forwarded += 1;
    const response = await forward(this.#message, body, this.#client, target, agent);
    try {
      record.storageStatus = response.statusCode ?? 0;
      const head = { status: record.storageStatus, headers: onRequest.candidates.length > 0 ? headersOf(response.rawHeaders) : {} };
      const onResponse = await callRule(() => ruleSet.decideResponse(onRequest.candidates, head, record, onFired));
      log.touch(record);
      if (onResponse.delayInMs > 0) await pause(onResponse.delayInMs, undefined, { signal: stopped, ref: false });
      if (onResponse.action === undefined) await this.#forwardResponse(response);
      else await this.#act(onResponse.action, response);
    } finally {
      // An unread body would keep the connection to the service busy.
      response.resume();
    }
  }

  /** Ends a request that could not be handled. */
  fail(error: unknown): void {
    if (error instanceof RuleFailure && !this.#client.headersSent) {
      // No SDK retries a 400: the mistake reaches the test at once, and with its message.
      const details = { status: 400, errorCode: "FaultRuleFailed", message: error.message, headers: {} };
      this.#send(errorResponse(this.#record, details));
      return;
    }
    const clientLeft = this.#message.destroyed && !this.#message.complete;
    this.#cut(this.#context.stopped.aborted || clientLeft ? "abandoned" : "failed");
  }

  /** Carries out the action of a rule; with the service's response if it acts at that stage. */
  async #act(action: FaultAction, response?: IncomingMessage): Promise<void> {
    if (action.kind === "rewrite-response") {
      if (response !== undefined) await this.#rewrite(action.rewrite, response);
      return;
    }
    if (action.kind === "cut-body") {
      if (response !== undefined) await this.#cutBody(action.afterBytes, response);
      return;
    }
    // The service has finished the request once its response is complete.
    if (response !== undefined) await drain(response);
    if (action.kind === "respond") this.#send(errorResponse(this.#record, action));
    else if (action.kind === "hang") await this.#untilClientCloses();
    else this.#cut("cut");
  }

  async #forwardResponse(response: IncomingMessage): Promise<void> {
    if (this.#client.destroyed) return;
    this.#sending(response.statusCode ?? 0);
    this.#client.writeHead(response.statusCode ?? 0, response.statusMessage, endToEndHeaders(response));
    await pipeline(response, this.#client);
  }

  async #cutBody(afterBytes: number, response: IncomingMessage): Promise<void> {
    const body = await readAll(response);
    if (this.#client.destroyed) return;
    const cut = body.length > afterBytes;
    this.#record.status = response.statusCode ?? 0;
    this.#settle(cut ? "cut" : "responded");
    this.#client.writeHead(response.statusCode ?? 0, response.statusMessage, endToEndHeaders(response));
    if (!cut) this.#client.end(body);
    else {
      this.#client.flushHeaders();
      // Not before the bytes are sent: closing the connection discards what is still buffered.
      this.#client.write(body.subarray(0, afterBytes), () => this.#client.destroy());
    }
  }

  async #rewrite(rewrite: Extract<FaultAction, { kind: "rewrite-response" }>["rewrite"], response: IncomingMessage): Promise<void> {
    const whole: FaultResponse = {
      status: response.statusCode ?? 0,
      headers: headersOf(endToEndHeaders(response)),
      body: await readAll(response),
    };
    this.#send(await callRule(() => rewrite(whole, this.#record)));
  }

  #send(response: FaultResponse): void {
    if (this.#client.destroyed) return;
    this.#sending(response.status);
    sendWhole(this.#client, this.#record.method, response);
  }

  /** Logged before the first byte is sent, so that a client that has its response finds it in the log. */
  #sending(status: number): void {
    this.#record.status = status;
    this.#settle("responded");
  }

  #cut(outcome: RequestOutcome): void {
    this.#settle(outcome);
    this.#client.destroy();
  }

  #settle(outcome: RequestOutcome): void {
    if (this.#record.outcome !== "pending") return;
    this.#record.outcome = outcome;
    this.#context.log.touch(this.#record);
  }

  #untilClientCloses(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#client.destroyed) resolve();
      else this.#client.once("close", () => resolve());
    });
  }
}

/** A predicate or a rewrite function of the user threw. */
class RuleFailure extends Error {}

async function callRule<T>(callUserCode: () => T | Promise<T>): Promise<T> {
  try {
    return await callUserCode();
  } catch (error) {
    throw new RuleFailure(`a fault rule threw: ${String(error)}`, { cause: error });
  }
}

type ErrorDetails = Pick<Extract<FaultAction, { kind: "respond" }>, "status" | "errorCode" | "message" | "headers">;

/** The response of Azure Storage for this error: OData JSON for table clients, XML for all others. */
export function errorResponse(request: FaultRequest, { status, errorCode, message, headers }: ErrorDetails): FaultResponse {
  const [contentType, body] = isTableRequest(request)
    ? ["application/json;odata=minimalmetadata;streaming=true;charset=utf-8", odataError(errorCode, message)]
    : ["application/xml", xmlError(errorCode, message)];
  return {
    status,
    headers: {
      "content-type": contentType,
      "x-ms-error-code": errorCode,
      "x-ms-request-id": randomUUID(),
      "x-ms-version": request.headers["x-ms-version"],
      "x-ms-client-request-id": request.headers["x-ms-client-request-id"],
      date: new Date().toUTCString(),
      ...headers,
    },
    body: Buffer.from(body),
  };
}

function isTableRequest({ headers }: FaultRequest): boolean {
  // A batch itself does not accept JSON, but its parts do; and all table requests name the OData version.
  return headers["dataserviceversion"] !== undefined || (headers["accept"]?.includes("json") ?? false);
}

function odataError(code: string, message: string): string {
  return JSON.stringify({ "odata.error": { code, message: { lang: "en-US", value: message } } });
}

function xmlError(code: string, message: string): string {
  return `<?xml version="1.0" encoding="utf-8"?><Error><Code>${escapeXml(code)}</Code><Message>${escapeXml(message)}</Message></Error>`;
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
