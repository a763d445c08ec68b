import { describe, expect, test } from "vitest";

import { deleteIfUnchanged, optimisticUpdate, readTarget, runTransaction, tableEntity } from "../../src/index.js";
import { freshTable } from "../support/clients.js";

interface Numbered {
  n: number;
}

async function tableWith(rowKeys: readonly string[], n = 1) {
  const table = await freshTable();
  for (let start = 0; start < rowKeys.length; start += 100) {
    await table.submitTransaction(rowKeys.slice(start, start + 100).map((rowKey) => ["create", { partitionKey: "p", rowKey, n }]));
  }
  return table;
}

describe("getMany", () => {
  test.each([
    ["three bytes", "漢".repeat(400)],
    ["four bytes", "😀".repeat(200)],
  ])("reads rows whose keys have hundreds of characters of %s", async (_, long) => {
    const rowKeys = Array.from({ length: 14 }, (_, i) => `${i}${long}`);
    const table = await tableWith(rowKeys);
    const sum = await runTransaction(table, "p", async (tx) => (await tx.getMany<Numbered>(rowKeys)).reduce((total, row) => total + (row?.n ?? 0), 0));
    expect(sum).toBe(14);
  });
});

describe("a row that a transaction only reads", () => {
  test("gets another ETag with the commit; with validate: false it keeps its ETag", async () => {
    const table = await tableWith(["rate", "order"]);
    const price = (validate: boolean) =>
      runTransaction(table, "p", async (tx) => {
        const rate = await tx.get<Numbered>("rate", { validate });
        tx.update({ rowKey: "order", n: rate!.n * 2, at: Math.random() });
      });
    const rate = tableEntity<Numbered>(table, "p", "rate");
    const before = await readTarget(rate);
    await price(false);
    expect((await readTarget(rate)).etag).toBe(before.etag);
    await price(true);
    await expect(deleteIfUnchanged(rate, before.etag)).rejects.toMatchObject({ code: "CONFLICT" });
    await price(false);
    await deleteIfUnchanged(rate, (await readTarget(rate)).etag);
  });

  test("with validate: false, writers of other rows and a writer of that row do not disturb each other", async () => {
    const rowKeys = Array.from({ length: 8 }, (_, i) => `r${i}`);
    const table = await tableWith([...rowKeys, "rate"]);
    const writers = rowKeys.map((rowKey) =>
      runTransaction(table, "p", async (tx) => {
        await tx.get("rate", { validate: false });
        tx.update({ rowKey, n: 2 });
        return tx.attempt;
      }, { coalesce: false }),
    );
    const changing = optimisticUpdate(tableEntity<Numbered>(table, "p", "rate"), (draft) => { draft.n++; });
    expect(await Promise.all(writers)).toEqual(rowKeys.map(() => 1));
    expect(await changing).toMatchObject({ outcome: "updated", attempts: 1 });
  });
});
