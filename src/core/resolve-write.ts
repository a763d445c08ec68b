import type { AbortSignalLike } from "../clients/call.js";
import { isSchemaError } from "../errors.js";
import { delay, isAborted } from "./deadline.js";
import { request } from "./request.js";
import type { RequestOutcome } from "./request.js";
import { fullJitter, retry } from "./retry.js";
import { isConflict, isDefinitive, isLeaseConflict, isNotFound } from "./storage-errors.js";
import { isMisuse } from "./validate.js";

/** What a stored state says about a write. `"unchanged"`: the state is the one before it, so a send may still take effect. */
export type Recognition = "committed" | "not committed" | "unchanged" | "unknown";

/** A write whose outcome can be found out by reading. `V`: what the service returns. `S`: what is stored. */
export interface ResolvableWrite<V, S> {
  /** Sends the write once. It must be the same write each time, so that two sends of it exclude each other. */
  send(abortSignal: AbortSignal): Promise<V>;
  /**
   * Reads what is stored now. `"conflict"`: the write was sent once and rejected. `"lost"`: a send may still be in flight;
   * where nothing but time could keep it from taking effect, prevent that before reading.
   */
  readBack(reason: "conflict" | "lost"): Promise<S>;
  /**
   * What the stored state says of this very write. `error`: what its last send ended with. After a `"conflict"` nothing but
   * the write's own id counts as committed: other writers may well want the same content.
   */
  recognise(found: S, reason: "conflict" | "lost", error: unknown): Recognition | Promise<Recognition>;
  /**
   * For a write that can be rejected for reasons that `readBack` does not show, as it is one of several in a transaction:
   * makes sure that no earlier send takes effect after all. False, or an error: not known, send again.
   */
  invalidateEarlierSends?(rejection: unknown): Promise<boolean>;
  /**
   * Called when the service rejects the only send because of a conflict. Returns how long to wait before reading back: the
   * caller's backoff. Absent: a conflict is reported without reading.
   */
  onConflict?: ((error: unknown) => number) | undefined;
}

/** What became of a write. `found`: what is stored now, where that was read. */
export type WriteOutcome<V, S> =
  | { readonly kind: "committed"; readonly value: V }
  /** Recognised in what is stored; its response was lost. */
  | { readonly kind: "recognised"; readonly found: S }
  /** Another client was first. Nothing of the write is stored. */
  | { readonly kind: "conflict"; readonly error: unknown; readonly found?: S }
  /** The service refused it for good. Nothing of the write is stored. */
  | { readonly kind: "rejected"; readonly error: unknown }
  | { readonly kind: "unknown"; readonly error: unknown; readonly found?: S };

/** Limits of one resolution. */
export interface ResolveLimits {
  readonly abortSignal?: AbortSignalLike | undefined;
  /** See {@link RequestLimits.exclusiveSignal}. */
  readonly exclusiveSignal?: AbortSignal | undefined;
  /** The time for one send. @defaultValue Infinity: the caller's deadline aborts the signal */
  readonly timeoutInMs?: (() => number) | undefined;
  /** How often the write is sent again while nothing has changed. @defaultValue 10 */
  readonly maxResends?: number | undefined;
  /** The wait before a re-send. @defaultValue full jitter, 10 ms to 1 s */
  readonly backoff?: ((resend: number) => number) | undefined;
  /** Whether the service may carry out later what it rejects now. @defaultValue never */
  readonly retryRejected?: ((error: unknown) => boolean) | undefined;
  /**
   * An abort ends the send; find out its outcome all the same. `readBack` must be bounded in time by itself.
   * @defaultValue false: the outcome is unknown then
   */
  readonly resolveAfterAbort?: boolean | undefined;
}

/** How often reading back is tried at a time. */
const maxReadBacks = 3;

/**
 * Thrown by `send` of a write that takes several requests: one that came before the deciding one was rejected for good, so
 * nothing has changed for any other client.
 */
