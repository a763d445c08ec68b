import type { TableLike } from "../clients/table.js";
import { linkSignals } from "../core/deadline.js";
import { quoted, withinFilter } from "../target/library-rows.js";
import type { RowRange } from "./overlay.js";
import { collectRows, noRow, readRow } from "./row.js";
import type { Row, RowOptions } from "./row.js";

/** The service accepts at most 15 comparisons in a filter; one is for the partition. */
const rowsPerQuery = 14;

/** The filter is part of the URL. Servers and proxies on the way reject URLs beyond 8 to 16 KiB. */
const maxEncodedFilter = 6_000;

/** More requests than this at a time would take the connections of other calls. */
const maxParallelQueries = 8;

/** Reads rows by their keys. Costs 1 request for a single row, 1 for each 14 of several; more if their keys are long. */
export async function readRows(table: TableLike, partitionKey: string, rowKeys: readonly string[], options: RowOptions): Promise<Map<string, Row>> {
  const found = new Map<string, Row>();
  const chunks = chunksOf([...new Set(rowKeys)], encodedLength(partitionFilter(partitionKey)));
  await inParallel(chunks, options, (chunk, requestOptions) => readChunk(table, partitionKey, chunk, requestOptions, found));
  return found;
}

/** Sends several requests, not all at once. If one of them fails, the others are cut off. */
export async function inParallel<I>(items: readonly I[], options: RowOptions, send: (item: I, options: RowOptions) => Promise<void>): Promise<void> {
  if (items.length < 2) {
    for (const item of items) await send(item, options);
    return;
  }
  const { controller, unlink } = linkSignals(options.abortSignal);
  const left = items.values();
  const work = async (): Promise<void> => {
    // All workers take their items from the same iterator.
    for (const item of left) await send(item, { ...options, abortSignal: controller.signal });
  };
  try {
    await Promise.all(Array.from({ length: Math.min(items.length, maxParallelQueries) }, work));
  } catch (error) {
    controller.abort(error);
    throw error;
  } finally {
    unlink();
  }
}

async function readChunk(table: TableLike, partitionKey: string, chunk: readonly string[], options: RowOptions, found: Map<string, Row>): Promise<void> {
  const [first, ...others] = chunk;
  if (first !== undefined && others.length === 0) {
    found.set(first, await readRow(table, partitionKey, first, options));
    return;
  }
  for (const rowKey of chunk) found.set(rowKey, noRow);
  const filter = `${partitionFilter(partitionKey)} and (${chunk.map(rowFilter).join(" or ")})`;
  for (const [rowKey, row] of await collectRows(table, filter, options)) found.set(rowKey, row);
}

/** Reads all rows of a range that match a filter. Costs 1 request for each 1,000. */
export function queryRange(
  table: TableLike,
  partitionKey: string,
  range: RowRange,
  filter: string | undefined,
  options: RowOptions,
): Promise<Map<string, Row>> {
  const conditions = [
    ...(range.from === undefined ? [] : [`RowKey ge ${quoted(range.from)}`]),
    ...(range.to === undefined ? [] : [`RowKey le ${quoted(range.to)}`]),
    ...(filter === undefined ? [] : [withinFilter("query", filter)]),
  ].join(" and ");
  return collectRows(table, `${partitionFilter(partitionKey)}${conditions && ` and (${conditions})`}`, options);
}

function partitionFilter(partitionKey: string): string {
  return `PartitionKey eq ${quoted(partitionKey)}`;
}

function rowFilter(rowKey: string): string {
  return `RowKey eq ${quoted(rowKey)}`;
}

function chunksOf(rowKeys: readonly string[], baseLength: number): string[][] {
  const chunks: string[][] = [];
  let length = 0;
  for (const rowKey of rowKeys) {
    const added = encodedLength(`${rowFilter(rowKey)} or `);
    const chunk = chunks.at(-1);
    if (chunk && chunk.length < rowsPerQuery && length + added <= maxEncodedFilter) {
      chunk.push(rowKey);
      length += added;
    } else {
      chunks.push([rowKey]);
      length = baseLength + added;
    }
  }
  return chunks;
}

function encodedLength(text: string): number {
  // A lone surrogate has no encoding: it is sent as the replacement character.
  return encodeURIComponent(text.replace(/\p{Surrogate}/gu, "\uFFFD")).length;
}
