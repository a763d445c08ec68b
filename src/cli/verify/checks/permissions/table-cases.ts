import { Once } from "../../../../once/once.js";
import { Outbox } from "../../../../outbox/outbox.js";
import { tombstoneName } from "../../../../target/stored-entity.js";
import { tableEntity } from "../../../../target/table-entity.js";
import { listEntities } from "../../../../transaction/list-entities.js";
import { runTransaction } from "../../../../transaction/run-transaction.js";
import { purgeTombstones } from "../../../../transaction/tombstone-cleanup.js";
import { DELETE } from "../../../../update/mutator.js";
import { optimisticUpdate } from "../../../../update/optimistic-update.js";
import { expectDeleted } from "./blob-cases.js";
import { permissionCase } from "./case.js";
import type { Given, PermissionCase } from "./case.js";

type OnTable = Given<"table">;

const row = ({ table, partitionKey }: OnTable): ReturnType<typeof tableEntity> => tableEntity(table, { partitionKey, rowKey: "row" });
const updateRow = (given: OnTable): Promise<unknown> => optimisticUpdate(row(given), (value) => ({ ...value, n: 1 }));
const createRow = ({ table, partitionKey }: OnTable): Promise<unknown> => table.createEntity({ partitionKey, rowKey: "row", n: 0 });
const incrementRow = ({ table, partitionKey }: OnTable): Promise<unknown> =>
  runTransaction<{ n: number }>(table, partitionKey, async (tx) => {
    const stored = await tx.get("row");
    tx.update({ rowKey: "row", n: (stored?.n ?? 0) + 1 });
  });

/** Entities, transactions, and what is built on them. */
export const tableCases: readonly PermissionCase[] = [
  permissionCase({ helper: "`optimisticUpdate(tableEntity)`", grants: { table: "rau" }, tableSas: "table", requests: 3, before: createRow, run: updateRow }),
  permissionCase({
    helper: "`optimisticUpdate(tableEntity)`", grants: { table: "r" }, tableSas: "table", requests: 3, before: createRow, run: updateRow, expected: "403 AuthorizationPermissionMismatch",
  }),
  permissionCase({ helper: "`optimisticUpdate(tableEntity)` with `DELETE`", grants: { table: "raud" }, tableSas: "table", requests: 3, before: createRow, run: (given) => optimisticUpdate(row(given), () => DELETE) }),
  permissionCase({ helper: "`runTransaction`", grants: { table: "raud" }, tableSas: "table", requests: 3, before: createRow, run: incrementRow, emulator: "403" }),
  permissionCase({ helper: "`runTransaction`, a SAS of the account", grants: { table: "raud" }, requests: 3, before: createRow, run: incrementRow }),
  permissionCase({ helper: "`listEntities`", grants: { table: "r" }, tableSas: "table", requests: 2, before: createRow, run: ({ table, partitionKey }) => listEntities(table, { filter: `PartitionKey eq '${partitionKey}'` }).next() }),
  permissionCase({
    helper: "`purgeTombstones`", grants: { table: "rd" }, tableSas: "table", requests: 3, slow: true,
    before: async ({ table, partitionKey, workspace }) => {
      await table.createEntity({ partitionKey, rowKey: "row", [tombstoneName]: true });
      await workspace.pause(5_000);
    },
    run: async ({ table, partitionKey }) => expectDeleted(await purgeTombstones(table, { partitionKey, olderThanInMs: 0 })),
  }),
  permissionCase({ helper: "`Once`", grants: { table: "raud" }, tableSas: "table", requests: 2, run: ({ table, partitionKey }) => new Once(table).run(partitionKey, () => 1) }),
  permissionCase({
    helper: "`Once` with `overflow`", grants: { table: "raud", container: "rwd" }, requests: 8,
    run: async ({ table, container, partitionKey }) => {
      const once = new Once(table, { overflow: container });
      await once.run(partitionKey, () => "x".repeat(70_000));
      await once.get(partitionKey);
      await once.forget(partitionKey);
    },
  }),
  permissionCase({
    helper: "`Once.runTransaction`", grants: { table: "raud" }, requests: 2,
    run: ({ table, partitionKey }) => new Once(table).runTransaction("key", partitionKey, (tx) => tx.upsert({ rowKey: "row", n: 1 })),
  }),
  permissionCase({
    helper: "`Once.purge`", grants: { ownTable: "rd" }, tableSas: "table", requests: 4, slow: true,
    before: async ({ ownTable, workspace }) => {
      await new Once(ownTable).run("key", () => 1);
      await workspace.pause(5_000);
    },
    run: async ({ ownTable }) => expectDeleted(await new Once(ownTable).purge({ olderThanInMs: 0 })),
  }),
  permissionCase({
    helper: "`Outbox`", grants: { table: "raud", queue: "a" }, requests: 6,
    run: async ({ table, queue, partitionKey }) => {
      const outbox = new Outbox(table, { queues: [queue] });
      const failures: unknown[] = [];
      outbox.on("error", (error) => failures.push(error));
      await runTransaction(table, partitionKey, (tx) => {
        tx.upsert({ rowKey: "row", n: 1 });
        outbox.add(tx, queue, { n: 1 });
      });
      // Waits for the message to be sent, and for its row to be deleted.
      await outbox.stop();
      if (failures.length > 0) throw failures[0];
    },
  }),
];
