import type { CallOptions } from "../clients/call.js";
import { jitter } from "../core/retry.js";
import { isInUse, isTransient } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { isDeadlineError, isSchemaError, WatchFailedError } from "../errors.js";
import type { SchemaError } from "../errors.js";
import { checkedResult, readIfChanged } from "../target/target.js";
import type { ReadResult, RequestContext, Snapshot, TargetAdapter } from "../target/target.js";
import type { RequestOptions, TargetOptions, TargetSettings } from "../update/options.js";
import { runCall } from "../update/single-call.js";

/** A state of what is watched. It can be passed to an update as `firstRead`, if it exists. */
export type WatchedState<T> =
  | ({ exists: true } & ReadResult<T>)
  | { exists: false; value?: undefined; etag?: undefined };

/** What one look found, and what became of it: neither `result` nor `unusable` if the value is as it was. */
interface Poll<T> {
  readonly found: Snapshot<unknown> | "unchanged" | undefined;
  readonly result?: ReadResult<T>;
  readonly unusable?: { readonly error: unknown };
}

/** Looks at a target, one look at a time, and knows what has been seen and when to look again. */
export class TargetPoller<T> {
  readonly #adapter: TargetAdapter<T, unknown>;
  readonly #group: TargetSettings;
  readonly #settings: WatchSettings;
  readonly #request: Omit<RequestOptions, "abortSignal">;
  /** The version that was read last, whether it was of use or not. Undefined: nothing was there. */
  #etag: string | undefined;
  /** What was handed out last. */
  #shown: Snapshot<unknown> | "missing" | undefined;
  #nextPoll = 0;
  #failures = 0;
  #failingSince = 0;

  constructor(adapter: TargetAdapter<T, unknown>, group: TargetSettings, settings: WatchSettings, options: RequestOptions) {
    this.#adapter = adapter;
    this.#group = group;
    this.#settings = settings;
    this.#request = { timeoutInMs: options.timeoutInMs, tracingOptions: options.tracingOptions };
  }

  /** How long to wait before the next look. */
  get waitInMs(): number {
    return this.#nextPoll - performance.now();
  }

  /** The state, if it is another one than was handed out last. */
  async poll(abortSignal: AbortSignal): Promise<WatchedState<T> | undefined> {
    const started = performance.now();
    try {
      const state = await this.#read({ abortSignal });
      this.#failures = 0;
      this.#nextPoll = performance.now() + jitter(this.#settings.intervalInMs, 0.25);
      return state;
    } catch (error) {
      if (abortSignal.aborted) throw error;
      if (isSchemaError(error)) this.#skipVersion(error);
      else this.#retryLater(error, started);
      this.#report(error);
      return undefined;
    }
  }

