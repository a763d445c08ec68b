import type { TableCallOptions, TableLike, TableResponseLike } from "../clients/table.js";
import { isLaterRow, laterFormatError } from "../core/format-version.js";
import { separateCollisions, tableUrl } from "./stored-entity.js";

/**
 * The service accepts properties that are called `partitionKey`, `rowKey`, `etag` and `timestamp`, and the SDK returns them in place of the
 * keys, the ETag and the time of the service. A party that may add a row could name any other row in it, and a purge would delete that one;
 * or an ETag that matches every version. So the library reads its rows with these functions only: what they return of these four is what the
 * service says.
 */

type ReadOptions = TableCallOptions & { readonly onResponse?: (response: TableResponseLike) => void };

interface ListOptions extends ReadOptions {
  readonly queryOptions: { filter: string; select?: string[] };
}

/**
 * Reads a row of the library. Rejects as the client does.
 * @throws {@link SchemaError} if a later version of the library has written it.
 */
export async function getOwnRow(table: TableLike, partitionKey: string, rowKey: string, { onResponse, ...options }: ReadOptions = {}): Promise<object> {
  let bodyText: string | undefined;
  const entity = await table.getEntity(partitionKey, rowKey, {
    ...options,
    onResponse: (response) => {
      bodyText = response.bodyAsText ?? undefined;
      onResponse?.(response);
    },
  });
  const row = separateCollisions([entity], bodyText)[0] ?? entity;
  if (isLaterRow(row)) throw laterFormatError(`The row ${JSON.stringify(rowKey)}`, tableUrl(table));
  return row;
}

/** The pages of rows of the library. Those of a later version are among them: see {@link isLaterRow}. */
export async function* ownRowPages(table: TableLike, { onResponse, ...options }: ListOptions, maxPageSize?: number): AsyncGenerator<readonly object[], undefined, undefined> {
  let bodyText: string | undefined;
  const query = {
    ...options,
    onResponse: (response: TableResponseLike): void => {
      bodyText = response.bodyAsText ?? undefined;
      onResponse?.(response);
    },
  };
  for await (const page of table.listEntities(query).byPage(maxPageSize === undefined ? {} : { maxPageSize })) yield separateCollisions(page, bodyText);
  return undefined;
}
