import { FakeService } from "../../fakes/fake-service.js";
import { FakeTransactionTable } from "./fake-transaction-table.js";

/** A service, a table in it, and a second client with rights of its own: another process. */
export function fakePartition(rows: Readonly<Record<string, number>> = {}): {
  service: FakeService;
  table: FakeTransactionTable;
  other: FakeTransactionTable;
} {
  const service = new FakeService();
  const table = new FakeTransactionTable(service);
  const other = new FakeTransactionTable(service, { pipeline: {} });
  for (const [rowKey, n] of Object.entries(rows)) set(table, rowKey, n);
  return { service, table, other };
}

/** A foreign writer, without a request. */
export function set(table: FakeTransactionTable, rowKey: string, n: number): void {
  table.put({ n: { type: "Int32", value: n } }, "p", rowKey);
}

export function valueOf(table: FakeTransactionTable, rowKey: string): unknown {
  return table.property("n", "p", rowKey)?.value;
}

export interface Numbered {
  n: number;
}
