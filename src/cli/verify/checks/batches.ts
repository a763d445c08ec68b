import type { TableClient, TransactionAction } from "@azure/data-tables";
import { codeOf, failedOperation, statusOf } from "../../../core/storage-errors.js";
import type { Check } from "../check.js";
import { groupOf } from "./calls.js";
import type { Part } from "./calls.js";

/** The status and the code, and the number of the operation if the service names it. */
async function submit(table: TableClient, actions: TransactionAction[]): Promise<string> {
  try {
    await table.submitTransaction(actions);
    return "passes";
  } catch (error) {
    const status = statusOf(error);
    if (error instanceof Error && error.message.includes("same partitionKey")) return "the SDK throws";
    if (status === undefined) throw error;
    return `${status} ${codeOf(error) ?? ""}`.trim();
  }
}

async function failedAt(table: TableClient, actions: TransactionAction[]): Promise<string> {
  try {
    await table.submitTransaction(actions);
    return "passes";
  } catch (error) {
    const index = failedOperation(error);
    return index === undefined ? "not named" : `named: ${index}`;
  }
}

async function rowsIn(table: TableClient, partitionKey: string): Promise<string> {
  const rows: string[] = [];
  for await (const { rowKey, a } of table.listEntities<{ a?: number }>({ queryOptions: { filter: `PartitionKey eq '${partitionKey}'` } })) rows.push(`${rowKey ?? ""}=${a ?? "-"}`);
  return rows.length > 3 ? `${rows.length} rows` : rows.join(", ") || "no rows";
}

const creates = (partitionKey: string, count: number): TransactionAction[] =>
  Array.from({ length: count }, (_, i): TransactionAction => ["create", { partitionKey, rowKey: String(i).padStart(3, "0"), a: 1 }]);

const transactions = "`runTransaction`";

const parts: readonly Part[] = [
  {
    name: "100 operations", helper: transactions, expected: "passes, 100 rows", requests: 2,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      return `${await submit(table, creates(partitionKey, 100))}, ${await rowsIn(table, partitionKey)}`;
    },
  },
  {
    name: "101 operations", helper: transactions, source: "documented; believed: the code", expected: "400 InvalidInput, no rows", requests: 2,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      return `${await submit(table, creates(partitionKey, 101))}, ${await rowsIn(table, partitionKey)}`;
    },
  },
  {
    name: "one row twice", helper: transactions, source: "documented; believed: the code", expected: "400 InvalidDuplicateRow, no rows", requests: 2,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const entity = { partitionKey, rowKey: "row", a: 1 };
      return `${await submit(table, [["create", entity], ["upsert", entity, "Merge"]])}, ${await rowsIn(table, partitionKey)}`;
    },
  },
  {
    name: "two partitions", helper: transactions, source: "measured on Azurite", expected: "the SDK throws, no rows", requests: 1,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const actions: TransactionAction[] = [["create", { partitionKey, rowKey: "a", a: 1 }], ["create", { partitionKey: workspace.name(), rowKey: "b", a: 1 }]];
      return `${await submit(table, actions)}, ${await rowsIn(table, partitionKey)}`;
    },
  },
  {
    name: "an operation whose ETag is outdated undoes all others", helper: transactions, expected: "412 UpdateConditionNotSatisfied, row=1", requests: 4,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const row = { partitionKey, rowKey: "row" };
      const { etag = "" } = await table.createEntity({ ...row, a: 0 });
      await table.updateEntity({ ...row, a: 1 }, "Merge");
      const actions: TransactionAction[] = [["create", { partitionKey, rowKey: "other", a: 2 }], ["update", { ...row, a: 2 }, "Merge", { etag }]];
      return `${await submit(table, actions)}, ${await rowsIn(table, partitionKey)}`;
    },
  },
  {
    name: "an insert of a row that exists undoes all others", helper: transactions, expected: "409 EntityAlreadyExists, row=1", requests: 3,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const row = { partitionKey, rowKey: "row", a: 1 };
      await table.createEntity(row);
      return `${await submit(table, [["create", { partitionKey, rowKey: "other", a: 2 }], ["create", row]])}, ${await rowsIn(table, partitionKey)}`;
    },
  },
  {
    name: "the response to an insert of a row that exists names the operation", helper: `${transactions}: only a hint, as a 412 has none on Azure`, source: "recorded", expected: "named: 1", requests: 2,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const row = { partitionKey, rowKey: "row", a: 1 };
      await table.createEntity(row);
      return failedAt(table, [["create", { partitionKey, rowKey: "other", a: 2 }], ["create", row]]);
    },
  },
  {
    name: "a merge without properties checks the ETag, and changes nothing else", helper: `${transactions}: rows that were only read`, expected: "passes, row=1; outdated: 412 UpdateConditionNotSatisfied", requests: 4,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const row = { partitionKey, rowKey: "row" };
      const { etag = "" } = await table.createEntity({ ...row, a: 1 });
      const first = await submit(table, [["update", row, "Merge", { etag }]]);
      const rows = await rowsIn(table, partitionKey);
      return `${first}, ${rows}; outdated: ${await submit(table, [["update", row, "Merge", { etag }]])}`;
    },
  },
  {
    name: "the ETags of the response are those of the rows", helper: transactions, expected: "the same", requests: 2,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const { subResponses } = await table.submitTransaction(creates(partitionKey, 1));
      const { etag } = await table.getEntity(partitionKey, "000");
      return subResponses[0]?.etag === etag ? "the same" : "another";
    },
  },
  {
    name: "a delete with an outdated ETag, which the SDK does not send", helper: `${transactions} deletes by a tombstone`, source: "measured on Azurite", expected: "passes, no rows", requests: 4,
    run: async (workspace) => {
      const [table, partitionKey] = [await workspace.table(), workspace.name()];
      const row = { partitionKey, rowKey: "row" };
      const { etag = "" } = await table.createEntity({ ...row, a: 0 });
      await table.updateEntity({ ...row, a: 1 }, "Merge");
      const action = ["delete", row, { etag }] as unknown as TransactionAction;
      return `${await submit(table, [action])}, ${await rowsIn(table, partitionKey)}`;
    },
  },
];

/** Entity group transactions, which `runTransaction`, inboxes and table locks are built on. */
export const batchChecks: readonly Check[] = groupOf("table", "Batches", parts);
