import type { AbortSignalLike } from "../clients/call.js";
import { isConcurrencyError } from "../errors.js";
import { delay, isAborted, RequestTimeoutError } from "./deadline.js";
import { rejectedForNow, request, ResendPreventedError } from "./request.js";
import type { RequestOutcome, TryLimit } from "./request.js";
import { fullJitter, retry } from "./retry.js";
import type { RetryPolicy } from "./retry.js";
import { isConflict, isDefinitive, isLeaseConflict, isNotFound, isRejectedForNow, isUnauthorized } from "./storage-errors.js";
import { isMisuse } from "./validate.js";

/** What the stored state says about a write. `"unchanged"`: it is the state before the write, so a send may still take effect. */
export type Recognition = "committed" | "not committed" | "unchanged" | "unknown";

/** A write whose outcome can be determined by reading. `V`: what the service returns. `S`: what is stored. */
export interface ResolvableWrite<V, S> {
  /** Sends the write once. It must be the same write each time, so that two sends of it exclude each other. */
  send(abortSignal: AbortSignal): Promise<V>;
  /**
   * Reads what is stored now. `"conflict"`: the write was sent once and rejected. `"lost"`: a send may still be in flight.
   * If only the passing of time would keep that send from taking effect, invalidate it before reading.
   */
  readBack(reason: "conflict" | "lost"): Promise<S>;
  /**
   * What the stored state says about this write. `error`: the response to its last send; undefined if it may have been sent more than once.
   * After a `"conflict"` only the write's own id counts as committed: another writer may have stored the same content.
   */
  recognise(found: S, reason: "conflict" | "lost", error: unknown): Recognition | Promise<Recognition>;
  /**
   * For a write that the service can reject for reasons that `readBack` does not show, because it is one of several in a
   * transaction: ensures that no earlier send takes effect later. False, or an error: not certain, send again.
   */
  invalidateEarlierSends?(rejection: unknown): Promise<boolean>;
  /**
   * Called when the service rejects the only send because of a conflict. Returns the caller's backoff: how long to wait
   * before reading back. Absent: a conflict is reported without reading.
   */
  onConflict?: ((error: unknown) => number) | undefined;
}

/** The outcome of a write. `found`: what is stored now, if it was read. */
export type WriteOutcome<V, S> =
  | { readonly kind: "committed"; readonly value: V }
  /** The write was found in what is stored. Its response was lost. */
  | { readonly kind: "recognised"; readonly found: S }
  /** Another client was first. Nothing of the write is stored. */
  | { readonly kind: "conflict"; readonly error: unknown; readonly found?: S }
  /** The service rejected it for good. Nothing of the write is stored. */
  | { readonly kind: "rejected"; readonly error: unknown }
  /** `readError`: why it could not be found out, if reading back failed. */
  | { readonly kind: "unknown"; readonly error: unknown; readonly found?: S; readonly readError?: unknown };

/** Limits of one resolution. */
export interface ResolveLimits {
  readonly abortSignal?: AbortSignalLike | undefined;
  /** See {@link RequestLimits.awaitSend}. */
  readonly awaitSend?: boolean | undefined;
  /** How often reading back is tried at a time. @defaultValue 3 */
  readonly maxReadBacks?: number | undefined;
  /** The time for one send. @defaultValue none: the caller's deadline aborts the signal */
  readonly tryLimit?: TryLimit | undefined;
  /** See {@link RequestLimits.sendOnce}. @defaultValue false */
  readonly sendOnce?: boolean | undefined;
  /** How often the write is sent again while nothing has changed. @defaultValue 10 */
  readonly maxResends?: number | undefined;
  /** The wait before a re-send. @defaultValue full jitter, 10 ms to 1 s */
  readonly backoff?: ((resend: number) => number) | undefined;
  /** Whether the service may carry out later what it rejects now. @defaultValue never */
  readonly retryRejected?: ((error: unknown) => boolean) | undefined;
  /**
   * Whether to determine the outcome even if an abort ended the send. `readBack` must then limit its own time.
   * @defaultValue false: the outcome is unknown then
   */
  readonly resolveAfterAbort?: boolean | undefined;
}

/**
 * The same for sends that the SDK would have repeated by itself, with waits of many seconds: the service is most often busy, and stays so
 * for longer than the other re-sends take. These take 45 seconds on average.
 */
