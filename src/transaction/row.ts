import type { TableCallOptions, TableLike, TableResponseLike } from "../clients/table.js";
import { readWithTries } from "../core/request.js";
import type { TryLimit } from "../core/request.js";
import { isNotFound } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import type { EdmValue } from "../target/edm.js";
import { defaultJournalName, parseJournal } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { ownRowPrefix } from "../target/library-rows.js";
import { entityIn, separateCollisions, storedFromPage, storedFromResponse, tableUrl } from "../target/stored-entity.js";
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

/** With phantom detection, every write changes this row, so that it conflicts with transactions that queried. */
export const queriesRowKey: string = `${ownRowPrefix}queries`;

/** Its journal has the operation ids of the callers that gave one: all of them find it there, whichever rows they write. */
export const operationsRowKey: string = `${ownRowPrefix}operations`;

/** Options for reading rows. */
export interface RowOptions extends TableCallOptions {
  /** Called for each request that is sent. */
  onRequest?: (() => void) | undefined;
  /** The time for one try. @defaultValue none */
  tryLimit?: TryLimit | undefined;
  /** Called with each response of a query: it has the time of the service. */
  onResponse?: ((response: TableResponseLike) => void) | undefined;
}

/** Reads in as many tries as it takes, if the options limit them. */
function readLimited<R>(send: (options: Omit<RowOptions, "tryLimit">) => Promise<R>, { tryLimit, ...options }: RowOptions): Promise<R> {
  const { abortSignal } = options;
  return tryLimit && abortSignal ? readWithTries((signal) => send({ ...options, abortSignal: signal }), { tryLimit, abortSignal }) : send(options);
}

/** Reads one row. Costs 1 request. */
export function readRow(table: TableLike, partitionKey: string, rowKey: string, options: RowOptions): Promise<Row> {
  return readLimited(async ({ onRequest, ...request }) => {
    onRequest?.();
    let bodyText: string | undefined;
    try {
      const response = await table.getEntity(partitionKey, rowKey, {
        ...request,
        disableTypeConversion: true,
        onResponse: (raw) => (bodyText = raw.bodyAsText ?? undefined),
      });
      const [entity = response] = separateCollisions([response], bodyText);
      return rowFrom(entity, storedFromResponse(entity, bodyText), table);
    } catch (error) {
      if (isNotFound(error)) return noRow;
      throw error;
    }
  }, options);
}

/** Reads all rows that match. Costs 1 request for each 1,000. */
export function collectRows(table: TableLike, filter: string, options: RowOptions): Promise<Map<string, Row>> {
  return readLimited(async (request) => {
    const found = new Map<string, Row>();
    for await (const [rowKey, row] of queryRows(table, filter, request)) found.set(rowKey, row);
    return found;
  }, options);
}

/** The same, one row after the other. Without a filter: all rows of the table. */
export async function* queryRows(
  table: TableLike,
  filter: string | undefined,
  { onRequest, onResponse, ...options }: Omit<RowOptions, "tryLimit">,
): AsyncGenerator<[rowKey: string, row: Row, partitionKey: string]> {
  let bodyText: string | undefined;
  const pages = table
    .listEntities({
      ...options,
      disableTypeConversion: true,
      ...(filter !== undefined && filter !== "" && { queryOptions: { filter } }),
      onResponse: (raw) => {
        bodyText = raw.bodyAsText ?? undefined;
        onResponse?.(raw);
      },
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
      const { partitionKey, rowKey } = entity as { partitionKey?: unknown; rowKey?: unknown };
      yield [String(rowKey), rowFrom(entity, stored[index] ?? new Map(), table), String(partitionKey)];
    }
  }
}

function rowFrom(entity: object, all: StoredEntity, table: TableLike): Row {
  const journalValue = all.get(defaultJournalName);
  const stored = new Map(all);
  stored.delete(defaultJournalName);
  return {
    etag: requireETag((entity as { etag?: string }).etag, tableUrl(table)),
    stored: entityIn(stored),
    journal: parseJournal(journalValue?.value),
    journalValue,
  };
}
