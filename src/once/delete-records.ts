import type { CallOptions, PurgeResult } from "../clients/call.js";
import { ConflictError, createError, isConcurrencyError } from "../errors.js";
import { hasCertainlyExpired } from "../queue/inbox/purge.js";
import { purgeRows } from "../transaction/purge-rows.js";
import { onceRowPrefix, recordOf } from "./once-record.js";
import type { OnceRecord, RecordPlace } from "./once-record.js";
import type { RecordStore, StoreRequest } from "./record-store.js";

/** A record that may be deleted: of a damaged one, only the ETag is known. */
export type Forgettable = Pick<OnceRecord, "etag"> & Partial<Pick<OnceRecord, "outcome">>;

/**
 * A record that may be deleted. Undefined: there is none.
 * @throws {@link ConflictError} if a call may be running the function of the key.
 */
export async function forgettable(store: RecordStore, place: RecordPlace, call: StoreRequest): Promise<Forgettable | undefined> {
  const started = performance.now();
  let record: OnceRecord | undefined;
  let serviceTime: number | undefined;
  try {
    ({ record, serviceTime } = await store.read(place, call));
  } catch (error) {
    // Damaged: an operator wants to get rid of it.
    if (isConcurrencyError(error, "SCHEMA") && error.etag !== undefined) return { etag: error.etag };
    throw error;
  }
  if (!record || record.outcome || hasCertainlyExpired(record, serviceTime)) return record;
  const details = { url: store.url, attempts: 0, elapsedInMs: performance.now() - started, currentETag: record.etag };
  throw createError(ConflictError, "Once.forget: a call may be running the function of this key. Wait until 15 minutes after its claim has expired.", details);
}

/** Deletes records that are older than this, unless a call may be running the function of the key. */
export function purgeRecords(store: RecordStore, ageInMs: number, call: CallOptions): Promise<PurgeResult> {
  const filter = `RowKey ge '${onceRowPrefix}' and RowKey lt '${onceRowPrefix.slice(0, -1)}"'`; // " is the character after !
  return purgeRows("Once.purge", store.table, { filter, ageInMs }, call, (row, serviceTime) => Promise.resolve(mayPurge(row, serviceTime, store.url)));
}

function mayPurge(row: object, serviceTime: number, url: string): boolean {
  try {
    const record = recordOf(row, url);
    return record.outcome !== undefined || hasCertainlyExpired(record, serviceTime);
  } catch {
    return false; // damaged: an operator decides
  }
}
