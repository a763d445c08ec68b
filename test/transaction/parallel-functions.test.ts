import { describe, expect, onTestFinished, test, vi } from "vitest";

import { runTransaction } from "../../src/index.js";
import type { RunTransactionOptions, Transaction } from "../../src/index.js";
import { delay } from "../../src/core/deadline.js";
import { FakeService } from "../fakes/fake-service.js";
import { gate } from "../fakes/faults.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { FakeTransactionTable } from "./fakes/fake-transaction-table.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

useFakeTimers();

/** A service whose requests take 20 ms each, any number at a time. */
class DistantService extends FakeService {
  override async request<R>(...args: Parameters<FakeService["request"]>): Promise<R> {
    await delay(20);
    return super.request(...args) as Promise<R>;
  }
}

const count = 50;
const rowKeys = Array.from({ length: count }, (_, i) => `r${i}`);

type Body = (tx: Transaction, rowKey: string) => unknown;

async function add(tx: Transaction, rowKey: string): Promise<void> {
  tx.update({ rowKey, n: (await tx.get<Numbered>(rowKey))!.n + 1 });
}

/** Runs 50 transactions at once, each with a row of its own; returns what they took and how often each function ran. */
async function measure(body: Body, options: RunTransactionOptions = {}, more: readonly string[] = []) {
  const service = new DistantService();
  const table = new FakeTransactionTable(service);
  for (const rowKey of [...rowKeys, ...more]) set(table, rowKey, 0);
  const runs = new Map<string, number>();
  const started = performance.now();
  let ended = started;
  const calls = rowKeys.map((rowKey) =>
    runTransaction(table, "p", async (tx) => {
      runs.set(rowKey, (runs.get(rowKey) ?? 0) + 1);
      await body(tx, rowKey);
    }, options).then(() => (ended = performance.now())),
  );
  await inFakeTime(Promise.all(calls));
  return { table, service, runs: [...runs.values()], tookInMs: ended - started };
}

const once = rowKeys.map(() => 1);

describe("50 transactions with rows of their own", () => {
  test.each<[string, Body, readonly string[]]>([
    ["read a row and write it", add, []],
    ["write a row without reading it", (tx, rowKey) => tx.update({ rowKey, n: 1 }), []],
    ["read two rows, one after the other", async (tx, rowKey) => {
      await tx.get(`${rowKey}-2`);
      await add(tx, rowKey);
    }, rowKeys.map((rowKey) => `${rowKey}-2`)],
    ["query a range and write a row in it", async (tx, rowKey) => {
      const [row] = await tx.query<Numbered>({ from: rowKey, to: rowKey });
      tx.update({ rowKey, n: row!.n + 1 });
    }, []],
  ])("%s: they take no longer than without coalescing, and each function runs once", async (_, body, more) => {
    const alone = await measure(body, { coalesce: false }, more);
    const together = await measure(body, {}, more);
    expect(together.tookInMs).toBeLessThanOrEqual(alone.tookInMs * 1.1);
    expect(together.service.count("submitTransaction")).toBe(1);
    expect(together.runs).toEqual(once);
    for (const { table } of [alone, together]) expect(rowKeys.map((rowKey) => valueOf(table, rowKey))).toEqual(once);
  });

  test("that only read cost one request each", async () => {
    const { service, tookInMs } = await measure((tx, rowKey) => tx.get(rowKey));
    expect(service.operations).toEqual(rowKeys.map(() => "getEntity"));
    expect(tookInMs).toBe(20);
  });

  test("that read more rows than a request can have are one batch, as long as they write nothing", async () => {
    const { service, runs, tookInMs } = await measure((tx, rowKey) => tx.getMany([rowKey, `${rowKey}-2`, `${rowKey}-3`]));
    expect(runs).toEqual(once);
    expect(service.count("write")).toBe(0);
    // 50 queries at once, and 11 to validate 150 rows, 8 at a time.
    expect(service.count("read")).toBe(count + 11);
    expect(tookInMs).toBe(60);
  });

  test("that do not fit into one request run once each, and are committed in several", async () => {
    const { table, service, runs, tookInMs } = await measure(async (tx, rowKey) => {
      await Promise.all([add(tx, rowKey), add(tx, `${rowKey}-2`), add(tx, `${rowKey}-3`)]);
    }, {}, rowKeys.flatMap((rowKey) => [`${rowKey}-2`, `${rowKey}-3`]));
    expect(runs).toEqual(once);
    expect(service.count("submitTransaction")).toBe(2);
    expect(rowKeys.map((rowKey) => valueOf(table, `${rowKey}-3`))).toEqual(once);
    expect(tookInMs).toBe(60);
  });

  test("that also read one common row wait for the first of them, not for each other", async () => {
    const { table, service, runs, tookInMs } = await measure(async (tx, rowKey) => {
      await tx.get("common");
      await add(tx, rowKey);
    }, {}, ["common"]);
    expect(runs).toEqual(once);
    expect(service.count("getEntity")).toBe(count + 1);
    expect(rowKeys.map((rowKey) => valueOf(table, rowKey))).toEqual(once);
    // The first reads two rows, the others read their own after that, and all are committed together.
    expect(tookInMs).toBeLessThanOrEqual(80);
  });
});

