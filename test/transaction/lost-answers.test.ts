import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { CommitUnknownError, isConcurrencyError, optimisticUpdate, runTransaction, tableEntity } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { after, answer, before, failAfterCommit, ghost, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

const faults: readonly (readonly [string, Fault])[] = [
  ["the answer is lost and the SDK sends again", loseAnswer],
  ["the answer is lost for good", loseAnswerForGood],
  ["the request is lost", loseRequest],
  ["the service commits and answers 500", failAfterCommit],
];

async function move(tx: Transaction): Promise<number> {
  const [a, b] = await tx.getMany<Numbered>(["a", "b"]);
  tx.update({ rowKey: "a", n: a!.n - 1 });
  tx.update({ rowKey: "b", n: b!.n + 1 });
  return tx.attempt;
}

describe.each(faults)("when %s", (_, fault) => {
  test("a transaction is applied once", async () => {
    const { service, table } = fakePartition({ a: 5, b: 5 });
    service.next("submitTransaction", fault);
    const attempts = await runTransaction(table, "p", move);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([4, 6]);
    expect(attempts).toBe(1);
  });

  test("a transaction of creates is applied once, or of unknown outcome if its request was lost", async () => {
    const { service, table } = fakePartition();
    service.next("submitTransaction", fault);
    if (fault === loseRequest) {
      // Another client may have deleted the rows.
      expect(await rejection(runTransaction(table, "p", (tx) => tx.create({ rowKey: "x", n: 1 })))).toBeInstanceOf(CommitUnknownError);
      service.next("submitTransaction", fault);
      await runTransaction(table, "p", (tx) => tx.create({ rowKey: "x", n: 1 }), { onUnknown: "retry" });
      expect(table.rowKeys()).toEqual(["x"]);
      return;
    }
    const attempts = await runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "x", n: 1 });
      tx.create({ rowKey: "y", n: 1 });
      return tx.attempt;
    });
    expect(table.rowKeys()).toEqual(["x", "y"]);
    expect(attempts).toBe(1);
  });

  test("a delete is applied once and its tombstone removed", async () => {
    const { service, table } = fakePartition({ a: 5 });
    service.next("submitTransaction", fault);
    await runTransaction(table, "p", (tx) => tx.delete("a"));
    await expect.poll(() => table.rowKeys()).toEqual([]);
  });

});

describe.each(faults.filter(([, fault]) => fault !== loseRequest))("when %s", (_, fault) => {
  test("a transaction on top, of another process, does not hide it", async () => {
    const { service, table, other } = fakePartition({ a: 5, b: 5 });
    service.next("submitTransaction", after(() => runTransaction(other, "p", move), fault));
    await runTransaction(table, "p", move);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([3, 7]);
  });

  test("an update on top, by optimisticUpdate, does not hide it", async () => {
    const { service, table, other } = fakePartition({ a: 5, b: 5 });
    const target = tableEntity<Numbered>(other, "p", "a");
    service.next("submitTransaction", after(() => optimisticUpdate(target, (e) => { e.n += 10; }), fault));
    await runTransaction(table, "p", move);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([14, 6]);
  });

  test("an update whose answer is lost finds itself under a transaction", async () => {
    const { service, table, other } = fakePartition({ a: 5, b: 5 });
    service.next("updateEntity", after(() => runTransaction(other, "p", move), fault));
    await optimisticUpdate(tableEntity<Numbered>(table, "p", "b"), (e) => { e.n += 10; });
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([4, 16]);
  });
});

test("a lost race whose answer is lost is a lost race, although the winner counted itself in the journal of another row", async () => {
  const { service, table, other } = fakePartition({ a: 5, b: 5, c: 5 });
  // The other one changes b beside a, and a has the journal; this one would count itself in b.
  const overtake = before(() => runTransaction(other, "p", move));
  service.next("submitTransaction", (exchange) => overtake({ ...exchange, send: (fn) => exchange.send(fn).catch(() => exchange.send()) }));
  const attempts = await runTransaction(table, "p", async (tx) => {
    const [b, c] = await tx.getMany<Numbered>(["b", "c"]);
    tx.update({ rowKey: "b", n: b!.n + 10 });
    tx.update({ rowKey: "c", n: c!.n + 10 });
    return tx.attempt;
  });
  expect(attempts).toBe(2);
  expect([valueOf(table, "a"), valueOf(table, "b"), valueOf(table, "c")]).toEqual([4, 16, 15]);
});

