import { beforeEach, describe, expect, test, vi } from "vitest";

import { CommitUnknownError, jsonBlob, optimisticUpdate, runTransaction, tableEntity } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { after, failAfterCommit, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { fakePartition, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  return () => void vi.restoreAllMocks();
});

const lost: readonly (readonly [string, Fault])[] = [
  ["the response is lost and the SDK sends again", loseAnswer],
  ["the response is lost for good", loseAnswerForGood],
  ["the service commits and answers 500", failAfterCommit],
];

async function move(tx: Transaction): Promise<void> {
  const [a, b] = await tx.getMany<Numbered>(["a", "b"]);
  tx.update({ rowKey: "a", n: a!.n - 1 });
  tx.update({ rowKey: "b", n: b!.n + 1 });
}

describe.each(lost)("when %s, and another client writes back what it had read before", (_, fault) => {
  test("the metadata of a blob: the update is of unknown outcome, and not applied twice", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate(jsonBlob<Counter>(blob), increment);
    const old = { ...blob.metadata };
    service.next("upload", after(() => blob.putMetadata(old), fault));
    expect(await rejection(optimisticUpdate(jsonBlob<Counter>(blob), increment))).toBeInstanceOf(CommitUnknownError);
    expect(blob.json).toEqual({ n: 2 });
  });

  test("the metadata of a blob with a content that it read after the write: the update is of unknown outcome", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate(jsonBlob<Counter>(blob), increment);
    const old = { ...blob.metadata };
    service.next("upload", after(() => blob.put({ ...(blob.json as Counter), other: 1 }, { metadata: old }), fault));
    expect(await rejection(optimisticUpdate(jsonBlob<Counter>(blob), increment))).toBeInstanceOf(CommitUnknownError);
    expect(blob.json).toEqual({ n: 2, other: 1 });
  });

  test("the whole blob: the update was erased, and is applied to what is stored", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate(jsonBlob<Counter>(blob), increment);
    const old = { ...blob.metadata };
    service.next("upload", after(() => blob.put({ n: 1 }, { metadata: old }), fault));
    await optimisticUpdate(jsonBlob<Counter>(blob), increment);
    expect(blob.json).toEqual({ n: 2 });
  });

  test("an entity, merged: an update that added a property is of unknown outcome", async () => {
    const { service, table } = fakePartition({ a: 5 });
    const target = tableEntity<Numbered & { added?: number }>(table, "p", "a");
    await optimisticUpdate(target, (e) => { e.n++; });
    const old = Object.fromEntries(table.row("p", "a")!.properties);
    service.next("updateEntity", after(() => table.merge(old, "p", "a"), fault));
    expect(await rejection(optimisticUpdate(target, (e) => { e.added = (e.added ?? 0) + 1; }))).toBeInstanceOf(CommitUnknownError);
    expect(table.property("added", "p", "a")?.value).toBe(1);
  });

  test("the witness of a transaction: another row shows that it was committed", async () => {
    const { service, table } = fakePartition({ a: 5, b: 5 });
    await runTransaction(table, "p", move);
    const old = Object.fromEntries(table.row("p", "a")!.properties);
    service.next("submitTransaction", after(() => table.put(old, "p", "a"), fault));
    await runTransaction(table, "p", move);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([4, 7]);
  });

  test("the witness of a transaction, and a client of this library updates it: another row shows that it was committed", async () => {
    const { service, table, other } = fakePartition({ a: 5, b: 5 });
    await runTransaction(table, "p", move);
    const old = Object.fromEntries(table.row("p", "a")!.properties);
    const restoreAndUpdate = async (): Promise<void> => {
      table.put(old, "p", "a");
      await optimisticUpdate(tableEntity<Numbered>(other, "p", "a"), (e) => { e.n += 100; });
    };
    service.next("submitTransaction", after(restoreAndUpdate, fault));
    await runTransaction(table, "p", move);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([104, 7]);
  });

  test("the witness of a transaction that reads many rows: the rows that it changes are looked at", async () => {
    const rows = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`read-${i}`, 1]));
    const { service, table } = fakePartition({ a: 5, z: 5, ...rows });
    const moveFar = async (tx: Transaction): Promise<void> => {
      const a = await tx.get<Numbered>("a");
      await tx.getMany(Object.keys(rows));
      const z = await tx.get<Numbered>("z");
      tx.update({ rowKey: "a", n: a!.n - 1 });
      tx.update({ rowKey: "z", n: z!.n + 1 });
    };
    await runTransaction(table, "p", moveFar);
    const old = Object.fromEntries(table.row("p", "a")!.properties);
    service.next("submitTransaction", after(() => table.put(old, "p", "a"), fault));
    await runTransaction(table, "p", moveFar);
    expect([valueOf(table, "a"), valueOf(table, "z")]).toEqual([4, 7]);
  });

  test("all rows of a transaction, merged: it is of unknown outcome if something of it is left", async () => {
    const { service, table } = fakePartition({ a: 5, b: 5 });
    await runTransaction(table, "p", move);
    const old = ["a", "b"].map((rowKey) => ({ rowKey, properties: Object.fromEntries(table.row("p", rowKey)!.properties) }));
    const restore = (): void => {
      for (const { rowKey, properties } of old) table.merge(properties, "p", rowKey);
    };
    service.next("submitTransaction", after(restore, fault));
    const adding = runTransaction(table, "p", async (tx) => {
      await move(tx);
      tx.update({ rowKey: "a", added: 1 });
    });
    expect(await rejection(adding)).toBeInstanceOf(CommitUnknownError);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([4, 6]);
  });
});

