import type { CallOptions, PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { isLaterRow } from "../core/format-version.js";
import { linkSignals, RequestTimeoutError, throwIfAborted } from "../core/deadline.js";
import { read } from "../core/request.js";
import { isConflict, isNotFound, toNotFoundError } from "../core/storage-errors.js";
import { createError, OperationTimeoutError } from "../errors.js";
import { notModifiedFor, ServiceTime } from "../target/library-rows.js";
import { ownRowPages } from "../target/own-rows.js";
import { tableUrl } from "../target/stored-entity.js";

/** A row that matches the filter of a purge, as the SDK returned it. */
export interface FoundRow {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly etag: string;
}

/** Longer than the SDK's own retries, and than the scan of a large table takes until its first page. */
const tryTimeoutInMs = 60_000;

/**
 * Deletes the rows that match and were not written for `ageInMs`, by the clock of the service, each on the condition that it is unchanged
 * since it was found. `mayDelete` decides at the last moment. Each request is given up when the caller aborts, or after a minute, even if the client does not notice its signal.
 */
export async function purgeRows(
  call: string,
  table: TableLike,
  { filter, ageInMs }: { readonly filter: string; readonly ageInMs: number },
  { abortSignal, tracingOptions }: CallOptions,
  mayDelete: (row: FoundRow, serviceTime: number) => Promise<boolean>,
): Promise<PurgeResult> {
  const traced = tracingOptions && { tracingOptions };
  let deleted = 0;
  let kept = 0;
  const serviceTime = new ServiceTime();
  const { controller, unlink } = linkSignals(abortSignal);
  const limits = { abortSignal, timeoutInMs: tryTimeoutInMs };
  try {
    const { onResponse } = serviceTime;
    const queryOptions = { filter: `${filter} and ${notModifiedFor(ageInMs)}` };
    const pages = ownRowPages(table, { ...traced, abortSignal: controller.signal, onResponse, queryOptions });
    for (let page = await read(() => pages.next(), limits); !page.done; page = await read(() => pages.next(), limits)) {
      for (const row of page.value as readonly FoundRow[]) {
        throwIfAborted(abortSignal);
        if (!serviceTime.isOlder(row, ageInMs)) continue;
        if (isLaterRow(row) || !(await mayDelete(row, serviceTime.now))) {
          kept++;
          continue;
        }
        try {
          const { partitionKey, rowKey, etag } = row;
          await read((signal) => table.deleteEntity(partitionKey, rowKey, { ...traced, etag, abortSignal: signal }), limits);
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
  } catch (error) {
    controller.abort(error);
    const url = tableUrl(table);
    if (!(error instanceof RequestTimeoutError)) throw toNotFoundError(error, url, undefined) ?? error;
    const message = `${call} of ${url}: ${error.message}. ${deleted} rows were deleted before.`;
    throw createError(OperationTimeoutError, message, { url, elapsedInMs: error.timeoutInMs, committed: "unknown", cause: error });
  } finally {
    unlink();
  }
}
