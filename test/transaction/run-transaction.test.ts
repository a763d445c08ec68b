import { AsyncResource } from "node:async_hooks";
import { describe, expect, test } from "vitest";

import { isConcurrencyError, optimisticUpdate, runTransaction, tableEntity } from "../../src/index.js";
import { before } from "../fakes/faults.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

describe("what a transaction sees", () => {
  test("its own writes, in get, getMany and query", async () => {
    const { table } = fakePartition({ a: 1, b: 2 });
    const value = await runTransaction(table, "p", async (tx) => {
      tx.update({ rowKey: "a", n: 10 });
      tx.delete("b");
      tx.create({ rowKey: "c", n: 3 });
      return [await tx.get<Numbered>("a"), await tx.getMany<Numbered>(["b", "c"]), await tx.query<Numbered>()];
    });
    const [a, c] = [{ partitionKey: "p", rowKey: "a", n: 10 }, { partitionKey: "p", rowKey: "c", n: 3 }];
    expect(value).toEqual([a, [undefined, c], [a, c]]);
  });

  test("no query with a misspelled or wrong member, which would read more than was asked for", async () => {
    const { table } = fakePartition({ a: 1, b: 2 });
    for (const query of [{ form: "b" }, { from: 5 }, { to: null }, { filter: () => true }, { where: "n gt 1" }]) {
      await expect(runTransaction(table, "p", (tx) => tx.query(query as never))).rejects.toThrow(TypeError);
    }
    // A promise counts as true: each entity would match.
    await expect(runTransaction(table, "p", (tx) => tx.query({ where: (() => Promise.resolve(false)) as never }))).rejects.toThrow("not a promise");
    await expect(runTransaction(table, "p", (tx) => tx.query({ where: (() => Promise.reject(new Error("in where"))) as never }))).rejects.toThrow("not a promise");
    expect(await runTransaction(table, "p", (tx) => tx.query<Numbered>({ from: "a", to: undefined, where: ({ n }) => n > 1 }))).toHaveLength(1);
  });

  test("one version of a row, however many reads of it overlap", async () => {
    const { service, table } = fakePartition({ a: 1 });
    service.next("getEntity", before(() => undefined), before(() => set(table, "a", 2)));
    const seen: unknown[] = [];
    await runTransaction(table, "p", async (tx) => {
      const [first, second] = await Promise.all([tx.get<Numbered>("a"), tx.get<Numbered>("a")]);
      seen.push([first?.n, second?.n]);
      tx.create({ rowKey: "b", n: first?.n });
    });
    expect(seen.at(-1)).toEqual([2, 2]);
    for (const pair of seen as [number, number][]) expect(pair[0]).toBe(pair[1]);
    expect(valueOf(table, "b")).toBe(2);
  });

  test("ranges without the rows that the library keeps, and without tombstones", async () => {
    const { table } = fakePartition({ a: 1, b: 2, c: 3, "~asc~fence": 4 });
    table.put({ asc_tombstone: { type: "Boolean", value: true } }, "p", "bb");
    const value = await runTransaction(table, "p", async (tx) => {
      const all = await tx.query();
      const some = await tx.query({ from: "b", to: "c", filter: "n ge 3" });
      return [all, some].map((entities) => entities.map(({ rowKey }) => rowKey));
    });
    expect(value).toEqual([["a", "b", "c"], ["c"]]);
  });
});

