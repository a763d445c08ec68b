import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { iterate } from "../core/iterate.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isOwnRow } from "../target/library-rows.js";
import { entityValue } from "../target/stored-entity.js";
import type { Entity } from "../target/table-entity.js";
import { requireClient } from "../target/target.js";
import { queryRows } from "./row.js";
import type { Row } from "./row.js";

/** Options of {@link listEntities}. */
export interface ListEntitiesOptions extends CallOptions {
  /** An OData filter that the service applies. @defaultValue none: all entities of the table, which is a scan */
  filter?: string | undefined;
}

export const listEntitiesOptionNames: OptionNames<ListEntitiesOptions> = { filter: 1, abortSignal: 1, tracingOptions: 1 };

/**
 * The entities of a table that match an OData filter, without the rows and properties that the library adds to it. Costs 1 request
 * for each 1,000 rows.
 *
 * @example
 * ```ts
 * for await (const order of listEntities<{ total: number }>(table, { filter: "PartitionKey eq 'eu'" })) console.log(order.rowKey, order.total);
 * ```
 * @throws `TypeError` if `table` is not a table client, or an option is unknown.
 */
export function listEntities<T extends object = Record<string, unknown>>(table: TableLike, options: ListEntitiesOptions = {}): AsyncIterableIterator<Entity<T>> {
  requireClient("listEntities", table, "a TableClient", ["listEntities"]);
  checkOptions("listEntities", options, listEntitiesOptionNames);
  return entitiesOf(table, options);
}

/** The library's rows are left out here, not by a filter: the comparisons in a filter are limited, and they are the caller's. */
export async function* entitiesOf<T extends object>(
  table: TableLike,
  { filter, abortSignal, tracingOptions }: ListEntitiesOptions,
  onRow?: (rowKey: string, row: Row) => void,
): AsyncGenerator<Entity<T>, undefined> {
  const request = tracingOptions ? { tracingOptions } : {};
  for await (const [rowKey, row, partitionKey] of iterate((signal) => queryRows(table, filter, { ...request, abortSignal: signal }), { abortSignal })) {
    if (!row.stored || isOwnRow(rowKey)) continue;
    onRow?.(rowKey, row);
    yield entityValue(row.stored, partitionKey, rowKey) as Entity<T>;
  }
  return undefined;
}