describe.each(lost)("when %s, and another client deletes the row of the operations", (_, fault) => {
  test.each([
    ["that the transaction created", false],
    ["that existed", true],
  ])("%s: another row shows that it was committed", async (_name, existed) => {
    const { service, table } = fakePartition({ a: 5, b: 5 });
    if (existed) await runTransaction(table, "p", move, { operationId: "first" });
    const [a, b] = [valueOf(table, "a") as number, valueOf(table, "b") as number];
    service.next("submitTransaction", after(() => table.drop("p", "~asc~operations"), fault));
    await runTransaction(table, "p", move, { operationId: "second" });
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([a - 1, b + 1]);
  });
});

test.each(["set back", "deleted"])("a commit that is copied below the SDK is found although its witness was %s", async (what) => {
  const { service, table } = fakePartition({ a: 5, b: 5 });
  await runTransaction(table, "p", move);
  const old = Object.fromEntries(table.row("p", "a")!.properties);
  const disturb = (): void => (what === "deleted" ? table.drop("p", "a") : table.put(old, "p", "a"));
  service.next("submitTransaction", (exchange) =>
    exchange.send(() => {
      exchange.serve();
      disturb();
    }),
  );
  await runTransaction(table, "p", move);
  expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([what === "deleted" ? undefined : 4, 7]);
});

test("a transaction whose rows were deleted after its response was lost does not say that it wrote nothing, even with onUnknown: retry", async () => {
  const { service, table } = fakePartition({ a: 5 });
  const undo = (): void => ["a", "b"].forEach((rowKey) => table.drop("p", rowKey));
  service.next("submitTransaction", after(undo, loseAnswerForGood));
  const replacing = runTransaction(table, "p", (tx) => {
    tx.delete("a");
    tx.create({ rowKey: "b", n: 1 });
  }, { onUnknown: "retry" });
  expect(await rejection(replacing)).toMatchObject({ committed: "unknown" });
});

describe("a request that is lost", () => {
  test("is sent again if the row of the operations does not exist, and another row is as it was read", async () => {
    const { service, table } = fakePartition({ a: 5, b: 5 });
    service.next("submitTransaction", loseRequest);
    await runTransaction(table, "p", move, { operationId: "first" });
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([4, 6]);
  });

  test("is a conflict if another client has changed the witness and left its journal unchanged", async () => {
    const { service, table } = fakePartition({ a: 5, b: 5 });
    await runTransaction(table, "p", move);
    service.next("submitTransaction", (exchange) => {
      table.merge({ n: { type: "Int32", value: 50 } }, "p", "a");
      return loseRequest(exchange);
    });
    await runTransaction(table, "p", move);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([49, 7]);
  });

  test("is of unknown outcome if another client has changed a blob and kept its metadata: it may have read them before the write", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate(jsonBlob<Counter>(blob), increment);
    service.next("upload", async (exchange) => {
      blob.putKeeping({ n: 100 });
      return loseAnswerForGood(exchange);
    });
    expect(await rejection(optimisticUpdate(jsonBlob<Counter>(blob), increment))).toBeInstanceOf(CommitUnknownError);
    expect(blob.json).toEqual({ n: 100 });
  });
});

test("a row that a transaction changes beside its witness counts the write as well", async () => {
  const { service, table, other } = fakePartition({ a: 5, b: 5 });
  await runTransaction(table, "p", move);
  // The update of b is rejected, because the transaction was first; its response is lost.
  service.next("updateEntity", async (exchange) => {
    await runTransaction(other, "p", move);
    return loseAnswerForGood(exchange);
  });
  await optimisticUpdate(tableEntity<Numbered>(table, "p", "b"), (e) => { e.n += 10; });
  expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([3, 17]);
});

test("the journals of all rows count for the size of a transaction", async () => {
  const { table } = fakePartition();
  // 100 rows of 39,500 bytes with journals of 4 KiB: together more than 4 MiB.
  const journal = `1~lineage~32~${Array.from({ length: 32 }, (_, i) => `${i}`.padStart(120, "x")).join(".")}`;
  const rowKeys = Array.from({ length: 100 }, (_, i) => `r${i}`);
  for (const rowKey of rowKeys) table.put({ asc_journal: { type: "String", value: journal }, text: { type: "String", value: "" } }, "p", rowKey);
  const fill = (length: number): Promise<void> =>
    runTransaction(table, "p", (tx) => {
      for (const rowKey of rowKeys) tx.update({ rowKey, text: "x".repeat(length) });
    });
  expect(await rejection(fill(39_000))).toMatchObject({ code: "TRANSACTION_LIMIT", limit: "bytes" });
  expect(table.submitted).toEqual([]);
  await fill(35_000);
});
