import { FaultProxyServer } from "./fault-proxy-server.js";
import type { FaultRule } from "./fault-rule.js";
import type { LoggedRequest } from "./request-log.js";

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
}

/** Options of {@link FaultProxy.waitFor}. */
export interface WaitForRequestOptions {
  /** @defaultValue 10_000 */
  timeoutInMs?: number | undefined;
  abortSignal?: AbortSignal | undefined;
}

/** A running fault proxy. */
export interface FaultProxy extends AsyncDisposable {
  /** The target URL with the proxy's host and port: use it instead of the target. No trailing slash. */
  readonly url: string;

  /** The rules for future requests. Setting them resets them: `times` and the random numbers start again. */
  rules: readonly FaultRule[];
  setRules(rules: readonly FaultRule[]): void;

  /** How many requests were received since the start or the last reset. */
  readonly requests: number;

  /** How many of them were forwarded to the service. */
  readonly forwarded: number;

  /** How many times the rules with this name have fired; all rules, if no name is given. */
  fired(ruleName?: string): number;

  /** The latest requests, oldest first. */
  readonly log: readonly LoggedRequest[];

  /**
   * How many logged requests match.
   * @throws RangeError if the log no longer contains all of them, as the number would be too small.
   */
  count(matches: (request: LoggedRequest) => boolean): number;

  /**
   * The first logged request that matches, or else the next one that does. `matches` is called again whenever a request changes:
   * `(r) => r.storageStatus === 201` waits until the service has committed.
   */
  waitFor(matches: (request: LoggedRequest) => boolean, options?: WaitForRequestOptions): Promise<LoggedRequest>;

  /** Resets the counters, empties the log, and sets these rules; none by default. Requests in flight are no longer counted. */
  reset(rules?: readonly FaultRule[]): void;

  /** Cuts all connections and closes the port. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Starts an HTTP proxy on a free port of 127.0.0.1 that forwards everything to a storage endpoint, except where a rule applies.
 * Paths, headers (including `Host`) and bodies are forwarded unchanged, so that shared-key signatures stay valid.
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
