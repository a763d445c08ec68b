import type { AdapterRequest } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";

/** Options of {@link ClaimInbox} and {@link CommitInbox}. */
export interface InboxOptions {
  /** Creates the table when a consumer starts, if it does not exist. @defaultValue false: most services may not create tables */
  createTable?: boolean | undefined;
}

/** @throws `TypeError` if it is not a client. */
export function checkTable(call: string, table: TableLike): TableLike {
  if (typeof (table as Partial<TableLike> | null | undefined)?.submitTransaction !== "function") throw new TypeError(`${call} needs a TableClient`);
  return table;
}

export async function prepareTable(table: TableLike, createTable: boolean, request: AdapterRequest): Promise<void> {
  if (createTable) await table.createTable(request);
}