describe("what a transaction does", () => {
  test("nothing, and sends nothing, if it changes nothing", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const result = await runTransaction(table, "p", async (tx) => {
      const a = await tx.get<Numbered>("a");
      tx.update({ rowKey: "a", n: 1 });
      return a?.n;
    });
    expect(result).toBe(1);
    expect(service.operations).toEqual(["getEntity"]);
  });

  test("does not read what it has created", async () => {
    const { service, table } = fakePartition();
    const value = await runTransaction(table, "p", async (tx) => {
      tx.create({ rowKey: "a", n: 1 });
      return (await tx.get<Numbered>("a"))?.n;
    });
    expect(value).toBe(1);
    expect(service.operations).toEqual(["submitTransaction"]);
  });

  test("create, update, replace, upsert and delete, all in one request", async () => {
    const { service, table } = fakePartition({ merged: 1, replaced: 2, there: 3, gone: 4 });
    table.merge({ kept: { type: "String", value: "x" } }, "p", "merged");
    table.merge({ dropped: { type: "String", value: "x" } }, "p", "replaced");
    await runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "new", n: 5 });
      tx.update({ rowKey: "merged", n: 11 });
      tx.replace({ rowKey: "replaced", n: 12 });
      tx.upsert({ rowKey: "there", n: 13 });
      tx.upsert({ rowKey: "not-there", n: 14 });
      tx.delete("gone");
    });
    await expect.poll(() => table.rowKeys()).toEqual(["merged", "new", "not-there", "replaced", "there"]);
    expect(service.count("submitTransaction")).toBe(1);
    expect(table.property("kept", "p", "merged")?.value).toBe("x");
    expect(table.property("dropped", "p", "replaced")).toBeUndefined();
    expect(["new", "merged", "replaced", "there", "not-there"].map((rowKey) => valueOf(table, rowKey))).toEqual([5, 11, 12, 13, 14]);
  });

  test("sends a property that did not change to nobody, so that its type survives", async () => {
    const { table } = fakePartition();
    table.put({ price: { type: "Double", value: 5 }, n: { type: "Int32", value: 1 } }, "p", "a");
    await runTransaction(table, "p", async (tx) => tx.update({ ...(await tx.get("a")), rowKey: "a", n: 2 }));
    expect(table.property("price", "p", "a")).toEqual({ type: "Double", value: 5 });
    expect(Object.keys(table.submitted[0]![0]![1]).sort()).toEqual(["asc_journal", "n", "partitionKey", "rowKey"]);
  });

  test("replaces by deleting and creating in one function, in that order", async () => {
    const { table } = fakePartition({ a: 1 });
    await runTransaction(table, "p", (tx) => {
      tx.delete("a");
      tx.create({ rowKey: "a", n: 2 });
    });
    expect(valueOf(table, "a")).toBe(2);
    await expect(
      runTransaction(table, "p", (tx) => {
        tx.delete("missing");
        tx.create({ rowKey: "missing", n: 2 });
      }),
    ).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TARGET_NOT_FOUND"));
    expect(table.rowKeys()).toEqual(["a"]);
  });
});

describe("create never overwrites", () => {
  test("a row that the same transaction then reads", async () => {
    const { table } = fakePartition({ a: 1 });
    const creating = runTransaction(table, "p", async (tx) => {
      tx.create({ rowKey: "a", n: 2 });
      await tx.get("a");
      await tx.getMany(["a", "b"]);
      await tx.query();
    });
    await expect(creating).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "ALREADY_EXISTS"));
    expect(valueOf(table, "a")).toBe(1);
  });

  test("a row that another transaction of the round then reads", async () => {
    const { table } = fakePartition({ a: 1, b: 1 });
    const creating = runTransaction(table, "p", (tx) => tx.create({ rowKey: "a", n: 2 }));
    const reading = runTransaction(table, "p", async (tx) => {
      const a = await tx.get<Numbered>("a");
      tx.update({ rowKey: "b", n: a?.n });
    });
    await expect(creating).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "ALREADY_EXISTS"));
    await reading;
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([1, 1]);
  });

  test("a row that is deleted again by the next transaction of the round", async () => {
    const { table } = fakePartition({ a: 1 });
    const creating = runTransaction(table, "p", (tx) => tx.create({ rowKey: "a", n: 2 }));
    const deleting = runTransaction(table, "p", (tx) => tx.delete("a"));
    await expect(creating).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "ALREADY_EXISTS"));
    await deleting;
    await expect.poll(() => table.rowKeys()).toEqual([]);
  });
});

