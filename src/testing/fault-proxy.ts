import { FaultProxyServer } from "./fault-proxy-server.js";
import type { FaultRule } from "./fault-rule.js";
import type { LoggedRequest } from "./request-log.js";

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

/** Options of {@link FaultProxy.waitFor}. */
export interface WaitForRequestOptions {
  /** @defaultValue 10_000 */
  timeoutInMs?: number | undefined;
  abortSignal?: AbortSignal | undefined;
}

/** A running fault proxy. */
export interface FaultProxy extends AsyncDisposable {
  /** The target URL with the proxy's host and port: use it in place of the target. No trailing slash. */
  readonly url: string;

  /** The rules for the requests to come. Setting them arms them anew: `times` and the random draws start again. */
  rules: readonly FaultRule[];
  setRules(rules: readonly FaultRule[]): void;

  /** How many requests have come in since the start or the last reset. */
  readonly requests: number;

  /** How many of them were passed on to the storage. */
  readonly forwarded: number;

  /** How many times the rules of this name have struck; of any name, if none is given. */
  fired(ruleName?: string): number;

  /** The latest requests, oldest first. */
  readonly log: readonly LoggedRequest[];

  /**
   * How many logged requests match.
   * @throws RangeError if the log no longer holds all of them, as the number would be too small.
   */
  count(matches: (request: LoggedRequest) => boolean): number;

  /**
   * The first logged request that matches, or else the next one that does. Requests are looked at again whenever
   * something becomes of them: `(r) => r.storageStatus === 201` waits until the storage has committed.
   */
  waitFor(matches: (request: LoggedRequest) => boolean, options?: WaitForRequestOptions): Promise<LoggedRequest>;

  /** Counts to zero, log empty, and these rules; none by default. Requests under way are no longer counted. */
  reset(rules?: readonly FaultRule[]): void;

  /** Cuts all connections and closes the port. Safe to call again. */
  stop(): Promise<void>;
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
