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
  listEntities(
    options?: TableCallOptions & {
      disableTypeConversion?: boolean;
      queryOptions?: { filter?: string; select?: string[] };
      onResponse?: (rawResponse: { bodyAsText?: string | null | undefined }) => void;
    },
  ): { byPage(settings?: { maxPageSize?: number }): AsyncIterable<readonly object[]> };
  /** The SDK's own type of the actions would exclude clients of other versions. */
  submitTransaction(
    actions: never[],
    options?: TableCallOptions,
  ): Promise<{ subResponses: readonly { status: number; etag?: string | undefined }[] }>;
  createTable(options?: TableCallOptions): Promise<void>;
}

/** One operation of an entity group transaction, as `submitTransaction()` accepts it. */
export type TransactionActionLike =
  | ["create" | "delete", TableEntityLike]
  | ["update" | "upsert", TableEntityLike, ("Merge" | "Replace")?, { etag?: string }?];
