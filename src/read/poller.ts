import type { CallOptions, TimedCallOptions } from "../clients/call.js";
import { jitter } from "../core/retry.js";
import { isInUse, isTransient } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, isConcurrencyError, WatchFailedError } from "../errors.js";
import type { SchemaError } from "../errors.js";
import { checkedResult, readIfChanged, readSnapshot } from "../target/target.js";
import type { ReadResult, RequestContext, Snapshot, ServiceAdapter } from "../target/target.js";
import { updateDefaults } from "../update/options.js";
import type { TargetOptions, TargetSettings } from "../update/options.js";
import { runCall } from "../update/run-call.js";

/** A state that {@link watch} yields. If the target exists, it can be passed to an update as `startFrom`. */
export type WatchState<T> =
  | (ReadResult<T> & { readonly exists: true })
  | { readonly exists: false; readonly value?: undefined; readonly etag?: undefined };

/** Options of {@link watch}. */
export interface WatchOptions extends Omit<TargetOptions, "timeoutInMs"> {
  /** The time limit of one poll. @defaultValue 30_000: longer than the SDKs' own retries, which take 16 s */
  tryTimeoutInMs?: number | undefined;
  /**
   * The time between two polls, plus or minus a random quarter, so that processes that were started together do not keep
   * polling together.
   * @defaultValue 5_000: a change is known within seconds, for 12 small requests per minute
   */
  pollIntervalInMs?: number | undefined;
  /**
   * The maximum time between two polls while they fail. It starts with `pollIntervalInMs` and doubles with each failure.
   * @defaultValue 60_000, or `pollIntervalInMs` if that is longer: a service that is down is not polled often
   */
  maxPollIntervalInMs?: number | undefined;
  /**
   * How long polls may fail before the watch ends with a {@link WatchFailedError}; `Infinity`: for ever.
   * @defaultValue 300_000: outlasts a failover or a redeployment, and does not hide a dead account for long
   */
  maxFailureTimeInMs?: number | undefined;
  /**
   * Called for errors that do not end the watch: failed polls, and versions that are skipped because they do not match the schema
   * ({@link SchemaError}). An error that it throws ends the watch.
   * @defaultValue none: the library logs a warning
   */
  onError?: ((error: unknown) => void) | undefined;
}

export const watchDefaults: Readonly<Record<"pollIntervalInMs" | "maxPollIntervalInMs" | "maxFailureTimeInMs", number>> = Object.freeze({
  pollIntervalInMs: 5_000,
  maxPollIntervalInMs: 60_000,
  maxFailureTimeInMs: 300_000,
});

const optionNames: OptionNames<WatchOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  conditions: 1,
  journal: 1,
  tryTimeoutInMs: 1,
  pollIntervalInMs: 1,
  maxPollIntervalInMs: 1,
  maxFailureTimeInMs: 1,
  onError: 1,
};

/** The options of a watch after defaults and checks. */
export interface WatchSettings {
  readonly pollIntervalInMs: number;
  readonly maxPollIntervalInMs: number;
  readonly maxFailureTimeInMs: number;
  readonly tryTimeoutInMs: number;
  readonly onError: ((error: unknown) => void) | undefined;
}

/** The maximum of a timer, less some room for the random quarter. */
const maxInMs = 2 ** 30;

export function checkWatchOptions(options: WatchOptions): WatchSettings {
  checkOptions("watch", options, optionNames);
  const { onError } = options;
  if (onError !== undefined && typeof onError !== "function") throw new TypeError("watch: onError must be a function.");
  const bounds = { min: 1, max: maxInMs };
  const pollIntervalInMs = checkNumber("pollIntervalInMs", options.pollIntervalInMs ?? watchDefaults.pollIntervalInMs, bounds);
  const maxPollIntervalInMs = options.maxPollIntervalInMs ?? Math.max(watchDefaults.maxPollIntervalInMs, pollIntervalInMs);
  return {
    pollIntervalInMs,
    maxPollIntervalInMs: checkNumber("maxPollIntervalInMs", maxPollIntervalInMs, { ...bounds, min: pollIntervalInMs }),
    maxFailureTimeInMs: checkNumber("maxFailureTimeInMs", options.maxFailureTimeInMs ?? watchDefaults.maxFailureTimeInMs, { min: 0 }),
    tryTimeoutInMs: checkNumber("tryTimeoutInMs", options.tryTimeoutInMs ?? updateDefaults.timeoutInMs, { min: 1 }),
    onError,
  };
}

/** The result of one poll: neither `result` nor `unusable` if the value is unchanged. */
interface PollResult<T> {
  readonly found: Snapshot<unknown> | "unchanged" | undefined;
  readonly result?: ReadResult<T>;
  readonly unusable?: { readonly error: unknown };
}