const maxResendsInsteadOfSdk = 100;

/** How often reading back is attempted after each send. */
const defaultMaxReadBacks = 3;

/** Thrown by a write of several requests that determines its outcome itself, and cannot: it may or may not have been carried out. */
export class OutcomeUnknownError extends Error {
  override readonly name = "OutcomeUnknownError";
}

/**
 * Thrown by `send` of a write that takes several requests: a request before the deciding one was rejected for good, so other
 * clients see no change.
 */
export class WriteNotSentError extends Error {
  override readonly name = "WriteNotSentError";
  /** Another client wrote first: read again. */
  readonly conflict: boolean;

  constructor(cause: unknown, conflict = false) {
    super("the write was not sent", { cause });
    this.conflict = conflict;
  }
}

/**
 * Sends a write until its outcome is known, even if responses are lost.
 *
 * | last response                    | stored state         | outcome                                                    |
 * |----------------------------------|----------------------|------------------------------------------------------------|
 * | 2xx                              |                      | committed                                                  |
 * | sent once, rejected              |                      | rejected                                                   |
 * | sent once, rejected for now      |                      | wait, send again; in the end rejected                      |
 * | sent once, conflict              | has this write       | recognised: a proxy or a browser sent a copy of it         |
 * | sent once, conflict              | anything else        | conflict                                                   |
 * | none, 5xx, or to a re-send       | has this write       | recognised                                                 |
 * | none, 5xx, or to a re-send       | excludes this write  | conflict                                                   |
 * | none, 5xx, or to a re-send       | unchanged            | send again: it and an earlier send exclude each other      |
 * | none, 5xx, or to a re-send       | inconclusive         | unknown                                                    |
 *
 * The send count does not include copies made below the SDK: Chromium re-sends a PUT when a kept-alive connection breaks, and
 * so do reverse proxies. So after each conflict, the read that the caller needs anyway is checked for the write.
 */
export async function resolveWrite<V, S>(write: ResolvableWrite<V, S>, limits: ResolveLimits = {}): Promise<WriteOutcome<V, S>> {
  const { abortSignal, tryLimit, awaitSend, sendOnce, maxResends = 10, backoff = defaultBackoff } = limits;
  const maxReadBacks = limits.maxReadBacks ?? defaultMaxReadBacks;
  const readSignal = limits.resolveAfterAbort ? undefined : abortSignal;
  /** An earlier send may have been committed, or may still be in flight. */
  let uncertain = false;
  let timedOut = 0;
  let waits = 0;
  for (let resend = 0; ; resend++) {
    const timeoutInMs = tryLimit?.timeoutInMs(timedOut);
    const sent = await request((signal) => write.send(signal), { abortSignal, awaitSend, sendOnce, timeoutInMs, reusesSignal: tryLimit?.reusesSignal, onTry: tryLimit?.onTry, onResend: tryLimit?.onResend, sparesWaits: tryLimit !== undefined });
    if ("error" in sent && sent.error instanceof RequestTimeoutError) timedOut++;
    if (sent.kind === "ok") return { kind: "committed", value: sent.value };
    const certain: WriteOutcome<V, S> | undefined = uncertain ? undefined : await outcomeOfOnlySend(write, sent, maxReadBacks, limits);
    const isFinal = certain?.kind === "recognised" || (certain && "error" in certain && !limits.retryRejected?.(certain.error));
    if (certain && isFinal) {
      // Sent once and rejected: nothing of it is stored, so that it is not read before it is sent again.
      if (certain.kind !== "rejected" || !isRejectedForNow(certain.error) || waits >= rejectedForNow.maxWaits) return certain;
      tryLimit?.onWait?.(true);
      try {
        await delay(rejectedForNow.backoff(waits++), abortSignal);
      } catch {
        return certain;
      }
      tryLimit?.onWait?.(false);
      continue;
    }
    uncertain ||= certain === undefined;
    const outcome = await outcomeOfLostSend(write, sent, maxReadBacks, readSignal);
    if (outcome.kind !== "send again") return outcome;
    const isInsteadOfSdk = outcome.error instanceof ResendPreventedError;
    if (resend >= (isInsteadOfSdk ? Math.max(maxResends, maxResendsInsteadOfSdk) : maxResends)) return { kind: "unknown", error: outcome.error };
    try {
      await delay(backoff(resend), abortSignal);
    } catch {
      return { kind: "unknown", error: outcome.error };
    }
  }
}

