import type { AdapterRequest } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { check } from "../../core/request.js";
import { isConflict } from "../../core/storage-errors.js";
import { createError, LockModeMismatchError } from "../../errors.js";
import { ownRowPrefix } from "../../target/library-rows.js";
import { getOwnRow } from "../../target/own-rows.js";
import { tableUrl } from "../../target/stored-entity.js";
import { fingerprint } from "../envelope.js";

/** The most partitions of the records of one queue: far more than the 20,000 requests a second of an account can use. */
export const maxShards = 256;

/** Where the number of shards is recorded. Not below the prefix of the records: no purge deletes it. */
export const shardsMarker = { partitionKey: `${ownRowPrefix}inbox`, rowKey: `${ownRowPrefix}shards` };

/**
 * The partition of a record: by its group, so that both are in one partition and can be written in one transaction; without a group, by
 * its key.
 */
export function shardOf(queue: string, shards: number, key: string, group: string | undefined): string {
  return shards === 1 ? queue : `${queue}:${Number.parseInt(fingerprint(group ?? key).slice(0, 8), 16) % shards}`;
}

/** All partitions of the records of a queue. */
export function shardsOf(queue: string, shards: number): readonly string[] {
  return shards === 1 ? [queue] : Array.from({ length: shards }, (_, i) => `${queue}:${i}`);
}

/**
 * Records the number of shards of a table, or compares it with that of the first consumer that has recorded one. With another number,
 * the records of a key are in another partition: duplicates and groups would not be recognised. One shard is recorded like any other
 * number: a consumer with several would not notice those with one otherwise.
 * @param marker - The row of the marker. Undefined: it does not exist.
 */
export async function checkShards(table: TableLike, shards: number, marker: object | undefined, request: AdapterRequest): Promise<void> {
  compareShards(table, shards, marker ?? (await createMarker(table, shards, request)));
}

/** @throws {@link LockModeMismatchError} if the consumers of the table have another number of shards. */
export function compareShards(table: TableLike, shards: number, marker: object): void {
  const { shards: found } = marker as { shards?: number };
  if (found === shards) return;
  const url = tableUrl(table);
  const message =
    `The inbox table ${url} was first used with shards: ${found}, and this ClaimInbox has shards: ${shards}. They would not find each other's records. ` +
    `Use the same number, or another table after the queue is empty.`;
  throw createError(LockModeMismatchError, message, { url, setting: "shards", expected: String(shards), found: String(found) });
}

/** Returns the marker that is stored then: another consumer may be first, or the response may be lost. */
async function createMarker(table: TableLike, shards: number, request: AdapterRequest): Promise<object> {
  try {
    const create = ["create", { ...shardsMarker, shards }] as never;
    await check(tableUrl(table), (options) => table.submitTransaction([create], options), request);
    return { shards };
  } catch (error) {
    try {
      return await check(tableUrl(table), (options) => getOwnRow(table, shardsMarker.partitionKey, shardsMarker.rowKey, options), request);
    } catch (notFound) {
      throw isConflict(error) ? notFound : error;
    }
  }
}
