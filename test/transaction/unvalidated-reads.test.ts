import { describe, expect, test } from "vitest";

import { isConcurrencyError, runTransaction } from "../../src/index.js";
import type { Transaction, TransactionReadOptions } from "../../src/index.js";
import { before, gate } from "../fakes/faults.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

const unvalidated: TransactionReadOptions = { validate: false };

const many = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

const reads: [string, (tx: Transaction, options?: TransactionReadOptions) => Promise<number>][] = [
  ["get", async (tx, options) => (await tx.get<Numbered>("rate", options))!.n],
  ["getMany", async (tx, options) => (await tx.getMany<Numbered>(["rate", "missing"], options))[0]!.n],
  ["query", async (tx, options) => (await tx.query<Numbered>({ from: "r", to: "s" }, options))[0]!.n],
];

describe.each(reads)("an unvalidated %s", (name, read) => {
  test("is not part of the commit: the row is not rewritten, and its change is no conflict", async () => {
    const { service, table } = fakePartition({ a: 0, rate: 3 });
    service.next("submitTransaction", before(() => set(table, "rate", 4)));
    const attempts = await runTransaction(table, "p", async (tx) => {
      tx.update({ rowKey: "a", n: await read(tx, unvalidated) });
      return tx.attempt;
    });
    expect([attempts, valueOf(table, "a"), valueOf(table, "rate")]).toEqual([1, 3, 4]);
    expect(table.submitted.map((actions) => actions.map(([, { rowKey }]) => rowKey))).toEqual([["a"]]);
    expect(table.row("p", "rate")!.properties.has("asc_journal")).toBe(false);
  });

  test("leaves the ETag as it is; a validated one does not", async () => {
    const { table } = fakePartition({ a: 0, rate: 3 });
    const copy = (options?: TransactionReadOptions) => runTransaction(table, "p", async (tx) => tx.upsert({ rowKey: "a", n: (await read(tx, options)) + 1, at: Math.random() }));
    const { etag } = table.row("p", "rate")!;
    await copy(unvalidated);
    expect(table.row("p", "rate")!.etag).toBe(etag);
    await copy();
    expect(table.row("p", "rate")!.etag).not.toBe(etag);
  });

  test("is not taken for a validated read of the same transaction", async () => {
    const { service, table } = fakePartition({ a: 0, rate: 3 });
    service.next("submitTransaction", before(() => set(table, "rate", 4)));
    const attempts = await runTransaction(table, "p", async (tx) => {
      await read(tx, unvalidated);
      tx.update({ rowKey: "a", n: await read(tx) });
      return tx.attempt;
    });
    expect([attempts, valueOf(table, "a")]).toEqual([2, 4]);
  });

  test("is not taken for a validated read by another transaction of the batch", async () => {
    const { service, table } = fakePartition({ a: 0, rate: 3 });
    const change = before(() => set(table, "rate", 4));
    const first = runTransaction(table, "p", async (tx) => read(tx, unvalidated));
    const second = runTransaction(table, "p", async (tx) => {
      await tx.get("a");
      await tx.get("b");
      tx.update({ rowKey: "a", n: await read(tx) });
    });
    // Between the unvalidated read of the first one and the validated read of the second one.
    service.next("getEntity", ...(name === "get" ? [before(() => undefined)] : []), before(() => undefined), change);
    expect(await first).toBe(3);
    await second;
    expect(valueOf(table, "a")).toBe(4);
    expect(service.count("submitTransaction")).toBe(1);
  });

  test("does not return what an earlier transaction of the batch has not committed yet", async () => {
    const { table } = fakePartition({ rate: 3 });
    const writing = runTransaction(table, "p", (tx) => tx.update({ rowKey: "rate", n: 5 }));
    const reading = runTransaction(table, "p", async (tx) => {
      await tx.get("rate-2"); // the first one is merged by then
      return read(tx, unvalidated);
    });
    await Promise.all([writing, reading]);
    expect(await reading).toBe(3);
    expect(valueOf(table, "rate")).toBe(5);
  });

  test("does not return what was read for an earlier batch", async () => {
    const { service, table } = fakePartition({ a: 0, rate: 3 });
    const commit = gate("after");
    service.next("submitTransaction", commit.fault);
    const one = runTransaction(table, "p", async (tx) => tx.update({ rowKey: "a", n: await read(tx) }));
    await commit.reached;
    set(table, "rate", 4);
    const two = runTransaction(table, "p", (tx) => read(tx, unvalidated));
    commit.open();
    await one;
    expect(await two).toBe(4);
  });

  test("sees the transaction's own writes and validated reads", async () => {
    const { service, table } = fakePartition({ rate: 3 });
    const seen = await runTransaction(table, "p", async (tx) => {
      tx.update({ rowKey: "rate", n: 10 });
      const own = await read(tx, unvalidated);
      tx.update({ rowKey: "rate", n: 11 });
      return [own, await read(tx, unvalidated)];
    });
    expect(seen).toEqual([10, 11]);
    service.next("any", before(() => undefined), before(() => set(table, "rate", 99)));
    const read1 = await runTransaction(table, "p", async (tx) => [(await tx.get<Numbered>("rate"))!.n, await read(tx, unvalidated)]);
    expect(read1[0]).toBe(read1[1]);
  });

  test("is all that a transaction costs which only reads like that", async () => {
    const { service, table } = fakePartition({ rate: 3 });
    await runTransaction(table, "p", async (tx) => [await read(tx, unvalidated), await read(tx, unvalidated)]);
    expect(service.requests).toHaveLength(2);
    expect(service.count("write")).toBe(0);
  });

  test("takes no other option", async () => {
    const { service, table } = fakePartition({ rate: 3 });
    for (const options of [{ validate: "no" }, { validated: false }, null]) {
      await expect(runTransaction(table, "p", (tx) => read(tx, options as never))).rejects.toThrow(new RegExp(`^tx\\.${name}`));
    }
    expect(service.requests).toEqual([]);
  });
});