describe("transactions with a common row that they write", () => {
  test.each<[string, Body, (table: FakeTransactionTable) => unknown]>([
    ["read", (tx) => add(tx, "common"), (table) => valueOf(table, "common")],
    ["do not read", (tx, rowKey) => tx.upsert({ rowKey: "common", [`by_${rowKey}`]: 1 }), (table) => [...table.row("p", "common")!.properties.keys()].filter((name) => name.startsWith("by_")).length],
  ])("and %s run once each, each on what those before it wrote", async (_, body, result) => {
    const { table, service, runs } = await measure(body, {}, ["common"]);
    expect(runs).toEqual(once);
    expect(service.operations).toEqual(["getEntity", "submitTransaction"]);
    expect(result(table)).toBe(count);
  });

  test("and read it too early run again at once, under the same number", async () => {
    const { service, table } = fakePartition({ a: 1, b: 1 });
    const slow = gate();
    service.next("getEntity", slow.fault);
    const seen: number[][] = [];
    // The first reads b only after the second has read it, and doubles it.
    const first = runTransaction(table, "p", async (tx) => {
      await tx.get("a");
      tx.update({ rowKey: "b", n: (await tx.get<Numbered>("b"))!.n * 2 });
    });
    const second = runTransaction(table, "p", async (tx) => {
      const { n } = (await tx.get<Numbered>("b"))!;
      seen.push([n, tx.attempt]);
      tx.update({ rowKey: "b", n: n + 10 });
    }, { maxAttempts: 1 });
    await slow.reached;
    await vi.advanceTimersByTimeAsync(1);
    slow.open();
    await inFakeTime(Promise.all([first, second]));
    expect(seen).toEqual([[1, 1], [2, 1]]);
    expect(valueOf(table, "b")).toBe(12);
    expect(service.count("submitTransaction")).toBe(1);
  });

  test("and insert the same row: the second one learns that it exists", async () => {
    const { service, table } = fakePartition();
    const create = (n: number) => runTransaction(table, "p", (tx) => tx.create({ rowKey: "new", n }));
    const [first, second] = await inFakeTime(Promise.allSettled([create(1), create(2)]));
    expect(first.status).toBe("fulfilled");
    expect(second).toMatchObject({ reason: { code: "ALREADY_EXISTS" } });
    expect(service.operations).toEqual(["submitTransaction"]);
    expect(valueOf(table, "new")).toBe(1);
  });

  test("and query: rows that an earlier one adds to the range are seen", async () => {
    const { table } = fakePartition({ a: 1, z: 0 });
    const adding = runTransaction(table, "p", async (tx) => {
      await tx.get("z");
      tx.create({ rowKey: "b", n: 1 });
    });
    const counting = runTransaction(table, "p", async (tx) => {
      const found = (await tx.query({ to: "y" })).map(({ rowKey }) => rowKey);
      tx.update({ rowKey: "z", n: found.length });
      return found;
    });
    await inFakeTime(Promise.all([adding, counting]));
    expect(await counting).toEqual(["a", "b"]);
    expect(valueOf(table, "z")).toBe(2);
  });
});

describe("the time of a batch", () => {
  test("is limited: functions that wait for each other are committed in several batches", async () => {
    const { service, table } = fakePartition({ common: 0 });
    const started = performance.now();
    const took: number[] = [];
    const calls = rowKeys.map(() =>
      runTransaction(table, "p", async (tx) => {
        const { n } = (await tx.get<Numbered>("common"))!;
        await delay(20);
        tx.update({ rowKey: "common", n: n + 1 });
      }).then(() => took.push(performance.now() - started)),
    );
    await inFakeTime(Promise.all(calls));
    expect(valueOf(table, "common")).toBe(count);
    expect(service.count("submitTransaction")).toBe(5);
    expect(took.filter((time) => time <= 200)).toHaveLength(10);
    expect(Math.max(...took)).toBe(1_000);
  });

  test("is limited for functions that compute: the rest is started after a commit", async () => {
    const { service, table } = fakePartition();
    let computed = 0;
    const now = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => now() + computed);
    onTestFinished(() => void vi.restoreAllMocks());
    const calls = rowKeys.map((rowKey) =>
      runTransaction(table, "p", (tx) => {
        computed += 20;
        tx.create({ rowKey, n: 1 });
      }),
    );
    await inFakeTime(Promise.all(calls));
    expect(table.submitted.map((actions) => actions.length)).toEqual([10, 10, 10, 10, 10]);
    expect(service.operations).toEqual(Array(5).fill("submitTransaction"));
  });

  test("does not end the functions that read slowly", async () => {
    const { service, table } = fakePartition({ a: 0, b: 0 });
    const slow = gate();
    service.next("getEntity", slow.fault);
    const both = Promise.all(["a", "b"].map((rowKey) => runTransaction(table, "p", (tx) => add(tx, rowKey))));
    await vi.advanceTimersByTimeAsync(900);
    slow.open();
    await inFakeTime(both);
    expect(service.operations).toEqual(["getEntity", "getEntity", "submitTransaction"]);
  });
});

test("the size of an operation is computed once, however many calls the batch has", async () => {
  const { table } = fakePartition(Object.fromEntries(rowKeys.map((rowKey) => [rowKey, 0])));
  const encode = vi.spyOn(TextEncoder.prototype, "encode");
  onTestFinished(() => encode.mockRestore());
  await inFakeTime(Promise.all(rowKeys.map((rowKey) => runTransaction(table, "p", (tx) => add(tx, rowKey)))));
  expect(table.submitted).toHaveLength(1);
  expect(encode.mock.calls.filter(([text]) => text?.startsWith("["))).toHaveLength(count);
});
