import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";

import { isConcurrencyError, runTransaction } from "../../src/index.js";
import type { LockedTable } from "../../src/index.js";
import { after, answer, before, failAfterCommit, gate, hang, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import { inFakeTime } from "../support/timers.js";
import { holderOf as holder } from "./held-table.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

describe("a holder that has a successor", () => {
  test.each([
    ["submit", (held: LockedTable) => held.partition("p").then((p) => p.submit([["upsert", { rowKey: "a", n: -1 }]]))],
    ["update", (held: LockedTable) => held.partition("p").then((p) => p.update<Numbered>("a", (e) => { e.n = -1; }))],
    ["delete", (held: LockedTable) => held.partition("p").then((p) => p.delete("a"))],
    ["create", (held: LockedTable) => held.partition("p").then((p) => p.create({ rowKey: "b", n: -1 }))],
  ])("is refused by the service at its next %s", async (_, write) => {
    const { table, other } = fakePartition({ a: 1 });
    const old = holder(table, 7);
    await old.partition("p");
    await holder(other, 9).partition("p");
    await expect(write(old)).rejects.toSatisfy((error) => isConcurrencyError(error, "FENCED") && error.epoch === 7 && error.fencedBy === 9);
    expect(table.rowKeys()).toEqual(["a", "~asc~fence"]);
    expect(valueOf(table, "a")).toBe(1);
  });

  test("is refused in the request itself if the successor comes while it is on its way", async () => {
    const { service, table, other } = fakePartition({ a: 1 });
    const partition = await holder(table, 7).partition("p");
    service.next("submitTransaction", before(() => holder(other, 8).partition("p")));
    await expect(partition.submit([["update", { rowKey: "a", n: -1 }]])).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "FENCED"));
    expect(valueOf(table, "a")).toBe(1);
  });

  test("is refused also if the answer that says so is lost", async () => {
    const { service, table, other } = fakePartition({ a: 1 });
    const partition = await holder(table, 7).partition("p");
    await holder(other, 8).partition("p");
    service.next("submitTransaction", loseAnswerForGood);
    await expect(partition.submit([["update", { rowKey: "a", n: -1 }]])).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "FENCED"));
    expect(valueOf(table, "a")).toBe(1);
  });

  test("knows that its last write landed, although the successor came before the answer was looked for", async () => {
    const { service, table, other } = fakePartition({ a: 1 });
    const partition = await holder(table, 7).partition("p");
    service.next("submitTransaction", after(() => holder(other, 8).partition("p"), loseAnswerForGood));
    await partition.submit([["update", { rowKey: "a", n: 2 }]]);
    expect(valueOf(table, "a")).toBe(2);
  });

  test("cannot open the partition any more", async () => {
    const { table, other } = fakePartition();
    await holder(other, 9).partition("p");
    await expect(holder(table, 7).partition("p")).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "FENCED"));
  });
});

describe("opening a partition", () => {
  test("costs a read and a write before anything else is read", async () => {
    const { service, table } = fakePartition();
    await holder(table, 7).partition("p");
    expect(service.operations).toEqual(["getEntity", "submitTransaction"]);
  });

  test.each([loseAnswer, loseAnswerForGood, loseRequest, failAfterCommit])("succeeds whatever becomes of an answer (%#)", async (fault) => {
    const { service, table } = fakePartition();
    service.next("submitTransaction", fault);
    const partition = await holder(table, 7).partition("p");
    await partition.create({ rowKey: "a", n: 1 });
    expect(valueOf(table, "a")).toBe(1);
  });

  test("is done once for all who ask at the same time, and again after a failure", async () => {
    const { service, table } = fakePartition();
    service.next("getEntity", answer(403, "AuthorizationFailure"));
    const held = holder(table, 7);
    await expect(held.partition("p")).rejects.toMatchObject({ statusCode: 403 });
    const [one, two] = await Promise.all([held.partition("p"), held.partition("p")]);
    expect(one).toBe(two);
    expect(service.count()).toBe(3);
  });
});