export class WriteNotSentError extends Error {
  override readonly name = "WriteNotSentError";
  /** Another client was first: read again. */
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
 * | sent once, conflict              | has this write       | recognised: a proxy or a browser sent a copy of it         |
 * | sent once, conflict              | anything else        | conflict                                                   |
 * | none, 5xx, or to a re-send       | has this write       | recognised                                                 |
 * | none, 5xx, or to a re-send       | excludes this write  | conflict                                                   |
 * | none, 5xx, or to a re-send       | unchanged            | send again: it and an earlier send exclude each other      |
 * | none, 5xx, or to a re-send       | tells nothing        | unknown                                                    |
 *
 * The send count cannot see copies that are made below the SDK: Chromium re-sends a PUT when a kept connection breaks, and
 * reverse proxies do so as well. So after each conflict the write is looked for in the read that the caller needs anyway.
 */
export async function resolveWrite<V, S>(write: ResolvableWrite<V, S>, limits: ResolveLimits = {}): Promise<WriteOutcome<V, S>> {
  const { exclusiveSignal, abortSignal = exclusiveSignal, timeoutInMs, maxResends = 10, backoff = defaultBackoff } = limits;
  const readSignal = limits.resolveAfterAbort ? undefined : abortSignal;
  /** An earlier send may have been committed, or may still be in flight. */
  let uncertain = false;
  for (let resend = 0; ; resend++) {
    const sent = await request((signal) => write.send(signal), { abortSignal, exclusiveSignal, timeoutInMs: timeoutInMs?.() });
    if (sent.kind === "ok") return { kind: "committed", value: sent.value };
    const certain: WriteOutcome<V, S> | undefined = uncertain ? undefined : await outcomeOfOnlySend(write, sent, abortSignal);
    if (certain && !(certain.kind === "rejected" && limits.retryRejected?.(certain.error))) return certain;
    uncertain ||= certain === undefined;
    const outcome = await outcomeOfLostSend(write, sent, readSignal);
    if (outcome.kind !== "send again") return outcome;
    if (resend >= maxResends) return { kind: "unknown", error: outcome.error };
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

/** The outcome, if the response speaks of the one and only send. */
async function outcomeOfOnlySend<V, S>(
  write: ResolvableWrite<V, S>,
  sent: Exclude<RequestOutcome<V>, { kind: "ok" }>,
  abortSignal: AbortSignalLike | undefined,
): Promise<WriteOutcome<V, S> | undefined> {
  const { error } = sent;
  if (error instanceof WriteNotSentError) return { kind: error.conflict ? "conflict" : "rejected", error: error.cause };
  if (sent.kind !== "rejected") return undefined;
  if (!isConflict(error) && !isNotFound(error)) return { kind: "rejected", error };
  if (!write.onConflict) return { kind: "conflict", error };
  try {
    const waitInMs = write.onConflict(error);
    if (waitInMs > 0) await delay(waitInMs, abortSignal);
    // Not given up easily: a copy of this write may be stored, which the caller's next read would take for another client's.
    const found = await retry(() => write.readBack("conflict"), { maxAttempts: maxReadBacks, shouldRetry: mayReadAgain, abortSignal });
    const recognition = await write.recognise(found, "conflict", error);
    return recognition === "committed" ? { kind: "recognised", found } : { kind: "conflict", error, found };
  } catch {
    // Cancelled, or the read failed: the caller reads again, and reports that error itself.
    return { kind: "conflict", error };
  }
}

/** A send got no response, or the response may speak of another send of the same write. */
async function outcomeOfLostSend<V, S>(
  write: ResolvableWrite<V, S>,
  sent: Exclude<RequestOutcome<V>, { kind: "ok" }>,
  abortSignal: AbortSignalLike | undefined,
): Promise<WriteOutcome<V, S> | { readonly kind: "send again"; readonly error: unknown }> {
  const { error } = sent;
  if (isAborted(abortSignal)) return { kind: "unknown", error };
  let found: S;
  let recognition: Recognition;
  try {
    // At once: each write of another client that comes in between makes it harder to recognise this one.
    found = await retry(() => write.readBack("lost"), { maxAttempts: maxReadBacks, shouldRetry: mayReadAgain, abortSignal });
    recognition = await write.recognise(found, "lost", error);
  } catch (readError) {
    const both = new AggregateError([error, readError], "the write got no response, and reading back failed");
    return mayReadAgain(readError) && !isAborted(abortSignal) ? { kind: "send again", error: both } : { kind: "unknown", error: both };
  }
  switch (recognition) {
    case "committed":
      return { kind: "recognised", found };
    case "not committed":
      return { kind: "conflict", error, found };
    case "unknown":
      return { kind: "unknown", error, found };
    case "unchanged": {
      const answered = sent.sends === 1 && (isConflict(error) || isNotFound(error));
      if (answered && (await write.invalidateEarlierSends?.(error).catch(() => false))) return { kind: "conflict", error };
      // Unchanged, and leased: nothing of this write can take effect, and sending it again does not help.
      return isLeaseConflict(error) ? { kind: "rejected", error } : { kind: "send again", error };
    }
  }
}

/** A network failure on a read says nothing yet: with a client that does not retry by itself, another read may. */
function mayReadAgain(error: unknown): boolean {
  return !isDefinitive(error) && !isMisuse(error) && !isSchemaError(error);
}
