import type { TableEntityLike } from "../clients/table.js";
import { createError, SchemaError } from "../errors.js";
import { ownRowPrefix } from "../target/library-rows.js";
import { textIn, textProperties } from "../target/long-text.js";
import { isTextReference } from "../overflow/stored-text.js";
import { fingerprint } from "../queue/envelope.js";
import { rowKeyOf } from "../queue/inbox/record.js";
import type { StoredOutcome } from "./stored-result.js";

/** The row keys of all records begin with this, in all partitions. */
export const onceRowPrefix: string = `${ownRowPrefix}once!`;

/** Where the record of a key is. */
export interface RecordPlace {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** What is stored of a key. */
export interface OnceRecord {
  readonly state: "running" | "succeeded" | "failed";
  /** The call that runs the function, or has run it. */
  readonly owner: string;
  /** The last write of that call: recognised if its response is lost. */
  readonly writeId: string;
  readonly fingerprint: string | undefined;
  /** 1 plus the number of earlier runs that ended without an outcome. */
  readonly attempt: number;
  /** How long the claim of a running call lasts, counted from `writtenAt`. */
  readonly claimDurationInMs: number;
  /** Undefined while it runs. */
  readonly outcome: StoredOutcome | undefined;
  /** By the clock of the service: the clocks of processes may differ. */
  readonly writtenAt: number;
  readonly etag: string;
}

/** What a write sets. */
export type NewRecord = Omit<OnceRecord, "writeId" | "writtenAt" | "etag">;

/** What a call does with the record that it has found. */
export type OnceDecision =
  | { readonly kind: "free"; readonly attempt: number }
  | { readonly kind: "busy"; readonly retryAfterInMs: number }
  | { readonly kind: "replay"; readonly outcome: StoredOutcome };

/** What decides about a claim besides the record. */
export interface ClaimTimes {
  /** The time of the service when the record was read. Undefined: a proxy has removed the header. */
  readonly serviceTime: number | undefined;
  /** For how long this process has seen the record unchanged, by its own clock. */
  readonly unchangedForInMs: number;
  readonly resultTtlInMs: number;
}

/**
 * | record                                      | decision                                                                     |
 * |---------------------------------------------|------------------------------------------------------------------------------|
 * | succeeded, failed                           | replay                                                                       |
 * | succeeded, failed, longer ago than the TTL  | free: as if the key had never been used                                      |
 * | running, renewed in time                    | busy                                                                         |
 * | running, claim expired                      | free: its process has crashed, or its signal was aborted before              |
 *
 * A claim has expired if the service says so (the time of its last write and the time of the read are both those of the service), or
 * if this process has seen it unchanged for its whole duration. Its owner counts from before it has sent the write, so by its own clock
 * the claim is over earlier in both cases.
 */
export function decide(record: OnceRecord, { serviceTime, unchangedForInMs, resultTtlInMs }: ClaimTimes): OnceDecision {
  const ageInMs = serviceTime === undefined ? unchangedForInMs : Math.max(unchangedForInMs, serviceTime - record.writtenAt);
  if (record.outcome) return ageInMs >= resultTtlInMs ? { kind: "free", attempt: 1 } : { kind: "replay", outcome: record.outcome };
  const retryAfterInMs = record.claimDurationInMs - ageInMs;
  return retryAfterInMs > 0 ? { kind: "busy", retryAfterInMs } : { kind: "free", attempt: record.attempt + 1 };
}

/** The records of `run` are spread over 256 partitions: one partition has 2,000 operations a second. */
export async function placeOf(key: string): Promise<RecordPlace> {
  return { partitionKey: `${ownRowPrefix}once-${fingerprint(key).slice(0, 2)}`, rowKey: await rowKeyIn(key) };
}

/** The record of a transaction is in the partition of its entities. */
export async function placeIn(partitionKey: string, key: string): Promise<RecordPlace> {
  return { partitionKey, rowKey: await rowKeyIn(key) };
}

function rowKeyIn(key: string): Promise<string> {
  return rowKeyOf("run", key, onceRowPrefix);
}

const maxClaimDurationInMs = 7 * 86_400_000;

export function entityOf({ partitionKey, rowKey }: RecordPlace, record: NewRecord & { readonly writeId: string }): TableEntityLike {
  const { state, owner, writeId, fingerprint, attempt, claimDurationInMs, outcome } = record;
  const properties = { state, owner, writeId, fingerprint, attempt, claimDurationInMs, outcome: outcome?.kind };
  return {
    partitionKey,
    rowKey,
    // No Int64, which the SDK returns as a bigint: programs that list the table and format it as JSON would fail.
    ...Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== undefined)),
    ...(outcome && outcomeProperties(outcome)),
  };
}

function outcomeProperties(outcome: StoredOutcome): Record<string, string | number> {
  switch (outcome.kind) {
    case "blob": {
      const { sha256, sizeInBytes, etag } = outcome.reference;
      return { resultSha256: sha256, resultSizeInBytes: sizeInBytes, ...(etag !== undefined && { resultETag: etag }) };
    }
    case "unstorable":
      return textProperties("result", outcome.reason);
    default:
      return textProperties("result", outcome.text ?? "");
  }
}

/**
 * @throws {@link SchemaError} if another program has damaged the record. It is never taken for a key that was not used: the function could
 * have run.
 */
export function recordOf(entity: object, url: string): OnceRecord {
  const { state, owner, writeId, fingerprint, attempt, claimDurationInMs, timestamp, etag } = entity as Readonly<Record<string, unknown>>;
  const damaged = (issue: string): never => {
    const message = `A record of Once in ${url} cannot be read: another program has changed it. Delete it with forget() if the call may run again.`;
    throw createError(SchemaError, message, { url, phase: "read", issues: [{ message: issue }], etag: typeof etag === "string" ? etag : undefined });
  };
  if (state !== "running" && state !== "succeeded" && state !== "failed") return damaged("state");
  if (typeof owner !== "string" || typeof writeId !== "string" || typeof etag !== "string" || etag === "") return damaged("owner");
  const isDuration = typeof claimDurationInMs === "number" && claimDurationInMs >= 0 && claimDurationInMs <= maxClaimDurationInMs;
  if (!isDuration || typeof attempt !== "number" || !Number.isSafeInteger(attempt) || attempt < 1) return damaged("claim");
  const writtenAt = Date.parse(typeof timestamp === "string" ? timestamp : "");
  if (Number.isNaN(writtenAt)) return damaged("timestamp");
  const outcome = state === "running" ? undefined : (outcomeIn(entity) ?? damaged("result"));
  return { state, owner, writeId, fingerprint: typeof fingerprint === "string" ? fingerprint : undefined, attempt, claimDurationInMs, outcome, writtenAt, etag };
}

function outcomeIn(entity: object): StoredOutcome | undefined {
  const { outcome: kind } = entity as { readonly outcome?: unknown };
  const text = textIn(entity, "result");
  switch (kind) {
    case "value":
      return { kind, text: text === "" ? undefined : text };
    case "error":
      return { kind, text };
    case "unstorable":
      return { kind, reason: text };
    case "blob": {
      const { resultSha256: sha256, resultSizeInBytes: sizeInBytes, resultETag: etag } = entity as Readonly<Record<string, unknown>>;
      if (!isTextReference({ sha256, sizeInBytes })) return undefined;
      return { kind, reference: { sha256: String(sha256), sizeInBytes: Number(sizeInBytes), etag: typeof etag === "string" ? etag : undefined } };
    }
    default:
      return undefined;
  }
}
