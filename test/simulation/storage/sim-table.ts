import type { TableCallOptions } from "../../../src/clients.js";
import type { TableLike } from "../../../src/index.js";
import { tableError } from "../../fakes/rest-errors.js";
import { FakeTransactionTable } from "../../transaction/fakes/fake-transaction-table.js";
import type { Link } from "./link.js";

type ReadOptions = NonNullable<Parameters<TableLike["getEntity"]>[2]>;

/** A table as one process sees it. */
export class SimTable extends FakeTransactionTable implements TableLike {
  readonly #link: Link;

  constructor(link: Link, tableName: string) {
    super(link, { tableName });
    this.#link = link;
  }

  override createTable(options: TableCallOptions = {}): Promise<void> {
    const call = { operation: "createTable", kind: "write" as const, resource: this.tableName };
    return this.#link.request(call, options.abortSignal, tableError, () => undefined);
  }

  override async getEntity(partitionKey: string, rowKey: string, options: ReadOptions = {}): Promise<object> {
    const entity = await super.getEntity(partitionKey, rowKey, options);
    return options.disableTypeConversion ? entity : converted(entity);
  }
}

/** What the SDK returns unless it is told not to: plain values, as far as the library asks for them. */
function converted(entity: object): object {
  return Object.fromEntries(Object.entries(entity).map(([name, property]) => [name, plain(property)]));
}

function plain(property: unknown): unknown {
  if (typeof property !== "object" || property === null) return property;
  const { type, value } = property as { type: string; value: string };
  if (type === "Int32" || type === "Double") return Number(value);
  return type === "Boolean" ? value === "true" : value;
}
