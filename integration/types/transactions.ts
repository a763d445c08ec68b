import * as asc from "azure-storage-concurrency";
import type { Entity, PurgeResult, TableAction, Transaction } from "azure-storage-concurrency";
import type { TransactionAction } from "@azure/data-tables";

import { typeOf } from "./expect.js";
import { queue, table } from "./storage.js";
import type { Account, Customer, Shape } from "./storage.js";

export async function returnWhatTheFunctionReturns(): Promise<void> {
  const balance = await asc.runTransaction(table, "bank", async (tx: Transaction<Account>) => {
    const anna = await tx.get("anna");
    typeOf(anna).is<Entity<Account> | undefined>();
    if (!anna) throw new Error("no account");
    tx.update({ rowKey: "anna", balance: anna.balance - 1 });
    return anna.balance;
  });
  typeOf(balance).is<number>();
  typeOf(await asc.runTransaction(table, "bank", () => "done")).is<string>();
  typeOf(await asc.runTransaction<Account>(table, "bank", (tx) => tx.delete("anna"))).is<void>();
  typeOf(await asc.runTransaction(table, "bank", (tx) => tx.get("anna"))).is<Entity | undefined>();

  await asc.runTransaction(table, "bank", () => {}, { detectPhantoms: true, coalesce: false, maxAttempts: 2, types: { balance: "Int64" }, onUnknown: "retry" });
  // @ts-expect-error The partition key is a string.
  await asc.runTransaction(table, () => {});
  // @ts-expect-error A queue has no transactions.
  await asc.runTransaction(queue, "bank", () => {});
  // @ts-expect-error Misspelt option.
  await asc.runTransaction(table, "bank", () => {}, { detectPhantom: true });
}

export async function readAndWriteInIt(): Promise<void> {
  await asc.runTransaction<Account>(table, "bank", async (tx) => {
    typeOf(tx).is<Transaction<Account>>();
    typeOf(tx.partitionKey).is<string>();
    typeOf(tx.signal).is<AbortSignal>();
    typeOf(await tx.getMany(["anna", "bert"] as const)).is<(Entity<Account> | undefined)[]>();
    typeOf(await tx.query({ from: "a", to: "b", filter: "balance gt 0", where: ({ balance }) => balance > 0 })).is<Entity<Account>[]>();
    typeOf(await tx.get("anna", { validate: false })).is<Entity<Account> | undefined>();
    typeOf(await tx.query({}, { validate: false })).is<Entity<Account>[]>();
    // @ts-expect-error Misspelt option.
    await tx.getMany(["anna"], { validated: false });
    // One row may have another type than the others.
    typeOf(await tx.get<Customer>("42")).is<Entity<Customer> | undefined>();
    typeOf(await tx.query<Customer>()).is<Entity<Customer>[]>();

    tx.create({ rowKey: "anna", balance: 1 });
    tx.replace({ rowKey: "anna", partitionKey: "bank", balance: 1 });
    tx.upsert({ rowKey: "anna", balance: 1 });
    tx.update({ rowKey: "anna" });
    tx.update<Customer>({ rowKey: "42", visits: 1 });
    tx.create<Customer>({ rowKey: "42", email: "x", visits: 1 });
    // A patch of a union: the properties of any member, not only those that all members have.
    tx.update<Shape>({ rowKey: "shape", radius: 1 });
    tx.create<Shape>({ rowKey: "shape", kind: "circle", radius: 1 });
    tx.delete("anna");
    const anna = await tx.get("anna");
    if (anna) tx.delete(anna);

    // @ts-expect-error Misspelt property.
    tx.update({ rowKey: "anna", balanse: 3 });
    // @ts-expect-error The wrong type.
    tx.update({ rowKey: "anna", balance: "3" });
    // @ts-expect-error A patch names its row.
    tx.update({ balance: 3 });
    // @ts-expect-error A new entity is complete.
    tx.create({ rowKey: "anna" });
    // @ts-expect-error The same for a member of a union.
    tx.create<Shape>({ rowKey: "shape", kind: "circle" });
    // @ts-expect-error A replacement is complete.
    tx.replace({ rowKey: "anna" });
    // @ts-expect-error An upsert may create, so it is complete.
    tx.upsert({ rowKey: "anna" });
    // @ts-expect-error Row keys are strings.
    tx.delete(1);
    // @ts-expect-error An entity that is not there is undefined.
    (await tx.get("anna")).balance;
    // @ts-expect-error Contexts are readonly.
    tx.partitionKey = "other";
    // @ts-expect-error Rows are ranges of row keys, not of partition keys.
    await tx.query({ partitionKey: "bank" });
  });
  // Without a type, anything can be written.
  await asc.runTransaction(table, "bank", (tx) => tx.upsert({ rowKey: "anna", anything: 1 }));
}

export async function cleanUp(): Promise<void> {
  const purged = await asc.purgeTombstones(table, { olderThanInMs: 1, partitionKey: "bank" });
  typeOf(purged).is<PurgeResult>();
  // @ts-expect-error Durations end in InMs.
  await asc.purgeTombstones(table, { olderThan: 1 });
  // @ts-expect-error Results are readonly.
  purged.deleted = 0;
}

/** One type for `commit` and `submit`, which takes the actions of the SDK as they are. */
export function describeWrites(actions: TransactionAction[]): readonly TableAction[] {
  actions satisfies readonly TableAction[];
  const frozen = [
    ["create", { rowKey: "a", anything: 1 }],
    ["delete", { rowKey: "b" }],
    ["update", { rowKey: "c" }, "Replace", { etag: "x" }],
    ["upsert", { partitionKey: "p", rowKey: "d" }, "Merge"],
  ] as const;
  frozen satisfies readonly TableAction[];
  // @ts-expect-error No such action.
  ["insert", { rowKey: "a" }] satisfies TableAction;
  // @ts-expect-error A row key is needed.
  ["create", { anything: 1 }] satisfies TableAction;
  // @ts-expect-error No such mode.
  ["update", { rowKey: "a" }, "Overwrite"] satisfies TableAction;
  // @ts-expect-error The type of the entity counts.
  ["create", { rowKey: "a", balance: "1" }] satisfies TableAction<Account>;
  return [...actions, ...frozen];
}

/** A transaction is handed in by the library. */
export function cannotBeMade(): void {
  // @ts-expect-error An interface.
  new asc.Transaction();
}

export async function listWithoutTheLibrarysRows(): Promise<void> {
  for await (const account of asc.listEntities<Account>(table, { filter: "balance gt 0" })) typeOf(account).is<Entity<Account>>();
  for await (const account of new asc.ConcurrentTable<Account>(table).list()) typeOf(account).is<Entity<Account>>();
  for await (const row of table.listEntities({ queryOptions: { filter: asc.excludeLibraryRows("balance gt 0") } })) typeOf(asc.isLibraryRow(row)).is<boolean>();
  // @ts-expect-error Misspelt option.
  asc.listEntities(table, { filters: "" });
  // @ts-expect-error A filter is text.
  asc.excludeLibraryRows(1);
}
