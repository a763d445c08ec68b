import type { CallOptions, PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { throwIfAborted } from "../core/deadline.js";
import { iterate } from "../core/iterate.js";
import { read } from "../core/request.js";
import { isConflict, isNotFound } from "../core/storage-errors.js";

/** A row that matches the filter of a purge, as the SDK returned it. */
export interface FoundRow {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly etag: string;
}

/**
 * Deletes the rows that match, each on the condition that it is unchanged since it was found. `mayDelete` decides at the last
 * moment. Each request is given up when the caller aborts, even if the client does not notice its signal.
 */
export async function purgeRows(
  table: TableLike,
  filter: string,
  { abortSignal, tracingOptions }: CallOptions,
  mayDelete: (row: FoundRow) => Promise<boolean>,
): Promise<PurgeResult> {
  const traced = tracingOptions && { tracingOptions };
  let deleted = 0;
  let kept = 0;
  for await (const page of iterate((signal) => table.listEntities({ ...traced, abortSignal: signal, queryOptions: { filter } }).byPage(), abortSignal)) {
    for (const row of page as readonly FoundRow[]) {
      throwIfAborted(abortSignal);
      if (!(await mayDelete(row))) {
        kept++;
        continue;
      }
      try {
        const { partitionKey, rowKey, etag } = row;
        await read((signal) => table.deleteEntity(partitionKey, rowKey, { ...traced, etag, abortSignal: signal }), { abortSignal });
        deleted++;
      } catch (error) {
        // Another client has deleted it first: it was neither deleted nor kept by this call.
        if (isNotFound(error)) continue;
        // Another client has written it since it was found.
        if (!isConflict(error)) throw error;
        kept++;
      }
    }
  }
  return { deleted, kept };
}
