import type { FaultRule } from "./fault-rule.js";
import type { LoggedRequest } from "./request-record.js";

/** Options of {@link FaultProxy.waitOrDetach}. */
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
  waitOrDetach(matches: (request: LoggedRequest) => boolean, options?: WaitForRequestOptions): Promise<LoggedRequest>;

  /** Counts to zero, log empty, and these rules; none by default. Requests under way are no longer counted. */
  reset(rules?: readonly FaultRule[]): void;

  /** Cuts all connections and closes the port. Safe to call again. */
  stop(): Promise<void>;
}