function defaultBackoff(resend: number): number {
  return fullJitter(resend, 10, 1_000);
}

/** The outcome, if the response is known to belong to the only send. */
async function outcomeOfOnlySend<V, S>(
  write: ResolvableWrite<V, S>,
  sent: Exclude<RequestOutcome<V>, { kind: "ok" }>,
  maxReadBacks: number,
  { abortSignal, tryLimit }: Pick<ResolveLimits, "abortSignal" | "tryLimit">,
): Promise<WriteOutcome<V, S> | undefined> {
  const { error } = sent;
  if (error instanceof WriteNotSentError) return { kind: error.conflict ? "conflict" : "rejected", error: error.cause };
  if (sent.kind !== "rejected") return undefined;
  if (!isConflict(error) && !isNotFound(error)) return { kind: "rejected", error };
  if (!write.onConflict) return { kind: "conflict", error };
  try {
    const waitInMs = write.onConflict(error);
    if (waitInMs > 0) await (tryLimit?.backOff ?? delay)(waitInMs, abortSignal);
    // Not given up easily: a copy of this write may be stored, which the caller's next read would take for another client's. Also if the
    // credentials are rejected: the next attempt may have new ones, and would apply the change a second time.
    const shouldRetry = (readError: unknown): boolean => mayReadAgain(readError) || isUnauthorized(readError);
    const { found, recognition } = await lookFor(write, "conflict", error, { maxAttempts: maxReadBacks, shouldRetry, abortSignal });
    return recognition === "committed" ? { kind: "recognised", found } : { kind: "conflict", error, found };
  } catch {
    // Cancelled, or the read failed: the caller reads again and reports that error itself.
    return { kind: "conflict", error };
  }
}

/** The outcome after a send without a response, or with a response that may belong to another send of the same write. */
async function outcomeOfLostSend<V, S>(
  write: ResolvableWrite<V, S>,
  sent: Exclude<RequestOutcome<V>, { kind: "ok" }>,
  maxReadBacks: number,
  abortSignal: AbortSignalLike | undefined,
): Promise<WriteOutcome<V, S> | { readonly kind: "send again"; readonly error: unknown }> {
  const { error } = sent;
  if (isAborted(abortSignal)) return { kind: "unknown", error };
  let found: S;
  let recognition: Recognition;
  try {
    // Without delay: each write of another client in between makes it harder to recognise this one.
    ({ found, recognition } = await lookFor(write, "lost", sent.sends === 1 ? error : undefined, { maxAttempts: maxReadBacks, shouldRetry: mayReadAgain, abortSignal }));
  } catch (readError) {
    // Not sent again: where `readBack` keeps earlier sends from taking effect, that has failed, too.
    return { kind: "unknown", error: new AggregateError([error, readError], "the write got no response, and reading back failed"), readError };
  }
  switch (recognition) {
    case "committed":
      return { kind: "recognised", found };
    case "not committed":
      return { kind: "conflict", error, found };
    case "unknown":
      return { kind: "unknown", error, found };
    case "unchanged": {
      const rejected = sent.sends === 1 && (isConflict(error) || isNotFound(error));
      if (rejected && (await write.invalidateEarlierSends?.(error).catch(() => false))) return { kind: "conflict", error };
      // Leased by another client: sending it again does not help, but an earlier send takes effect if it arrives after the release.
      return isLeaseConflict(error) ? { kind: "unknown", error } : { kind: "send again", error };
    }
  }
}

/** Reads back, and recognises: the second may need a read of its own, so both are repeated if one of them fails. */
function lookFor<V, S>(
  write: ResolvableWrite<V, S>,
  reason: "conflict" | "lost",
  error: unknown,
  policy: RetryPolicy,
): Promise<{ readonly found: S; readonly recognition: Recognition }> {
  return retry(async () => {
    const found = await write.readBack(reason);
    return { found, recognition: await write.recognise(found, reason, error) };
  }, policy);
}

/** A read that failed in the network proves nothing. With a client that does not retry by itself, another read may succeed. */
function mayReadAgain(error: unknown): boolean {
  return !isDefinitive(error) && !isMisuse(error) && !isConcurrencyError(error, "SCHEMA");
}
