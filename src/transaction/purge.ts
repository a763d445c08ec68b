import type { CallOptions, TransactionTableLike } from "../clients.js";
import { abortReason, throwIfAborted } from "../internal/abort.js";
import { isMissing, isRace } from "../internal/storage-errors.js";
import { withSpan } from "../internal/tracing.js";
import { checkNumber } from "../internal/validate.js";
import { tombstoneName } from "../table/tombstone.js";
import { tableUrl } from "../table/table-url.js";
import { quoted } from "./row.js";

/** Options of {@link purgeTombstones}. */
export interface PurgeTombstonesOptions extends CallOptions {
  /** Of this partition only. @defaultValue the whole table, which is a scan */
  partitionKey?: string | undefined;
  /**
   * Younger ones are left alone: the transaction that made one may still have to look at it.
   * @defaultValue an hour
   */
  olderThanInMs?: number | undefined;
}

/**
 * Removes the tombstones that transactions left behind because their process died between the commit and its cleaning
 * up. Returns how many. Costs a query, and a request for each.
 */
export function purgeTombstones(table: TransactionTableLike, options: PurgeTombstonesOptions = {}): Promise<number> {
  return withSpan("purgeTombstones", options, async (tracingOptions) => {
    const { partitionKey, abortSignal } = options;
    const age = checkNumber("olderThanInMs", options.olderThanInMs ?? 3_600_000, { min: 0 });
    const before = new Date(Date.now() - age).toISOString();
    const filter = [
      ...(partitionKey === undefined ? [] : [`PartitionKey eq ${quoted(partitionKey)}`]),
      `${tombstoneName} eq true`,
      `Timestamp lt datetime${quoted(before)}`,
    ].join(" and ");
    const traced = tracingOptions && { tracingOptions };
    let removed = 0;
    for await (const page of table.listEntities({ ...traced, queryOptions: { filter } }).byPage()) {
      for (const entity of page as readonly { partitionKey: string; rowKey: string; etag: string }[]) {
        throwIfAborted(abortSignal);
        try {
          await table.deleteEntity(entity.partitionKey, entity.rowKey, { ...traced, etag: entity.etag });
          removed++;
        } catch (error) {
          if (abortSignal?.aborted) throw abortReason(abortSignal);
          // Somebody has put an entity in its place, or was faster.
          if (!isRace(error) && !isMissing(error)) throw error;
        }
      }
    }
    return removed;
  }, { targetKind: "table", url: tableUrl(table) });
}
