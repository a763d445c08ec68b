import type { TransactionActionLike, TableLike, TableCallOptions, TableEntityLike } from "../../../src/clients/table.js";
import { notFaked } from "../../support/not-faked.js";
import { Faults, storageError } from "./faults.js";

type Row = TableEntityLike & { etag: string; timestamp: string };

/** A table in memory, on the (fake) clock of the test. */
export class FakeTable implements TableLike {
  /** Of the account, as that of a `TableClient`. */
  readonly url = "https://account.table.example";
  readonly tableName = "inbox";
  readonly createEntity = notFaked;
  readonly updateEntity = notFaked;
  readonly upsertEntity = notFaked;
  readonly faults = new Faults();
  /** Whether a failed transaction says which operation it was; the service does not always. */
  namesCulprit = true;
  /** Whether a transaction answers with ETags. */
  tellsETags = true;
  exists = true;
  /** The header `date` of the responses to reads: the clock of the service. */
  dateInResponses: Date | undefined;
  rows = new Map<string, Row>();
  #etags = 0;

  createTable(options: TableCallOptions = {}): Promise<void> {
    return this.faults.request("createTable", options.abortSignal, () => undefined);
  }

  getEntity(partitionKey: string, rowKey: string, options: Parameters<TableLike["getEntity"]>[2] = {}): Promise<object> {
    return this.faults.request("get", options.abortSignal, () => {
      options.onResponse?.({ headers: { get: (name) => (name === "date" ? this.dateInResponses?.toUTCString() : undefined) } });
      if (!this.exists) throw storageError(404, "TableNotFound");
      const row = this.rows.get(id(partitionKey, rowKey));
      if (!row) throw storageError(404, "ResourceNotFound");
      return { ...row };
    });
  }

  deleteEntity(partitionKey: string, rowKey: string, options: TableCallOptions & { etag?: string } = {}): Promise<unknown> {
    return this.faults.request("delete", options.abortSignal, () => {
      const row = this.rows.get(id(partitionKey, rowKey));
      if (!row) throw storageError(404, "ResourceNotFound");
      if (options.etag && options.etag !== row.etag) throw storageError(412, "UpdateConditionNotSatisfied");
      this.rows.delete(id(partitionKey, rowKey));
    });
  }

  submitTransaction(sent: never[], options: TableCallOptions = {}): ReturnType<TableLike["submitTransaction"]> {
    const actions = sent as readonly TransactionActionLike[];
    return this.faults.request("transaction", options.abortSignal, () => {
      if (actions.length > 100) throw storageError(400, "InvalidInput");
      const rows = new Map(this.rows);
      const subResponses = actions.map((action, index) => {
        try {
          const etag = this.#apply(rows, action);
          return this.tellsETags && etag ? { status: 204, etag } : { status: 204 };
        } catch (error) {
          if (this.namesCulprit) (error as Error).message = `${index}:${(error as Error).message}`;
          throw error;
        }
      });
      this.rows = rows;
      return { subResponses };
    });
  }

  /** A table that a consumer with one shard has used before: the number is recorded. */
  static used(): FakeTable {
    const table = new FakeTable();
    const key = { partitionKey: "~asc~inbox", rowKey: "~asc~shards" };
    table.rows.set(id(key.partitionKey, key.rowKey), { ...key, shards: 1, etag: 'W/"0"', timestamp: new Date().toISOString() });
    return table;
  }

  listEntities(options: TableCallOptions & { queryOptions?: { filter?: string } } = {}): { byPage(): AsyncIterable<object[]> } {
    const before = /Timestamp lt datetime'([^']+)'/.exec(options.queryOptions?.filter ?? "")?.[1] ?? "";
    const partition = /PartitionKey eq '([^']+)'/.exec(options.queryOptions?.filter ?? "")?.[1];
    const [, from = "", to = ""] = /RowKey ge '([^']+)' and RowKey lt '([^']+)'/.exec(options.queryOptions?.filter ?? "") ?? [];
    const found = [...this.rows.values()].filter(
      (row) => row.rowKey >= from && row.rowKey < to && row.timestamp < before && (partition === undefined || row.partitionKey === partition),
    );
    async function* pages(): AsyncGenerator<object[]> {
      for (let i = 0; i < found.length; i += 1_000) yield found.slice(i, i + 1_000);
    }
    return { byPage: pages };
  }

  /** The records of an inbox, without what tables add. */
  get records(): Record<string, unknown>[] {
    return [...this.rows.values()].filter((row) => row.rowKey.startsWith("~asc~inbox!"));
  }

  #apply(rows: Map<string, Row>, [kind, entity, mode, condition]: TransactionActionLike): string | undefined {
    const key = id(entity.partitionKey, entity.rowKey);
    const found = rows.get(key);
    const etag = `W/"${++this.#etags}"`;
    const written = { ...entity, etag, timestamp: new Date().toISOString() };
    switch (kind) {
      case "create":
        if (found) throw storageError(409, "EntityAlreadyExists");
        rows.set(key, written);
        return etag;
      case "update":
        if (!found) throw storageError(404, "ResourceNotFound");
        if (condition?.etag && condition.etag !== "*" && condition.etag !== found.etag) throw storageError(412, "UpdateConditionNotSatisfied");
        rows.set(key, mode === "Replace" ? written : { ...found, ...written });
        return etag;
      case "upsert":
        rows.set(key, { ...found, ...written });
        return etag;
      case "delete":
        if (!found) throw storageError(404, "ResourceNotFound");
        rows.delete(key);
        return undefined;
    }
  }
}

function id(partitionKey: string, rowKey: string): string {
  return `${partitionKey}\n${rowKey}`;
}
