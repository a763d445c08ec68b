import type { TableCallOptions, TableLike } from "../clients/table.js";
import { isNotFound } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import type { EdmValue } from "../target/edm.js";
import { defaultJournalName, parseJournal } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { isTombstone, separateCollisions, storedFromPage, storedFromResponse, tableUrl } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";

/** One row as it is stored, or a row that does not exist. */
export interface Row {
  /** Undefined: the row does not exist. */
  readonly etag: string | undefined;
  /** Undefined: to transactions the entity does not exist. The row may be a tombstone. */
  readonly stored: StoredEntity | undefined;
  readonly journal: Journal | undefined;
  /** The journal as it was read: a Replace has to send it again. */
  readonly journalValue: EdmValue | undefined;
}

export const noRow: Row = { etag: undefined, stored: undefined, journal: undefined, journalValue: undefined };

/** The row keys of the library's own rows begin with this. */
export const ownRowPrefix = "~asc~";

/** With phantom detection, every write changes this row, so that it conflicts with transactions that queried. */
export const queriesRowKey: string = `${ownRowPrefix}queries`;

export function isOwnRow(rowKey: string): boolean {
  return rowKey.startsWith(ownRowPrefix);
}

/** Options for reading rows. */
export interface RowOptions extends TableCallOptions {
  /** Called for each request that is sent. */
  onRequest?: (() => void) | undefined;
}

/** Reads one row. Costs 1 request. */
export async function readRow(
  table: TableLike,
  partitionKey: string,
  rowKey: string,
  { onRequest, ...options }: RowOptions,
): Promise<Row> {
  onRequest?.();
  let bodyText: string | undefined;
  try {
    const response = await table.getEntity(partitionKey, rowKey, {
      ...options,
      disableTypeConversion: true,
      onResponse: (raw) => (bodyText = raw.bodyAsText ?? undefined),
    });
    const [entity = response] = separateCollisions([response], bodyText);
    return rowFrom(entity, storedFromResponse(entity, bodyText), table);
  } catch (error) {
    if (isNotFound(error)) return noRow;
    throw error;
  }
}

/** Reads all rows that match. Costs 1 request for each 1,000. */
export async function* queryRows(
  table: TableLike,
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
    const entities = separateCollisions(page, bodyText);
    const stored = storedFromPage(entities, bodyText);
    for (const [index, entity] of entities.entries()) {
      const { rowKey } = entity as { rowKey?: unknown };
      yield [String(rowKey), rowFrom(entity, stored[index] ?? new Map(), table)];
    }
  }
}

function rowFrom(entity: object, all: StoredEntity, table: TableLike): Row {
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

/** A string literal of a filter. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
