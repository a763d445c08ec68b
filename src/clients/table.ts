import type { OperationTracingOptions } from "@azure/core-tracing";

/** Options of one table request, as the SDK accepts them. */
export interface TableCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

/** An entity as the table client accepts it. */
export interface TableEntityLike {
  partitionKey: string;
  rowKey: string;
  [property: string]: unknown;
}

/** A `TableClient`. */
export interface TableLike {
  readonly url: string;
  readonly tableName: string;
  getEntity(
    partitionKey: string,
    rowKey: string,
    options?: TableCallOptions & {
      disableTypeConversion?: boolean;
      onResponse?: (rawResponse: { bodyAsText?: string | null | undefined }) => void;
    },
  ): Promise<object>;
  createEntity(entity: TableEntityLike, options?: TableCallOptions): Promise<{ etag?: string | undefined }>;
  updateEntity(
    entity: TableEntityLike,
    mode?: "Merge" | "Replace",
    options?: TableCallOptions & { etag?: string },
  ): Promise<{ etag?: string | undefined }>;
  upsertEntity(
    entity: TableEntityLike,
    mode?: "Merge" | "Replace",
    options?: TableCallOptions,
  ): Promise<{ etag?: string | undefined }>;
  deleteEntity(partitionKey: string, rowKey: string, options?: TableCallOptions & { etag?: string }): Promise<unknown>;
}

/** One operation of an entity group transaction, as the SDK accepts it. */
export type TransactionActionLike =
  | ["create" | "delete", TableEntityLike]
  | ["update", TableEntityLike, "Merge" | "Replace", { etag: string }]
  | ["update" | "upsert", TableEntityLike, "Merge" | "Replace"];

/** The part of a `TableClient` that transactions need. */
export interface TransactionTableLike extends TableLike {
  listEntities(
    options?: TableCallOptions & {
      disableTypeConversion?: boolean;
      queryOptions?: { filter?: string };
      onResponse?: (rawResponse: { bodyAsText?: string | null | undefined }) => void;
    },
  ): { byPage(settings?: { maxPageSize?: number }): AsyncIterable<readonly object[]> };
  submitTransaction(
    actions: never[],
    options?: TableCallOptions,
  ): Promise<{ subResponses: readonly { status: number; etag?: string | undefined }[] }>;
}

/** One operation of an entity group transaction, as `submitTransaction()` accepts it. */
export type InboxTableAction =
  | ["create" | "delete", TableEntityLike]
  | ["update" | "upsert", TableEntityLike]
  | ["update" | "upsert", TableEntityLike, "Merge" | "Replace"]
  | ["update" | "upsert", TableEntityLike, "Merge" | "Replace", { etag?: string }];

/** The part of a `TableClient` that an inbox needs. */
export interface InboxTableLike {
  readonly url: string;
  createTable(options?: TableCallOptions): Promise<void>;
  getEntity(partitionKey: string, rowKey: string, options?: TableCallOptions): Promise<object>;
  deleteEntity(partitionKey: string, rowKey: string, options?: TableCallOptions & { etag?: string }): Promise<unknown>;
  submitTransaction(
    actions: InboxTableAction[],
    options?: TableCallOptions,
  ): Promise<{ subResponses: readonly { etag?: string | undefined }[] }>;
  listEntities(
    options?: TableCallOptions & { queryOptions?: { filter?: string; select?: string[] } },
  ): { byPage(settings?: { maxPageSize?: number }): AsyncIterable<readonly object[]> };
}
