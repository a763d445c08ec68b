import { randomUUID } from "node:crypto";
import type { Agent, IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";
import type { FaultAction, FaultAnswer, FaultRequest } from "./fault-rule.js";
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

/** Takes one request through the proxy. Never rejects. */
export async function serveExchange(message: IncomingMessage, client: ServerResponse, context: ExchangeContext): Promise<void> {
  const exchange = new Exchange(message, client, context);
  try {
    await exchange.run();
  } catch (error) {
    exchange.fail(error);
  }
}

/** A predicate or a rewrite function of the user's threw. */
class RuleFailure extends Error {}

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

    const verdict = await guarded(() => ruleSet.judgeRequest(record, onFired));
    let body: Buffer | undefined;
    if (verdict.delayInMs > 0) {
      // Read before the wait: the client may be gone after it, and the request must arrive all the same.
      body = await readAll(this.#message);
      await pause(verdict.delayInMs, undefined, { signal: stopped, ref: false });
    }
    if (verdict.action !== undefined) {
      // Without a body left to send, the client sees a closed connection and never a broken pipe.
      await drain(this.#message);
      await this.#act(verdict.action);
      return;
    }

    stopped.throwIfAborted();
    log.forwarded += 1;
    const answer = await forward(this.#message, body, this.#client, target, agent);
    try {
      record.storageStatus = answer.statusCode ?? 0;
      const head = { status: record.storageStatus, headers: verdict.candidates.length > 0 ? headersOf(answer.rawHeaders) : {} };
      const answerVerdict = await guarded(() => ruleSet.judgeAnswer(verdict.candidates, head, record, onFired));
      log.touch(record);
      if (answerVerdict.delayInMs > 0) await pause(answerVerdict.delayInMs, undefined, { signal: stopped, ref: false });
      if (answerVerdict.action === undefined) await this.#passOn(answer);
      else await this.#act(answerVerdict.action, answer);
    } finally {
      // Whatever was not read would keep the connection to the storage busy.
      answer.resume();
    }
  }

  /** Carries out what a rule wants; with the storage's answer if it acts at that stage. */
  async #act(action: FaultAction, answer?: IncomingMessage): Promise<void> {
    if (action.kind === "rewrite-answer") {
      if (answer !== undefined) await this.#rewrite(action.rewrite, answer);
      return;
    }
    if (action.kind === "cut-body") {
      if (answer !== undefined) await this.#cutBody(action.afterBytes, answer);
      return;
    }
    // The storage is done with the request once its answer is complete.
    if (answer !== undefined) await drain(answer);
    if (action.kind === "answer") this.#send(errorAnswer(this.#record, action));
    else if (action.kind === "hang") await this.#untilClientCloses();
    else this.#cut("cut");
  }

  async #passOn(answer: IncomingMessage): Promise<void> {
    if (this.#client.destroyed) return;
    this.#sending(answer.statusCode ?? 0);
    this.#client.writeHead(answer.statusCode ?? 0, answer.statusMessage, endToEndHeaders(answer));
    await pipeline(answer, this.#client);
  }

  async #cutBody(afterBytes: number, answer: IncomingMessage): Promise<void> {
    const body = await readAll(answer);
    if (this.#client.destroyed) return;
    const cut = body.length > afterBytes;
    this.#record.status = answer.statusCode ?? 0;
    this.#settle(cut ? "cut" : "answered");
    this.#client.writeHead(answer.statusCode ?? 0, answer.statusMessage, endToEndHeaders(answer));
    if (!cut) this.#client.end(body);
    else {
      this.#client.flushHeaders();
      // Not before they have left: a cut takes with it what is still to be sent.
      this.#client.write(body.subarray(0, afterBytes), () => this.#client.destroy());
    }
  }

  async #rewrite(rewrite: Extract<FaultAction, { kind: "rewrite-answer" }>["rewrite"], answer: IncomingMessage): Promise<void> {
    const whole: FaultAnswer = {
      status: answer.statusCode ?? 0,
      headers: headersOf(endToEndHeaders(answer)),
      body: await readAll(answer),
    };
    this.#send(await guarded(() => rewrite(whole, this.#record)));
  }

  #send(answer: FaultAnswer): void {
    if (this.#client.destroyed) return;
    this.#sending(answer.status);
    sendWhole(this.#client, this.#record.method, answer);
  }

  /** Logged before the first byte leaves, so that a client that has its answer finds it in the log. */
  #sending(status: number): void {
    this.#record.status = status;
    this.#settle("answered");
  }

  #cut(outcome: RequestOutcome): void {
    this.#settle(outcome);
    this.#client.destroy();
  }

  fail(error: unknown): void {
    if (error instanceof RuleFailure && !this.#client.headersSent) {
      // 400 is what no SDK retries: the mistake reaches the test at once, and with its message.
      const facts = { status: 400, errorCode: "FaultRuleFailed", message: error.message, headers: {} };
      this.#send(errorAnswer(this.#record, facts));
      return;
    }
    const clientLeft = this.#message.destroyed && !this.#message.complete;
    this.#cut(this.#context.stopped.aborted || clientLeft ? "abandoned" : "failed");
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

async function guarded<T>(callUserCode: () => T | Promise<T>): Promise<T> {
  try {
    return await callUserCode();
  } catch (error) {
    throw new RuleFailure(`a fault rule threw: ${String(error)}`, { cause: error });
  }
}

type ErrorFacts = Pick<Extract<FaultAction, { kind: "answer" }>, "status" | "errorCode" | "message" | "headers">;

/** The answer that Azure Storage would give for this error: OData JSON to table clients, XML to all others. */
export function errorAnswer(request: FaultRequest, { status, errorCode, message, headers }: ErrorFacts): FaultAnswer {
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
  // A batch asks for no JSON itself, its parts do; but all table requests name the OData version.
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
