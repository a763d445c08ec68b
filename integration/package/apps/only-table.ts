/** With no other SDK than the one for tables. */
import { TableClient } from "@azure/data-tables";
import { ConcurrentTable, optimisticUpdate, runTransaction, tableEntity } from "azure-storage-concurrency";

const { STORAGE = "", SCENE = "" } = process.env;
const table = TableClient.fromConnectionString(STORAGE, SCENE, { allowInsecureConnection: true });
await table.createTable();

interface Account {
  balance: number;
}

const initial: Account = { balance: 100 };
const { outcome } = await optimisticUpdate(tableEntity<Account>(table, "bank", "anna"), () => undefined, { initial });
await new ConcurrentTable<Account>(table).entity("bank", "bert").createIfNotExists(initial);
await runTransaction(table, "bank", async (tx) => {
  const [from, to] = await tx.getMany<Account>(["anna", "bert"]);
  tx.update({ rowKey: "anna", balance: (from?.balance ?? 0) - 30 });
  tx.update({ rowKey: "bert", balance: (to?.balance ?? 0) + 30 });
});

const balances: number[] = [];
for await (const { balance } of table.listEntities<Account>()) balances.push(balance);
console.log(JSON.stringify({ outcome, balances }));