describe("serializability", () => {
  test("write skew does not happen: what was only read is validated in the request that writes", async () => {
    const { service, table } = fakePartition({ a: 1, b: 1 });
    service.next("submitTransaction", before(() => set(table, "b", 0)));
    const seen: number[] = [];
    const attempts = await runTransaction(table, "p", async (tx) => {
      const [a, b] = await tx.getMany<Numbered>(["a", "b"]);
      seen.push(b!.n);
      if (a!.n + b!.n > 1) tx.update({ rowKey: "a", n: a!.n - 1 });
      return tx.attempt;
    });
    expect(seen).toEqual([1, 0]);
    expect(attempts).toBe(2);
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([1, 0]);
  });

  test("that a row was missing is validated, too", async () => {
    const { service, table } = fakePartition({ a: 1 });
    service.next("submitTransaction", before(() => set(table, "flag", 1)));
    const value = await runTransaction(table, "p", async (tx) => {
      const flag = await tx.get("flag");
      if (!flag) tx.update({ rowKey: "a", n: 2 });
      return flag?.rowKey;
    });
    expect(value).toBe("flag");
    expect(valueOf(table, "a")).toBe(1);
  });

  test("reads of several rows are of one state, also if nothing is written", async () => {
    const { service, table } = fakePartition({ a: 1, b: -1 });
    service.next("getEntity", before(() => undefined), before(() => {
      set(table, "a", 2);
      set(table, "b", -2);
    }));
    const value = await runTransaction(table, "p", async (tx) => [(await tx.get<Numbered>("a"))?.n, (await tx.get<Numbered>("b"))?.n]);
    expect(value).toEqual([2, -2]);
  });

  test("an error rests on one state as well", async () => {
    const { service, table } = fakePartition({ a: 1, b: -1 });
    service.next("getEntity", before(() => undefined), before(() => {
      set(table, "a", 2);
      set(table, "b", -2);
    }));
    const checking = runTransaction(table, "p", async (tx) => {
      const sum = (await tx.get<Numbered>("a"))!.n + (await tx.get<Numbered>("b"))!.n;
      if (sum !== 0) throw new Error("out of balance");
      return "in balance";
    });
    await expect(checking).resolves.toBe("in balance");
  });

  test("with detectPhantoms an insert into a queried range is noticed", async () => {
    const { service, table, other } = fakePartition({ a: 1 });
    service.next("submitTransaction", before(() => runTransaction(other, "p", (tx) => tx.create({ rowKey: "b", n: 1 }), { detectPhantoms: true })));
    const value = await runTransaction(
      table,
      "p",
      async (tx) => {
        const rows = await tx.query();
        tx.upsert({ rowKey: "z-count", n: rows.length });
        return rows.length;
      },
      { detectPhantoms: true },
    );
    expect(value).toBe(2);
  });

  test("with detectPhantoms two queries are of one state, also if they find nothing and nothing is written", async () => {
    const { service, table, other } = fakePartition({ b: 1 });
    const moveIt = (): Promise<unknown> =>
      runTransaction(
        other,
        "p",
        (tx) => {
          tx.delete("b");
          tx.create({ rowKey: "a", n: 1 });
        },
        { detectPhantoms: true },
      );
    // It is moved between the two queries, out of the range of the second and into that of the first.
    // Bound to the context of the test: another process does not run inside the function of this one.
    service.next("listEntities", before(() => undefined), before(AsyncResource.bind(moveIt)));
    const value = await runTransaction(
      table,
      "p",
      async (tx) => [(await tx.query({ to: "a" })).length, (await tx.query({ from: "b" })).length],
      { detectPhantoms: true },
    );
    expect(value).toEqual([1, 0]);
  });
});

describe("beside optimisticUpdate", () => {
  test("an update takes a tombstone for a missing entity, and what it creates there is an entity again", async () => {
    const { service, table, other } = fakePartition({ a: 1 });
    service.next("deleteEntity", before(() => Promise.reject(new Error("the process died before it cleaned up"))));
    await runTransaction(table, "p", (tx) => tx.delete("a"));
    await expect.poll(() => service.count("deleteEntity")).toBe(1);
    expect(table.rowKeys()).toEqual(["a"]);
    await expect(optimisticUpdate(tableEntity<Numbered>(other, "p", "a"), (e) => { e.n++; })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TARGET_NOT_FOUND"));
    const { outcome } = await optimisticUpdate(tableEntity<Numbered>(other, "p", "a"), (e) => { e.n++; }, { initial: { n: 6 } });
    expect(outcome).toBe("created");
    const value = await runTransaction(table, "p", (tx) => tx.get<Numbered>("a"));
    expect(value?.n).toBe(7);
  });
});
