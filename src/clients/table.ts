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

/** A response of the table service, as the SDK passes it to `onResponse`. */
export interface TableResponseLike {
  readonly bodyAsText?: string | null | undefined;
  readonly headers?: { get(name: string): string | null | undefined } | undefined;
}

/**
 * A `TableClient`, for `tableEntity`, `runTransaction` and inboxes.
 * @example
 * ```ts
 * const table: TableLike = TableClient.fromConnectionString(connectionString, "orders");
 * const { value } = await readTarget(tableEntity<Order>(table, "eu", "42"));
 * ```
 */
export interface TableLike {
  readonly url: string;
  readonly tableName: string;
  getEntity(
    partitionKey: string,
    rowKey: string,
    options?: TableCallOptions & {
      disableTypeConversion?: boolean;
      onResponse?: (rawResponse: TableResponseLike) => void;
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
      onResponse?: (rawResponse: TableResponseLike) => void;
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

/**
 * An entity to be written: its properties and its row key. The partition key is that of the call, and may be left out.
 * @example
 * ```ts
 * const entity: EntityInput<{ total: number }> = { rowKey: "order-17", total: 3 };
 * ```
 */
export type EntityInput<T extends object = Record<string, unknown>> = T & { readonly rowKey: string; readonly partitionKey?: string };

/**
 * A change of an entity: any subset of its properties, and its row key.
 * @example
 * ```ts
 * const patch: EntityPatch<{ total: number; state: string }> = { rowKey: "order-17", state: "paid" };
 * ```
 */
export type EntityPatch<T extends object = Record<string, unknown>> = Partial<T> & { readonly rowKey: string; readonly partitionKey?: string };

/**
 * One write of a transaction. Accepts the `TransactionAction` of the SDK. All actions are of one partition: an entity may leave
 * out its partition key, and a different one is a `RangeError`.
 * @example
 * ```ts
 * const actions: TableAction[] = [
 *   ["create", { rowKey: "order-17", total: 3 }],
 *   ["update", { rowKey: "stock", count: 4 }, "Merge", { etag }],
 * ];
 * ```
 */
export type TableAction<T extends object = Record<string, unknown>> =
  | readonly ["create" | "delete", EntityInput<T>]
  | readonly ["update" | "upsert", EntityInput<T>, ("Merge" | "Replace")?, ({ readonly etag?: string | undefined } | undefined)?];
