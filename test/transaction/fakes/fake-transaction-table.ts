import type { TableCallOptions, TransactionActionLike } from "../../../src/clients.js";
import type { TableLike } from "../../../src/index.js";
import { converted, FakeTable, fromSdk, sdkEntity, wireText } from "../../fakes/fake-table.js";
import type { StoredRow } from "../../fakes/fake-table.js";
import { matchesFilter } from "./odata-filter.js";
import { FakeRestError, tableError } from "../../fakes/rest-errors.js";


/** A table in memory that takes queries and entity group transactions, too. */
export class FakeTransactionTable extends FakeTable implements TableLike {
  /** The actions of every transaction that was sent, as the SDK would send them. */
  readonly submitted: (readonly TransactionActionLike[])[] = [];
  pageSize = 1_000;

  override submitTransaction(actions: never[], options: TableCallOptions = {}): ReturnType<TableLike["submitTransaction"]> {
    const sent = actions as readonly TransactionActionLike[];
    this.submitted.push(sent);
    const call = { operation: "submitTransaction", kind: "write" as const, resource: this.tableName };
    return this.service.request(call, options.abortSignal, batchError, () => {
      this.#checkShape(sent);
      for (const [index, action] of sent.entries()) this.#checkOne(action, index);
      return { subResponses: sent.map((action) => this.#apply(action)) };
    });
  }

  override listEntities(options: NonNullable<Parameters<TableLike["listEntities"]>[0]> = {}): ReturnType<TableLike["listEntities"]> {
    return { byPage: () => this.#pages(options) };
  }

  /** The keys of a partition's rows, whatever they are. */
  rowKeys(partitionKey = "p"): string[] {
    return this.#rows().flatMap(([pk, rowKey]) => (pk === partitionKey ? [rowKey] : []));
  }

  async *#pages(options: NonNullable<Parameters<TableLike["listEntities"]>[0]>): AsyncGenerator<readonly object[]> {
    for (let start = 0; ; start += this.pageSize) {
      const call = { operation: "listEntities", kind: "read" as const, resource: this.tableName };
      const { page, more } = await this.service.request(call, options.abortSignal, tableError, () => {
        const found = this.#rows().filter(([pk, rk, row]) => matchesFilter(options.queryOptions?.filter ?? "RowKey ge ''", (name) => valueOf(name, pk, rk, row)));
        return { page: found.slice(start, start + this.pageSize), more: found.length > start + this.pageSize };
      });
      const texts = page.map(([pk, rk, row]) => wireText(pk, rk, row));
      options.onResponse?.({ bodyAsText: `{"value":[${texts.join(",")}]}`, headers: { get: (name) => (name === "date" ? this.service.date() : undefined) } });
      yield texts.map((text) => (options.disableTypeConversion ? sdkEntity : converted)(JSON.parse(text) as Record<string, unknown>));
      if (!more) return;
    }
  }

  #rows(): [partitionKey: string, rowKey: string, row: StoredRow][] {
    return [...this.service.resources]
      .map(([key, row]) => [...(JSON.parse(key) as [string, string, string]), row as StoredRow] as const)
      .filter(([table]) => table === this.tableName)
      .map(([, pk, rk, row]): [string, string, StoredRow] => [pk, rk, row])
      .sort(([a, b], [c, d]) => (a === c ? (b < d ? -1 : 1) : a < c ? -1 : 1));
  }

  #checkShape(actions: readonly TransactionActionLike[]): void {
    if (actions.length > 100) throw batchError(400, "InvalidInput");
    if (new Set(actions.map(([, { partitionKey }]) => partitionKey)).size > 1) throw batchError(400, "CommandsInBatchActOnDifferentPartitions");
    if (new Set(actions.map(([, { rowKey }]) => rowKey)).size < actions.length) throw batchError(400, "InvalidDuplicateRow");
  }

  #checkOne([kind, { partitionKey, rowKey }, , condition]: TransactionActionLike, index: number): void {
    const row = this.row(partitionKey, rowKey);
    if (kind === "create" && row) throw batchError(409, "EntityAlreadyExists", index);
    if ((kind === "update" || kind === "delete") && !row) throw batchError(404, "ResourceNotFound", index);
    // A delete within a transaction has no condition: the SDK drops it.
    const etag = (kind === "update" && condition?.etag) || "*";
    if (row && etag !== "*" && etag !== row.etag) throw batchError(412, "UpdateConditionNotSatisfied", index);
  }

  #apply([kind, entity, mode = "Merge"]: TransactionActionLike): { status: number; etag?: string } {
    const { partitionKey, rowKey, ...properties } = entity;
    if (kind === "delete") {
      this.drop(partitionKey, rowKey);
      return { status: 204 };
    }
    const wire = Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, fromSdk(value)]));
    if (mode === "Merge") this.merge(wire, partitionKey, rowKey);
    else this.put(wire, partitionKey, rowKey);
    return { status: 204, etag: this.row(partitionKey, rowKey)!.etag };
  }
}

function valueOf(name: string, partitionKey: string, rowKey: string, row: StoredRow): string | number | boolean | undefined {
  if (name === "PartitionKey") return partitionKey;
  if (name === "RowKey") return rowKey;
  if (name === "Timestamp") return row.timestamp;
  return row.properties.get(name)?.value;
}

/** An error of a part of a transaction: the code is elsewhere, and the number of the part is in the message only. */
function batchError(statusCode: number, code: string, index = 0): FakeRestError {
  return new FakeRestError(statusCode, `${index}:${code}`, { code });
}
