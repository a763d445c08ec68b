import { setMaxListeners } from "node:events";
import { Agent, createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { serveExchange } from "./fault-exchange.js";
import type { FaultProxy, WaitForRequestOptions } from "./fault-proxy.js";
import type { FaultRule } from "./fault-rule.js";
import { RequestLog } from "./request-log.js";
import type { LoggedRequest } from "./request-record.js";
import { RuleSet } from "./rule-set.js";

/** Options of {@link startFaultProxy}. */
export interface FaultProxyOptions {
  /**
   * Where the draws for `probability` and random delays come from. The same seed, rules and order of requests give
   * the same faults.
   * @defaultValue 1, so that a failing run can be repeated
   */
  seed?: number | undefined;

  /**
   * How many of the latest requests the log keeps. Each takes a few kilobytes; the counts are exact without it.
   * @defaultValue 10_000
   */
  logLimit?: number | undefined;
}

/**
 * Starts an HTTP proxy on a free port of 127.0.0.1 that passes everything on to a storage endpoint, except where a
 * rule says otherwise. Paths, headers (`Host` as well) and bodies go through unchanged, so shared-key signatures stay valid.
 *
 * The proxy does not keep the process from ending.
 *
 * @param targetUrl - An `http:` URL, for example `azurite.blobUrl`. A path is kept in {@link FaultProxy.url}.
 */
export async function startFaultProxy(
  targetUrl: string,
  rules: readonly FaultRule[] = [],
  options: FaultProxyOptions = {},
): Promise<FaultProxy> {
  const { seed = 1, logLimit = 10_000 } = options;
  const target = new URL(targetUrl);
  if (target.protocol !== "http:") throw new TypeError(`the fault proxy speaks http: only, not ${target.protocol}`);

  const proxy = new FaultProxyServer(target, rules, seed, logLimit);
  await proxy.listen();
  return proxy;
}

/** The server behind `startFaultProxy`: owns the connections, and holds the rules and the log of the moment. */
export class FaultProxyServer implements FaultProxy {
  url = "";
  readonly #target: URL;
  readonly #seed: number;
  readonly #logLimit: number;
  readonly #server: Server;
  // Free sockets are given up well before a server's usual 5 seconds, so that none is reused while it is being closed.
  readonly #agent = new Agent({ keepAlive: true, timeout: 2_000 });
  readonly #stopped = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  #ruleSet: RuleSet;
  #log: RequestLog;
  #stopping: Promise<void> | undefined;

  constructor(target: URL, rules: readonly FaultRule[], seed: number, logLimit: number) {
    this.#target = target;
    this.#ruleSet = new RuleSet(rules, seed);
    this.#seed = seed;
    this.#logLimit = logLimit;
    this.#log = new RequestLog(logLimit);
    setMaxListeners(0, this.#stopped.signal);
    this.#server = createServer((message, client) => this.#onRequest(message, client));
    this.#server.on("connection", (socket) => socket.unref());
    // No fault but those asked for: idle and slow connections are never closed.
    this.#server.keepAliveTimeout = 0;
    this.#server.headersTimeout = 0;
    this.#server.requestTimeout = 0;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
    this.#server.unref();
    const { port } = this.#server.address() as AddressInfo;
    this.url = `http://127.0.0.1:${port}${this.#target.pathname.replace(/\/+$/, "")}`;
  }

  #onRequest(message: IncomingMessage, client: ServerResponse): void {
    const exchange = serveExchange(message, client, {
      target: this.#target,
      agent: this.#agent,
      ruleSet: this.#ruleSet,
      log: this.#log,
      stopped: this.#stopped.signal,
    });
    this.#underWay.add(exchange);
    void exchange.finally(() => this.#underWay.delete(exchange));
  }

  get rules(): readonly FaultRule[] {
    return this.#ruleSet.rules;
  }

  set rules(rules: readonly FaultRule[]) {
    this.#ruleSet = new RuleSet(rules, this.#seed);
  }

  setRules(rules: readonly FaultRule[]): void {
    this.rules = rules;
  }

  get requests(): number {
    return this.#log.requests;
  }

  get forwarded(): number {
    return this.#log.forwarded;
  }

  fired(ruleName?: string): number {
    if (ruleName !== undefined) return this.#log.fired.get(ruleName) ?? 0;
    return Array.from(this.#log.fired.values()).reduce((sum, times) => sum + times, 0);
  }

  get log(): readonly LoggedRequest[] {
    return this.#log.entries;
  }

  count(matches: (request: LoggedRequest) => boolean): number {
    return this.#log.count(matches);
  }

  waitOrDetach(matches: (request: LoggedRequest) => boolean, options: WaitForRequestOptions = {}): Promise<LoggedRequest> {
    return this.#log.waitOrDetach(matches, options.timeoutInMs ?? 10_000, options.abortSignal);
  }

  reset(rules: readonly FaultRule[] = []): void {
    this.rules = rules;
    this.#log.close(new Error("the fault proxy was reset"));
    this.#log = new RequestLog(this.#logLimit);
  }

  stop(): Promise<void> {
    return (this.#stopping ??= this.#close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #close(): Promise<void> {
    // Keeps a process that has nothing else to do alive until everything is closed.
    this.#server.ref();
    const reason = new Error("the fault proxy was stopped");
    this.#stopped.abort(reason);
    this.#log.close(reason);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    this.#agent.destroy();
    await Promise.all([closed, ...this.#underWay]);
  }
}
