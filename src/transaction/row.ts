import type { TableCallOptions, TransactionTableLike } from "../clients/table.js";
import { isNotFound } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import type { EdmValue } from "../target/edm.js";
import { defaultJournalName, parseJournal } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { isTombstone, storedFromResponse, storedFromPage, tableUrl } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";

/** One row as it is stored, or the fact that there is none. */
export interface Row {
  /** Undefined: there is no such row at all. */
  readonly etag: string | undefined;
  /** Undefined: for all who use transactions, the entity does not exist. There may be a tombstone. */
  readonly stored: StoredEntity | undefined;
  readonly journal: Journal | undefined;
  /** As it was read: a Replace has to repeat it. */
  readonly journalValue: EdmValue | undefined;
}

export const noRow: Row = { etag: undefined, stored: undefined, journal: undefined, journalValue: undefined };

/** Rows that the library keeps for itself begin with this. */
export const ownRowPrefix = "~asc~";

/** The row that every write changes if queries are guarded, so that whoever queried notices. */
export const queriesRowKey: string = `${ownRowPrefix}queries`;

export function isOwnRow(rowKey: string): boolean {
  return rowKey.startsWith(ownRowPrefix);
}

/** Options of reading rows. */
export interface RowOptions extends TableCallOptions {
  /** Called for each request that is made. */
  onRequest?: (() => void) | undefined;
}

/** Reads one row. Costs 1 request. */
export async function readRow(
  table: TransactionTableLike,
  partitionKey: string,
  rowKey: string,
  { onRequest, ...options }: RowOptions,
): Promise<Row> {
  onRequest?.();
  let bodyText: string | undefined;
  try {
    const entity = await table.getEntity(partitionKey, rowKey, {
      ...options,
      disableTypeConversion: true,
      onResponse: (raw) => (bodyText = raw.bodyAsText ?? undefined),
    });
    return rowFrom(entity, storedFromResponse(entity, bodyText), table);
  } catch (error) {
    if (isNotFound(error)) return noRow;
    throw error;
  }
}

/** Reads all rows that match. Costs 1 request for each 1,000. */
export async function* queryRows(
  table: TransactionTableLike,
  filter: string,
  { onRequest, ...options }: RowOptions,
): AsyncGenerator<[rowKey: string, row: Row]> {
  let bodyText: string | undefined;
  const pages = table
    .listEntities({
      ...options,
      disableTypeConversion: true,
      queryOptions: { filter },
      onResponse: (raw) => (bodyText = raw.bodyAsText ?? undefined),
    })
    .byPage();
  onRequest?.();
  let first = true;
  for await (const page of pages) {
    if (!first) onRequest?.();
    first = false;
    const stored = storedFromPage(page, bodyText);
    for (const [index, entity] of page.entries()) {
      const { rowKey } = entity as { rowKey?: unknown };
      yield [String(rowKey), rowFrom(entity, stored[index] ?? new Map(), table)];
    }
  }
}

function rowFrom(entity: object, all: StoredEntity, table: TransactionTableLike): Row {
  const journalValue = all.get(defaultJournalName);
  const stored = new Map(all);
  stored.delete(defaultJournalName);
  return {
    etag: requireETag((entity as { etag?: string }).etag, tableUrl(table)),
    stored: isTombstone(stored) ? undefined : stored,
    journal: parseJournal(journalValue?.value),
    journalValue,
  };
}

/** A string in a filter. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
