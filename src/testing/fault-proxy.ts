import { setMaxListeners } from "node:events";
import { Agent, createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Agent as SecureAgent } from "node:https";
import type { AddressInfo } from "node:net";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { serveExchange } from "./fault-exchange.js";
import type { FaultRule } from "./fault-rule.js";
import { RequestLog } from "./request-log.js";
import type { LoggedRequest } from "./request-record.js";
import { RuleSet } from "./rule-set.js";

/** Options of {@link startFaultProxy}. */
export interface FaultProxyOptions {
  /**
   * The seed of the random numbers for `probability` and random delays. The same seed, rules and order of requests give the same
   * faults.
   * @defaultValue 1, so that a failing run can be repeated
   */
  seed?: number | undefined;

  /**
   * How many of the latest requests the log keeps. Each takes a few kilobytes; the counters are exact without it.
   * @defaultValue 10_000
   */
  logLimit?: number | undefined;

  /**
   * For an `https:` target: the certificate that it is trusted by, in PEM, for example that of an Azurite with `--cert`.
   * @defaultValue the certificate authorities that Node trusts
   */
  ca?: string | undefined;
}

const optionNames: OptionNames<FaultProxyOptions> = { seed: 1, logLimit: 1, ca: 1 };

/** Options of {@link FaultProxy.waitFor}. */
export interface WaitForRequestOptions {
  /**
   * How long to wait for the request.
   * @defaultValue 10_000: longer than a test waits for a request that comes
   */
  timeoutInMs?: number | undefined;
  /**
   * Cancels the wait, which rejects with the reason of the signal.
   * @defaultValue none: the wait is not cancelled
   */
  abortSignal?: AbortSignal | undefined;
}

/** A running fault proxy. */
export interface FaultProxy extends AsyncDisposable {
  /** The target URL with the proxy's host and port: use it instead of the target. No trailing slash. */
  readonly url: string;

  /** The rules for future requests. Setting them resets them: `times` and the random numbers start again. */
  rules: readonly FaultRule[];

  /**
   * The same as setting `rules`, as a function that can be passed on.
   * @throws `TypeError` or `RangeError` if a rule is wrong; the earlier rules stay.
   */
  setRules(rules: readonly FaultRule[]): void;

  /** How many requests were received since the start or the last reset. */
  readonly requests: number;

  /** How many of them were forwarded to the service. */
  readonly forwarded: number;

  /** How many times the rules with this name have fired; all rules, if no name is given. */
  faultCount(ruleName?: string): number;

  /** The latest requests, oldest first. */
  readonly log: readonly LoggedRequest[];

  /**
   * How many logged requests match.
   * @throws `RangeError` if the log no longer contains all of them, as the number would be too small.
   */
  count(matches: (request: LoggedRequest) => boolean): number;

  /**
   * The first logged request that matches, or else the next one that does. `matches` is called again whenever a request changes:
   * `(r) => r.storageStatus === 201` waits until the service has committed.
   * @throws `Error` if there is none within `timeoutInMs`, or the proxy is reset or stopped.
   */
  waitFor(matches: (request: LoggedRequest) => boolean, options?: WaitForRequestOptions): Promise<LoggedRequest>;

  /** Resets the counters, empties the log, and sets these rules; none by default. Requests in flight are no longer counted. */
  reset(rules?: readonly FaultRule[]): void;

  /**
   * Cuts all connections and closes the port. Idempotent.
   * @throws nothing: requests in flight are cut, too.
   */
  stop(): Promise<void>;
}

/**
 * Starts an HTTP proxy on a free port of 127.0.0.1 that forwards everything to a storage endpoint, except where a rule applies.
 * Paths, headers (including `Host`) and bodies are forwarded unchanged, so that shared-key signatures stay valid.
 *
 * The target may use TLS, as an account on Azure does. The proxy itself does not: clients connect to it by `http:`, and the SDKs
 * send no Entra ID tokens that way. Use a SAS or a key. An `https:` target gets its own name as `Host`.
 *
 * The proxy does not keep the process from ending.
 *
 * @param targetUrl - An `http:` or `https:` URL, for example `azurite.blobUrl`. A path is kept in {@link FaultProxy.url}.
 * @throws `TypeError` or `RangeError` if `targetUrl` is no such URL, or a rule is wrong.
 */
export async function startFaultProxy(
  targetUrl: string,
  rules: readonly FaultRule[] = [],
  options: FaultProxyOptions = {},
): Promise<FaultProxy> {
  checkOptions("startFaultProxy", options, optionNames);
  const { seed = 1, logLimit = 10_000, ca } = options;
  const target = new URL(targetUrl);
  if (!/^https?:$/.test(target.protocol)) throw new TypeError(`the target of a fault proxy must be http: or https:, not ${target.protocol}`);
  if (ca !== undefined && target.protocol === "http:") throw new TypeError("ca: an http: target has no certificate");

  const proxy = new FaultProxyServer(target, rules, seed, logLimit, ca);
  await proxy.listen();
  return proxy;
}

/** The server behind `startFaultProxy`: owns the connections, the current rules and the log. */
export class FaultProxyServer implements FaultProxy {
  url = "";
  readonly #target: URL;
  readonly #seed: number;
  readonly #logLimit: number;
  readonly #server: Server;
  readonly #agent: Agent;
  readonly #stopped = new AbortController();
  readonly #inFlight = new Set<Promise<void>>();
  #ruleSet: RuleSet;
  #log: RequestLog;
  #stopping: Promise<void> | undefined;

  constructor(target: URL, rules: readonly FaultRule[], seed: number, logLimit: number, ca?: string) {
    this.#target = target;
    // Free sockets are closed well before a server's usual 5 seconds, so that none is reused while the server closes it.
    const pooled = { keepAlive: true, timeout: 2_000 };
    this.#agent = target.protocol === "http:" ? new Agent(pooled) : new SecureAgent({ ...pooled, ...(ca !== undefined && { ca }) });
    this.#ruleSet = new RuleSet(rules, seed);
    this.#seed = seed;
    this.#logLimit = logLimit;
    this.#log = new RequestLog(logLimit);
    setMaxListeners(0, this.#stopped.signal);
    this.#server = createServer((message, client) => this.#onRequest(message, client));
    this.#server.on("connection", (socket) => socket.unref());
    // No faults but those of the rules: idle and slow connections are never closed.
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
    this.#inFlight.add(exchange);
    void exchange.finally(() => this.#inFlight.delete(exchange));
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

  faultCount(ruleName?: string): number {
    if (ruleName !== undefined) return this.#log.fired.get(ruleName) ?? 0;
    return Array.from(this.#log.fired.values()).reduce((sum, times) => sum + times, 0);
  }

  get log(): readonly LoggedRequest[] {
    return this.#log.entries;
  }

  count(matches: (request: LoggedRequest) => boolean): number {
    return this.#log.count(matches);
  }

  waitFor(matches: (request: LoggedRequest) => boolean, options: WaitForRequestOptions = {}): Promise<LoggedRequest> {
    return this.#log.waitFor(matches, options.timeoutInMs ?? 10_000, options.abortSignal);
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
    await Promise.all([closed, ...this.#inFlight]);
  }
}