test("a first try that arrives late does not come on top of the second", async () => {
  const { service, table } = fakePartition({ a: 5, b: 5 });
  const late = ghost();
  service.next("submitTransaction", late.fault);
  await runTransaction(table, "p", move);
  late.arrive();
  expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([4, 6]);
});

test("a first try that arrives after the transaction has failed does not land, although what it failed on is gone", async () => {
  const { service, table } = fakePartition({ a: 5 });
  const late = ghost();
  service.next("submitTransaction", late.fault, before(() => set(table, "x", 1)));
  const creating = runTransaction(table, "p", async (tx) => {
    tx.update({ rowKey: "a", n: (await tx.get<Numbered>("a"))!.n + 1 });
    tx.create({ rowKey: "x", n: 2 });
  });
  await expect(creating).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "ALREADY_EXISTS"));
  table.drop("p", "x");
  late.arrive();
  expect(valueOf(table, "a")).toBe(5);
  expect(table.rowKeys()).toEqual(["a"]);
});

test("an update whose answer is lost finds itself under a transaction that replaced the entity", async () => {
  const { service, table, other } = fakePartition({ a: 5, b: 5 });
  const target = tableEntity<Numbered & { old?: number | undefined }>(table, "p", "b");
  await optimisticUpdate(target, (e) => { e.old = 1; });
  const replace = (tx: Transaction): void => {
    tx.update({ rowKey: "a", n: 1 });
    tx.replace({ rowKey: "b", n: 100 });
  };
  service.next("updateEntity", after(() => runTransaction(other, "p", replace), loseAnswerForGood));
  await optimisticUpdate(target, (e) => { e.n += 10; });
  expect([valueOf(table, "b"), table.property("old", "p", "b")]).toEqual([100, undefined]);
});

test("a conflict on a row that has no journal, after a lost request, runs the function again", async () => {
  const { service, table } = fakePartition({ a: 1, b: 5 });
  service.next("submitTransaction", loseRequest, before(() => set(table, "b", 50)));
  const attempts = await runTransaction(table, "p", async (tx) => {
    const [, b] = await tx.getMany<Numbered>(["a", "b"]);
    tx.update({ rowKey: "a", n: b!.n });
    return tx.attempt;
  });
  expect(attempts).toBe(2);
  expect(valueOf(table, "a")).toBe(50);
});

test("what it made may be deleted by others before it is looked for: a row that was there before tells", async () => {
  const { service, table } = fakePartition({ a: 5 });
  service.next("submitTransaction", after(() => table.drop("p", "x"), loseAnswerForGood));
  const attempts = await runTransaction(table, "p", async (tx) => {
    tx.create({ rowKey: "x", n: 1 });
    tx.update({ rowKey: "a", n: (await tx.get<Numbered>("a"))!.n + 1 });
    return tx.attempt;
  });
  expect(attempts).toBe(1);
  expect([valueOf(table, "a"), valueOf(table, "x")]).toEqual([6, undefined]);
});

test("if the rows that would tell are gone, the fate is unknown and said to be", async () => {
  const { service, table } = fakePartition({ a: 5, b: 5 });
  const cut = after(() => ["a", "b"].forEach((rowKey) => table.drop("p", rowKey)), loseAnswerForGood);
  service.next("submitTransaction", cut, cut);
  await expect(runTransaction(table, "p", move)).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "COMMIT_UNKNOWN"));
});

test("one that is refused is tried alone, so that it takes nobody with it", async () => {
  const { service, table } = fakePartition({ a: 5, b: 5, c: 5 });
  service.next("submitTransaction", answer(400, "PropertyNameInvalid"), answer(400, "PropertyNameInvalid"));
  const results = await Promise.allSettled([
    runTransaction(table, "p", move),
    runTransaction(table, "p", async (tx) => tx.update({ rowKey: "c", n: (await tx.get<Numbered>("c"))!.n + 1 })),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  expect([valueOf(table, "a"), valueOf(table, "c")]).toEqual([5, 6]);
});
