import type { Deadline } from "../core/deadline.js";
import { delay, isAborted, startStopwatch } from "../core/deadline.js";
import { pollDelay } from "../core/retry.js";
import { isTransient, toNotFoundError } from "../core/storage-errors.js";
import type { TimeLimits } from "../core/validate.js";
import { createError, IdempotencyMismatchError, InProgressError, isConcurrencyError } from "../errors.js";
import { HeldKey } from "./held-key.js";
import type { OnceRunOptions } from "./once-options.js";
import { decide } from "./once-record.js";
import type { NewRecord, RecordPlace } from "./once-record.js";
import type { FoundRecord, RecordStore } from "./record-store.js";
import type { StoredOutcome } from "./stored-result.js";

/** What one call of `run` knows. */
export interface OnceCall<R> {
  readonly key: string;
  readonly place: RecordPlace;
  readonly fingerprint: string | undefined;
  readonly options: OnceRunOptions<R>;
  readonly limits: TimeLimits;
  /** By the monotonic clock. */
  readonly started: number;
  /** Limits everything before the function. */
  readonly deadline: Deadline;
}

/** The outcome of an earlier call, and what that was about. */
export interface FoundOutcome {
  readonly outcome: StoredOutcome;
  readonly fingerprint: string | undefined;
}

/** Another call runs the function, or has crashed. */
export interface FoundInProgress {
  readonly fingerprint: string | undefined;
  readonly retryAfterInMs: number;
}

interface ClaimSettings {
  readonly resultTtlInMs: number;
  readonly claimDurationInMs: number;
}

/** Claims the key, or finds the outcome of an earlier call; waits while another one runs, and announces that to the calls that wait for this one. */
export async function claimKey<R>(store: RecordStore, call: OnceCall<R>, { resultTtlInMs, claimDurationInMs }: ClaimSettings, announce: (found: FoundInProgress) => void): Promise<HeldKey | FoundOutcome> {
  const { place, fingerprint, options, limits, deadline } = call;
  const { abortSignal, tracingOptions } = options;
  const owner = crypto.randomUUID();
  const request = { abortSignal: deadline.signal, tracingOptions, tryTimeoutInMs: limits.tryTimeoutInMs };
  const waited = startStopwatch();
  let busyForInMs: number | undefined;
  let seen: { readonly etag: string; readonly since: () => number } | undefined;
  const claim = async (base: string | undefined, attempt: number): Promise<HeldKey | FoundRecord> => {
    const record: NewRecord = { state: "running", owner, fingerprint, attempt, claimDurationInMs, outcome: undefined };
    for (let etag = base; ; ) {
      const clock = startStopwatch();
      const written = await store.write(place, etag, record, request);
      if (written.kind === "conflict" && written.found.record?.owner !== owner) return written.found;
      etag = written.kind === "conflict" ? written.found.record?.etag : written.etag;
      const held = etag === undefined ? undefined : new HeldKey(store, { place, record, etag, clock }, { abortSignal, tracingOptions });
      if (held?.isHeld()) return held;
      // The response took so long that the claim may have expired: it is renewed before the function begins.
      held?.end();
    }
  };
  try {
    let found = await claim(undefined, 1);
    while (!(found instanceof HeldKey)) {
      const { record, serviceTime } = found;
      if (!record) {
        found = await claim(undefined, 1);
        continue;
      }
      if (seen?.etag !== record.etag) seen = { etag: record.etag, since: startStopwatch() };
      const decision = decide(record, { serviceTime, unchangedForInMs: seen.since(), resultTtlInMs });
      if (decision.kind === "free") {
        found = await claim(record.etag, decision.attempt);
        continue;
      }
      requireFingerprint(store.url, call.key, record.fingerprint, fingerprint);
      if (decision.kind === "replay") return { outcome: decision.outcome, fingerprint: record.fingerprint };
      busyForInMs = decision.retryAfterInMs;
      announce({ fingerprint: record.fingerprint, retryAfterInMs: busyForInMs });
      if (options.whenInProgress === "throw") throw inProgressError(store.url, call.key, busyForInMs);
      await delay(Math.min(pollDelay(waited()), Math.max(1, busyForInMs)), deadline.signal);
      found = await poll(store, found, place, request);
    }
    return found;
  } catch (error) {
    // The claim may be stored, or may still arrive.
    if (isConcurrencyError(error, "COMMIT_UNKNOWN") || deadline.signal.aborted) void store.releaseOwn(place, owner);
    if (!deadline.signal.aborted || isAborted(abortSignal)) throw toNotFoundError(error, store.url, undefined) ?? error;
    throw busyForInMs === undefined ? deadline.signal.reason : inProgressError(store.url, call.key, busyForInMs);
  }
}

/** A wait outlasts failures that may pass. */
async function poll(store: RecordStore, before: FoundRecord, place: RecordPlace, request: Parameters<RecordStore["read"]>[1]): Promise<FoundRecord> {
  try {
    return await store.read(place, request);
  } catch (error) {
    if (!isTransient(error) || request.abortSignal.aborted) throw error;
    return { record: before.record, serviceTime: undefined };
  }
}

/** @throws {@link IdempotencyMismatchError} if the key was used for something else. */
export function requireFingerprint(url: string, key: string, stored: string | undefined, given: string | undefined): void {
  if (stored === undefined || given === undefined || stored === given) return;
  throw createError(IdempotencyMismatchError, `The idempotency key was used before, for a call with another fingerprint. Use a new key for each call.`, { url, key });
}

export function inProgressError(url: string, key: string, retryAfterInMs: number): InProgressError {
  return createError(InProgressError, `Another call with this idempotency key is in progress, or its process has crashed. Repeat the call later.`, { url, key, retryAfterInMs: Math.ceil(retryAfterInMs) });
}