test("more rows than a transaction can have may be read unvalidated", async () => {
  const rows = many("r", 150);
  const { service, table } = fakePartition(Object.fromEntries([...rows, "sum"].map((rowKey) => [rowKey, 1])));
  await runTransaction(table, "p", async (tx) => {
    const found = await tx.getMany<Numbered>(rows, unvalidated);
    tx.update({ rowKey: "sum", n: found.reduce((sum, row) => sum + row!.n, 0) });
  });
  expect(valueOf(table, "sum")).toBe(150);
  expect(service.count("listEntities")).toBe(Math.ceil(150 / 14));
});

test("a row that an unvalidated read did not find is created, or found to exist", async () => {
  const { service, table } = fakePartition();
  const create = () =>
    runTransaction(table, "p", async (tx) => {
      if (!(await tx.get("a", unvalidated))) tx.create({ rowKey: "a", n: 1 });
    });
  service.next("submitTransaction", before(() => set(table, "a", 7)));
  await create();
  expect(valueOf(table, "a")).toBe(7);
  service.next("getEntity", before(() => table.drop("p", "a")));
  await create();
  expect(valueOf(table, "a")).toBe(1);
  await expect(runTransaction(table, "p", (tx) => tx.create({ rowKey: "a", n: 2 }))).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "ALREADY_EXISTS"));
});

test("an unvalidated query needs no row for phantoms, and leaves out tombstones and the library's own rows", async () => {
  const { table } = fakePartition({ a: 1, b: 2, "~asc~fence": 4 });
  table.put({ asc_tombstone: { type: "Boolean", value: true } }, "p", "bb");
  const found = await runTransaction(
    table,
    "p",
    async (tx) => {
      tx.upsert({ rowKey: "c", n: 3 });
      tx.delete("a");
      return (await tx.query<Numbered>({ filter: "n ge 1", where: ({ n }) => n >= 2 }, unvalidated)).map(({ rowKey }) => rowKey);
    },
    { detectPhantoms: true },
  );
  expect(found).toEqual(["b", "c"]);
  expect(table.submitted[0]!.find(([, { rowKey }]) => rowKey === "~asc~queries")?.[0]).toBe("upsert");
});
