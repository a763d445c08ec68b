import type { TableClient, TableEntity } from "@azure/data-tables";

import type { Row } from "../row.js";

/** Options that the table SDK passes on; `etag` where an operation knows it, and where it does not. */
export interface TableOptions {
  readonly etag?: string;
  readonly onResponse: (response: unknown) => void;
}

export interface TableRow extends Row {
  readonly returnsETag: boolean;
  /** `required` by the service: without it, or with `*`, nothing is checked. */
  readonly ifMatch: "required" | "none";
  /** What the SDK sends if no ETag is given. */
  readonly sentByDefault?: "*";
  /** What the service responses to a request without the header, if it is not there. */
  readonly withoutHeader?: string;
  /** How the bare request looks, to leave the header out. */
  readonly method?: "PUT" | "PATCH" | "DELETE";
  readonly given?: "missing";
  /** What is left: the values of `a` and `b`, of an entity with a = 1, b = 1, or nothing. */
  readonly leaves: { readonly a?: number; readonly b?: number } | undefined;
  readonly call: (table: TableClient, key: Key, options: TableOptions) => Promise<unknown>;
}

export interface Key {
  readonly partitionKey: string;
  readonly rowKey: string;
}

const change = (key: Key): TableEntity => ({ ...key, a: 2 });

/** Table operations: who returns an ETag, and who requires If-Match. */
export const tableRows: readonly TableRow[] = [
  {
    operation: "Query Entities: one",
    returnsETag: true,
    ifMatch: "none",
    leaves: { a: 1, b: 1 },
    helper: "`readTarget(tableEntity)`, `Transaction.get`",
    call: (table, { partitionKey, rowKey }, options) => table.getEntity(partitionKey, rowKey, options),
  },
  {
    operation: "Query Entities: many",
    returnsETag: false,
    ifMatch: "none",
    leaves: { a: 1, b: 1 },
    note: "the response has no ETag of its own; each entity in it has one",
    helper: "`Transaction.query`",
    call: async (table, _key, options) => table.listEntities(options).byPage().next(),
  },
  {
    operation: "Insert Entity",
    returnsETag: true,
    ifMatch: "none",
    given: "missing",
    leaves: { a: 2 },
    note: "409 EntityAlreadyExists is the check",
    helper: "`createIfNotExists(tableEntity)`, `Transaction.create`",
    call: (table, key, options) => table.createEntity(change(key), options),
  },
  {
    operation: "Update Entity",
    returnsETag: true,
    ifMatch: "required",
    sentByDefault: "*",
    method: "PUT",
    withoutHeader: "204",
    leaves: { a: 2 },
    note: "without If-Match it is Insert or Replace",
    helper: "`optimisticUpdate(tableEntity)`, `runTransaction`",
    call: (table, key, options) => table.updateEntity(change(key), "Replace", options),
  },
  {
    operation: "Merge Entity",
    returnsETag: true,
    ifMatch: "required",
    sentByDefault: "*",
    method: "PATCH",
    withoutHeader: "204",
    leaves: { a: 2, b: 1 },
    note: "without If-Match it is Insert or Merge",
    helper: "`optimisticUpdate(tableEntity)`, `runTransaction`",
    call: (table, key, options) => table.updateEntity(change(key), "Merge", options),
  },
  {
    operation: "Delete Entity",
    source: "documented; measured on Azurite: without the header",
    returnsETag: false,
    ifMatch: "required",
    sentByDefault: "*",
    method: "DELETE",
    withoutHeader: "400",
    leaves: undefined,
    note: "the SDK drops the ETag of a delete in `submitTransaction`",
    helper: "`deleteIfUnchanged(tableEntity)`, `runTransaction`",
    call: (table, { partitionKey, rowKey }, options) => table.deleteEntity(partitionKey, rowKey, options),
  },
  {
    operation: "Insert or Replace Entity",
    returnsETag: true,
    ifMatch: "none",
    leaves: { a: 2 },
    note: "checks nothing",
    helper: "`overwrite(tableEntity)`",
    call: (table, key, options) => table.upsertEntity(change(key), "Replace", options),
  },
  {
    operation: "Insert or Merge Entity",
    returnsETag: true,
    ifMatch: "none",
    leaves: { a: 2, b: 1 },
    note: "checks nothing",
    call: (table, key, options) => table.upsertEntity(change(key), "Merge", options),
  },
];
