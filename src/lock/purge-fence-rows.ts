import type { CallOptions, PurgeOptions, PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { throwIfAborted } from "../core/deadline.js";
import { read } from "../core/request.js";
import { withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { quoted, textOf } from "../target/library-rows.js";
import { ownRowPages } from "../target/own-rows.js";
import { tableUrl } from "../target/stored-entity.js";
import { purgeRows } from "../transaction/purge-rows.js";
import { entityFences, fenceRowKey } from "./fence-row.js";

const optionNames: OptionNames<PurgeOptions> = { olderThanInMs: 1, abortSignal: 1, tracingOptions: 1 };

/** No holder that works has written nothing for so long. One that has not only needs two requests more. */
const defaultAgeInMs = 86_400_000;

/**
 * Deletes fence rows. Whatever a holder does at the same time, no write of an earlier holder gets through, as `Fence` takes any row
 * for one that may be deleted at any moment.
 */
export async function purgeFenceRows(table: TableLike, options: PurgeOptions): Promise<PurgeResult> {
  return withSpan("TableLock.purge", options, async (tracingOptions) => {
    checkOptions("TableLock.purge", options, optionNames);
    throwIfAborted(options.abortSignal);
    const ageInMs = checkNumber("olderThanInMs", options.olderThanInMs ?? defaultAgeInMs, { min: 0, max: Date.now() });
    const request = { abortSignal: options.abortSignal, tracingOptions };
    // Those of entities first: as long as there is one, the row of the partition says that its entities are locked individually.
    const ofEntities = await purgeRows("TableLock.purge", table, { filter: entityFences, ageInMs }, request, () => Promise.resolve(true));
    const ofPartitions = await purgeRows("TableLock.purge", table, { filter: `RowKey eq ${quoted(fenceRowKey)}`, ageInMs }, request, async (row) => textOf(row, "granularity") !== "entity" || hasNoEntities(table, row.partitionKey, request));
    return { deleted: ofEntities.deleted + ofPartitions.deleted, kept: ofEntities.kept + ofPartitions.kept };
  }, { targetKind: "tableLock", url: tableUrl(table) });
}

async function hasNoEntities(table: TableLike, partitionKey: string, { abortSignal, tracingOptions }: CallOptions): Promise<boolean> {
  const filter = `PartitionKey eq ${quoted(partitionKey)} and ${entityFences}`;
  return read(async (signal) => {
    const request = { abortSignal: signal, ...(tracingOptions && { tracingOptions }), queryOptions: { filter, select: ["PartitionKey", "RowKey"] } };
    for await (const page of ownRowPages(table, request, 1)) if (page.length > 0) return false;
    return true;
  }, { abortSignal });
}