  async #read(options: CallOptions): Promise<WatchedState<T> | undefined> {
    // What is known changes only here, after the look is over: one that came too late must not count as handed out.
    const { found, result, unusable } = await runCall(
      "watch",
      { ...this.#request, ...options },
      this.#group,
      this.#adapter.url,
      (context) => this.#readOnce(context),
      { targetKind: this.#adapter.kind },
    );
    if (found === "unchanged") return undefined;
    this.#etag = found?.etag;
    if (unusable) throw unusable.error;
    if (found) {
      if (!result) return undefined;
      this.#shown = found;
      return Object.assign(result, { exists: true as const });
    }
    if (this.#shown === "missing") return undefined;
    this.#shown = "missing";
    return { exists: false };
  }

  async #readOnce(context: RequestContext): Promise<Poll<T>> {
    const adapter = this.#adapter;
    const found = await (this.#etag === undefined ? adapter.read(context) : readIfChanged(adapter, this.#etag, context));
    if (!found || found === "unchanged") return { found };
    const shown = this.#shown;
    // Another version of the same: of metadata, for instance, each time the content is rewritten.
    if (shown !== undefined && shown !== "missing" && adapter.equals(shown.raw, found.raw)) return { found };
    try {
      return { found, result: await checkedResult(adapter, found, context.journalName) };
    } catch (error) {
      return { found, unusable: { error } };
    }
  }

  /** Keeps in mind which version is of no use, so that the next look asks for another one. */
  #skipVersion(error: SchemaError): void {
    if (this.#shown === undefined) throw error;
    this.#etag = error.etag ?? this.#etag;
    this.#failures = 0;
    this.#nextPoll = performance.now() + jitter(this.#settings.intervalInMs, 0.25);
  }

  #retryLater(error: unknown, started: number): void {
    if (!mayPollAgain(error)) throw error;
    const { intervalInMs, maxIntervalInMs, giveUpAfterInMs } = this.#settings;
    if (this.#failures++ === 0) this.#failingSince = started;
    const now = performance.now();
    const elapsedInMs = now - this.#failingSince;
    if (elapsedInMs >= giveUpAfterInMs) {
      throw new WatchFailedError(
        `${this.#adapter.url} could not be read for ${Math.round(elapsedInMs)} ms (giveUpAfterInMs: ${giveUpAfterInMs}), ${this.#failures} times`,
        { url: this.#adapter.url, failures: this.#failures, elapsedInMs, cause: error },
      );
    }
    const longestInMs = Math.min(maxIntervalInMs, intervalInMs * 2 ** Math.min(this.#failures - 1, 30));
    // The last look comes when the time is over, not after it.
    this.#nextPoll = now + Math.min(jitter(longestInMs, 0.25), giveUpAfterInMs - elapsedInMs);
  }

  #report(error: unknown): void {
    if (this.#settings.onError) this.#settings.onError(error);
    // Failed looks are logged where they are made; that a version was passed over is known only here.
    else if (isSchemaError(error)) logger.warning(`watch passed over a version of ${this.#adapter.url}: ${errorLabel(error)}`);
  }
}

/** No answer in time, or one that says "later", or a file that somebody has open. Not: what the service, a schema or this library refuses. */
function mayPollAgain(error: unknown): boolean {
  return isDeadlineError(error) || isTransient(error) || isInUse(error);
}


/** Options of {@link watch}. `timeoutInMs` is the time for one look. */
export interface WatchOptions extends TargetOptions {
  /**
   * The time between two looks, give or take a quarter at random, so that processes that were started together do not
   * ask together for ever.
   * @defaultValue 5_000: a change is known within seconds, for 12 small requests per minute
   */
  intervalInMs?: number | undefined;
  /**
   * The longest time between two looks while they fail. It starts with `intervalInMs` and doubles with each failure.
   * @defaultValue 60_000, or `intervalInMs` if that is longer
   */
  maxIntervalInMs?: number | undefined;
  /**
   * For how long looks may fail before the watch ends with a `WatchFailedError`. `Infinity`: for ever.
   * @defaultValue 300_000: outlasts a failover or a redeployment, and does not hide a dead account for long
   */
  giveUpAfterInMs?: number | undefined;
  /**
   * Told of what does not end the watch: looks that failed, and versions that were passed over since they cannot be
   * used (`SchemaError`). What it throws does end the watch.
   * @defaultValue a warning in the log
   */
  onError?: ((error: unknown) => void) | undefined;
}

export const watchDefaults: Readonly<Record<"intervalInMs" | "maxIntervalInMs" | "giveUpAfterInMs", number>> = Object.freeze({
  intervalInMs: 5_000,
  maxIntervalInMs: 60_000,
  giveUpAfterInMs: 300_000,
});

/** What a watch needs to know, after defaults and checks. */
export interface WatchSettings {
  readonly intervalInMs: number;
  readonly maxIntervalInMs: number;
  readonly giveUpAfterInMs: number;
  readonly onError: ((error: unknown) => void) | undefined;
}

/** What a timer can be set for, with room for the random quarter. */
const longestInMs = 2 ** 30;

export function checkWatchOptions(options: WatchOptions): WatchSettings {
  const { onError } = options;
  if (onError !== undefined && typeof onError !== "function") throw new TypeError("onError must be a function");
  const bounds = { min: 1, max: longestInMs };
  const intervalInMs = checkNumber("intervalInMs", options.intervalInMs ?? watchDefaults.intervalInMs, bounds);
  const maxIntervalInMs = options.maxIntervalInMs ?? Math.max(watchDefaults.maxIntervalInMs, intervalInMs);
  return {
    intervalInMs,
    maxIntervalInMs: checkNumber("maxIntervalInMs", maxIntervalInMs, { ...bounds, min: intervalInMs }),
    giveUpAfterInMs: checkNumber("giveUpAfterInMs", options.giveUpAfterInMs ?? watchDefaults.giveUpAfterInMs, { min: 0 }),
    onError,
  };
}
