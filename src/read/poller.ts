import type { OperationTracingOptions } from "@azure/core-tracing";
import { Deadline } from "../core/deadline.js";
import { read } from "../core/request.js";
import { jitter } from "../core/retry.js";
import { isBadRequest } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { checkNumber, checkOptions, isMisuse } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, isConcurrencyError, OperationTimeoutError, WatchFailedError } from "../errors.js";
import type { SchemaError } from "../errors.js";
import { checkedResult } from "../target/target.js";
import type { ReadResult, Snapshot, ServiceAdapter } from "../target/target.js";
import { updateDefaults } from "../update/options.js";
import type { TargetOptions, TargetSettings } from "../update/options.js";
import { sharedPollOf } from "./shared-poll.js";
import type { KnownVersion, PollOutcome } from "./shared-poll.js";

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
   * polling together. Watches of the same target in one process share their polls: the shortest interval applies to all of them.
   * @defaultValue 5_000: a change is known within seconds, for 12 small requests per minute
   */
  pollIntervalInMs?: number | undefined;
  /**
   * The maximum time between two polls while they fail. It starts with `pollIntervalInMs` and doubles with each failure.
   * @defaultValue 60_000, or `pollIntervalInMs` if that is longer: a service that is down is not polled often
   */
  maxPollIntervalInMs?: number | undefined;
  /**
   * How long polls may fail before the watch ends with a {@link WatchFailedError}; `Infinity`: for ever. A response of 401 or 403,
   * a 409 and a missing container count as failures, too: they may be repaired.
   * @defaultValue 300_000: outlasts a failover or a redeployment, and does not hide a dead account for long
   */
  maxFailureTimeInMs?: number | undefined;
  /**
   * Called for errors that do not end the watch: failed polls, and versions that are skipped because they do not match the schema
   * ({@link SchemaError}). An error that it throws, or that its promise rejects with, ends the watch.
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

/** What one watch has seen of its target, and when it wants to poll again. The polls are shared with other watches of the target. */
export class TargetPoller<T> {
  readonly #adapter: ServiceAdapter<T, unknown>;
  readonly #targetSettings: TargetSettings;
  readonly #settings: WatchSettings;
  readonly #tracingOptions: OperationTracingOptions | undefined;
  /** The version that was read last, usable or not. Undefined: the target did not exist. */
  #known: KnownVersion | undefined;
  /** The state that was returned last. */
  #returned: Snapshot<unknown> | "not found" | undefined;
  #nextPoll = 0;
  #failures = 0;
  #failingSince = 0;

  constructor(adapter: ServiceAdapter<T, unknown>, targetSettings: TargetSettings, settings: WatchSettings, options: WatchOptions) {
    this.#adapter = adapter;
    this.#targetSettings = targetSettings;
    this.#settings = settings;
    this.#tracingOptions = options.tracingOptions;
  }

  /** Waits for the next poll. Returns the state, if it differs from the one that was returned last. */
  async poll(abortSignal: AbortSignal): Promise<WatchState<T> | undefined> {
    const polls = sharedPollOf(this.#adapter, this.#targetSettings, this.#settings.tryTimeoutInMs);
    const outcome = await polls.next({ dueAt: this.#nextPoll, known: this.#known, tracingOptions: this.#tracingOptions }, abortSignal);
    try {
      if (outcome.kind === "failed") throw outcome.error;
      const state = outcome.kind === "unchanged" ? undefined : await this.#stateOf(outcome, abortSignal);
      this.#failures = 0;
      this.#nextPoll = performance.now() + jitter(this.#settings.pollIntervalInMs, 0.25);
      return state;
    } catch (error) {
      if (abortSignal.aborted) throw error;
      if (isConcurrencyError(error, "SCHEMA")) this.#skipVersion(error, outcome.poll);
      else this.#retryLater(error, outcome.startedAt);
      await this.#report(error, abortSignal);
      return undefined;
    }
  }

  async #stateOf(outcome: PollOutcome & { kind: "found" | "not found" }, abortSignal: AbortSignal): Promise<WatchState<T> | undefined> {
    if (outcome.kind === "not found") {
      this.#known = undefined;
      if (this.#returned === "not found") return undefined;
      this.#returned = "not found";
      return { exists: false };
    }
    const { snapshot, poll } = outcome;
    const version = { etag: snapshot.etag, snapshot, poll };
    const returned = this.#returned;
    const isKnown = this.#known?.etag === snapshot.etag;
    // Another version with the same value: for example, the metadata when only the content was rewritten.
    if (isKnown || (returned !== undefined && returned !== "not found" && this.#adapter.equals(returned.raw, snapshot.raw))) {
      this.#known = version;
      return undefined;
    }
    // Changed only after the schema check has ended: a result that is too late must not count as returned.
    const result = await this.#check(snapshot, abortSignal).catch((error: unknown) => {
      if (isConcurrencyError(error, "SCHEMA")) this.#known = version;
      throw error;
    });
    this.#known = version;
    this.#returned = snapshot;
    return Object.assign(result, { exists: true as const });
  }

  /** The value, after the schema check, which may be asynchronous and has the time of a poll. */
  async #check(snapshot: Snapshot<unknown>, abortSignal: AbortSignal): Promise<ReadResult<T>> {
    const { tryTimeoutInMs } = this.#settings;
    const { url } = this.#adapter;
    const tooLong = (): Error =>
      createError(OperationTimeoutError, `The schema check of ${url} took longer than ${tryTimeoutInMs} ms (tryTimeoutInMs).`, { url, elapsedInMs: tryTimeoutInMs });
    const deadline = new Deadline(tryTimeoutInMs, tooLong, abortSignal);
    try {
      return await deadline.race(checkedResult(this.#adapter, snapshot, this.#targetSettings.journalName));
    } finally {
      deadline.dispose();
    }
  }

  /** Remembers the version that cannot be used, so that the next poll asks for another one. */
  #skipVersion(error: SchemaError, poll: number): void {
    if (this.#returned === undefined) throw error;
    if (error.etag !== undefined && this.#known?.etag !== error.etag) this.#known = { etag: error.etag, snapshot: undefined, poll };
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

  async #report(error: unknown, abortSignal: AbortSignal): Promise<void> {
    const { onError } = this.#settings;
    // An async function is accepted where one returns nothing: what its promise rejects with would end the process otherwise.
    if (onError) await read(() => Promise.resolve().then(() => onError(error)), { abortSignal });
    // Failed polls are logged by `runCall`. That a version was skipped is known only here.
    else if (isConcurrencyError(error, "SCHEMA")) logger.warning(`watch skipped a version of ${this.#adapter.url}: ${errorLabel(error)}`);
  }
}

/**
 * Whether another poll may succeed. A missing container may be created again, and a 403 ends when a role, a key or a firewall rule is
 * repaired, which takes minutes to become effective. The state of a target may change, too. A malformed request stays one, and a lease
 * that has ended does not come back.
 */
function mayPollAgain(error: unknown): boolean {
  if (isConcurrencyError(error)) return ["OPERATION_TIMEOUT", "TARGET_NOT_FOUND", "TARGET_STATE"].includes(error.code);
  return !isMisuse(error) && !isBadRequest(error);
}