describe("writing", () => {
  test.each([loseAnswer, loseAnswerForGood, loseRequest, failAfterCommit])("happens once whatever becomes of an answer (%#)", async (fault) => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table, 7).partition("p");
    service.next("submitTransaction", fault);
    await partition.update<Numbered>("a", (e) => { e.n += 1; });
    service.next("submitTransaction", fault);
    await partition.create({ rowKey: "b", n: 1 });
    service.next("submitTransaction", fault);
    await partition.delete("b");
    expect(table.rowKeys()).toEqual(["a", "~asc~fence"]);
    expect(valueOf(table, "a")).toBe(2);
  });

  test("a condition of the caller's own is a conflict and no fence, and the partition can be used on", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table, 7).partition("p");
    service.next("submitTransaction", before(() => set(table, "a", 5)));
    const { etag } = (await table.getEntity("p", "a")) as { etag: string };
    await expect(partition.submit([["update", { rowKey: "a", n: 9 }, "Merge", { etag }]])).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "CONFLICT"));
    await partition.update<Numbered>("a", (e) => { e.n += 1; });
    expect(valueOf(table, "a")).toBe(6);
  });

  test("several at a time go one after the other", async () => {
    const { service, table } = fakePartition();
    const partition = await holder(table, 7).partition("p");
    await Promise.all(Array.from({ length: 5 }, (_, n) => partition.create({ rowKey: `r${n}`, n })));
    expect(service.count("submitTransaction")).toBe(6);
    expect(table.rowKeys()).toHaveLength(6);
  });

  test("that is aborted rejects with the caller's reason, and holds up nobody behind it", async () => {
    const { service, table } = fakePartition();
    const partition = await holder(table, 7).partition("p");
    service.next("submitTransaction", hang);
    const controller = new AbortController();
    const aborted = partition.create({ rowKey: "a", n: 1 }, { abortSignal: controller.signal });
    const next = partition.create({ rowKey: "b", n: 1 });
    await expect.poll(() => service.count("submitTransaction")).toBe(2);
    controller.abort(new Error("no longer wanted"));
    await expect(aborted).rejects.toThrow("no longer wanted");
    await next;
    expect(table.rowKeys()).toEqual(["b", "~asc~fence"]);
  });

  test.each(["getEntity", "submitTransaction"])("outlasts a swallowed %s, and so do those behind it", async (operation) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table, 7).partition("p");
    // The response to the first write is lost: the next one has to read the fence.
    service.next("submitTransaction", loseAnswerForGood);
    await partition.submit([["update", { rowKey: "a", n: 2 }]]);
    service.next(operation, hang);
    const patient = partition.submit([["update", { rowKey: "a", n: 3 }]]);
    const behind = partition.submit([["upsert", { rowKey: "b", n: 1 }]]);
    await inFakeTime(Promise.all([patient, behind]));
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([3, 1]);
  });

  test("an unchanged update sends nothing, and a missing entity needs initial", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table, 7).partition("p");
    expect(await partition.update("a", () => undefined)).toMatchObject({ outcome: "unchanged", attempts: 1 });
    expect(service.count("submitTransaction")).toBe(1);
    await expect(partition.update("b", () => undefined)).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TARGET_NOT_FOUND"));
    expect(await partition.update("b", (e) => { e["n"] = 2; }, { initial: () => ({ n: 1 }) })).toMatchObject({ outcome: "created", value: { partitionKey: "p", rowKey: "b", n: 2 } });
  });

  test("an update takes a tombstone for nothing, and replaces it", async () => {
    const { table } = fakePartition();
    table.put({ asc_tombstone: { type: "Boolean", value: true } }, "p", "a");
    const partition = await holder(table, 7).partition("p");
    expect(await partition.get("a")).toBeUndefined();
    await partition.update("a", () => undefined, { initial: { n: 1 } });
    expect(await partition.get("a")).toEqual({ partitionKey: "p", rowKey: "a", n: 1 });
  });
});

test("the fences of two entities of one partition are in nobody's way", async () => {
  const { table, other } = fakePartition();
  const [a, b] = await Promise.all([holder(table, 7, "a").partition(), holder(other, 9, "b").partition()]);
  await Promise.all([a.create({ rowKey: "a", n: 1 }), b.create({ rowKey: "b", n: 1 })]);
  await expect(a.get("b")).rejects.toThrow(TypeError);
  expect(table.rowKeys()).toEqual(["a", "b", "~asc~fence", "~asc~fence~a", "~asc~fence~b"]);
});

test("list gives entities without the library's own rows, page after page", async () => {
  const { table } = fakePartition({ a: 1, b: 2, c: 3 });
  table.put({ asc_tombstone: { type: "Boolean", value: true } }, "p", "bb");
  table.pageSize = 2;
  const partition = await holder(table, 7).partition("p");
  const listed: string[] = [];
  for await (const { rowKey } of partition.list({ filter: "n ge 2" })) listed.push(rowKey);
  expect(listed).toEqual(["b", "c"]);
});

test("transactions beside the lock are not stopped by it", async () => {
  const { service, table, other } = fakePartition({ a: 1 });
  const partition = await holder(table, 7).partition("p");
  const held = gate();
  service.next("submitTransaction", held.fault);
  const writing = partition.submit([["update", { rowKey: "a", n: 5 }]]);
  await held.reached;
  await runTransaction(other, "p", (tx) => tx.update({ rowKey: "a", n: 3 }));
  held.open();
  await writing;
  expect(valueOf(table, "a")).toBe(5);
});