/** Polls a target, one poll at a time. Knows which state was returned last, and when to poll again. */
export class TargetPoller<T> {
  readonly #adapter: ServiceAdapter<T, unknown>;
  readonly #targetSettings: TargetSettings;
  readonly #settings: WatchSettings;
  readonly #request: Omit<TimedCallOptions, "abortSignal">;
  /** The version that was read last, usable or not. Undefined: the target did not exist. */
  #etag: string | undefined;
  /** The state that was returned last. */
  #returned: Snapshot<unknown> | "not found" | undefined;
  #nextPoll = 0;
  #failures = 0;
  #failingSince = 0;

  constructor(adapter: ServiceAdapter<T, unknown>, targetSettings: TargetSettings, settings: WatchSettings, options: WatchOptions) {
    this.#adapter = adapter;
    this.#targetSettings = targetSettings;
    this.#settings = settings;
    this.#request = { timeoutInMs: settings.tryTimeoutInMs, tracingOptions: options.tracingOptions };
  }

  /** How long to wait before the next poll. */
  get waitInMs(): number {
    return this.#nextPoll - performance.now();
  }

  /** The state, if it differs from the one that was returned last. */
  async poll(abortSignal: AbortSignal): Promise<WatchState<T> | undefined> {
    const started = performance.now();
    try {
      const state = await this.#read({ abortSignal });
      this.#failures = 0;
      this.#nextPoll = performance.now() + jitter(this.#settings.pollIntervalInMs, 0.25);
      return state;
    } catch (error) {
      if (abortSignal.aborted) throw error;
      if (isConcurrencyError(error, "SCHEMA")) this.#skipVersion(error);
      else this.#retryLater(error, started);
      this.#report(error);
      return undefined;
    }
  }

  async #read(options: CallOptions): Promise<WatchState<T> | undefined> {
    // The poller's state changes only after the read has ended: a result that is too late must not count as returned.
    const { found, result, unusable } = await runCall(
      "watch",
      { ...this.#request, ...options },
      this.#targetSettings,
      this.#adapter.url,
      (context) => this.#readOnce(context),
      { targetKind: this.#adapter.kind },
    );
    if (found === "unchanged") return undefined;
    this.#etag = found?.etag;
    if (unusable) throw unusable.error;
    if (found) {
      if (!result) return undefined;
      this.#returned = found;
      return Object.assign(result, { exists: true as const });
    }
    if (this.#returned === "not found") return undefined;
    this.#returned = "not found";
    return { exists: false };
  }

  async #readOnce(context: RequestContext): Promise<PollResult<T>> {
    const adapter = this.#adapter;
    const found = await (this.#etag === undefined ? readSnapshot(adapter, context) : readIfChanged(adapter, this.#etag, context));
    if (!found || found === "unchanged") return { found };
    const returned = this.#returned;
    // Another version with the same value: for example, the metadata when only the content was rewritten.
    if (returned !== undefined && returned !== "not found" && adapter.equals(returned.raw, found.raw)) return { found };
    try {
      return { found, result: await checkedResult(adapter, found, context.journalName) };
    } catch (error) {
      return { found, unusable: { error } };
    }
  }

  /** Remembers the version that cannot be used, so that the next poll asks for another one. */
  #skipVersion(error: SchemaError): void {
    if (this.#returned === undefined) throw error;
    this.#etag = error.etag ?? this.#etag;
    this.#failures = 0;
    this.#nextPoll = performance.now() + jitter(this.#settings.pollIntervalInMs, 0.25);
  }

  #retryLater(error: unknown, started: number): void {
    if (!mayPollAgain(error)) throw error;
    const { pollIntervalInMs, maxPollIntervalInMs, maxFailureTimeInMs } = this.#settings;
    if (this.#failures++ === 0) this.#failingSince = started;
    const now = performance.now();
    const elapsedInMs = now - this.#failingSince;
    if (elapsedInMs >= maxFailureTimeInMs) {
      throw createError(WatchFailedError, 
        `The watch of ${this.#adapter.url} ended: ${this.#failures} polls failed over ${Math.round(elapsedInMs)} ms (maxFailureTimeInMs: ${maxFailureTimeInMs}).`,
        { url: this.#adapter.url, failures: this.#failures, elapsedInMs, cause: error },
      );
    }
    const backoffInMs = Math.min(maxPollIntervalInMs, pollIntervalInMs * 2 ** Math.min(this.#failures - 1, 30));
    // The last poll comes when the time is over, not later.
    this.#nextPoll = now + Math.min(jitter(backoffInMs, 0.25), maxFailureTimeInMs - elapsedInMs);
  }

  #report(error: unknown): void {
    if (this.#settings.onError) this.#settings.onError(error);
    // Failed polls are logged by `runCall`. That a version was skipped is known only here.
    else if (isConcurrencyError(error, "SCHEMA")) logger.warning(`watch skipped a version of ${this.#adapter.url}: ${errorLabel(error)}`);
  }
}

/** No response in time, a transient error, or a file that an SMB client has open. Other errors would stay the same. */
function mayPollAgain(error: unknown): boolean {
  return isConcurrencyError(error, "OPERATION_TIMEOUT") || isTransient(error) || isInUse(error);
}
