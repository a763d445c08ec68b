import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { isConcurrencyError } from "../../src/index.js";
import type { FencedPartition } from "../../src/index.js";
import { useLease } from "../../src/lease/with-lease.js";
import { gate, hang, hangAfterCommit } from "../fakes/faults.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";
import { holderOf } from "./held-table.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

type Call = (partition: FencedPartition) => Promise<unknown>;

async function all(items: AsyncIterable<unknown>): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const reads: [string, string, Call][] = [
  ["get", "getEntity", (p) => p.get("a")],
  ["list", "listEntities", (p) => all(p.list())],
];
const writes: [string, string, Call][] = [
  ["update", "submitTransaction", (p) => p.update<Numbered>("a", (e) => { e.n = 9; })],
  ["create", "submitTransaction", (p) => p.create({ rowKey: "b", n: 9 })],
  ["delete", "submitTransaction", (p) => p.delete("a")],
  ["submit", "submitTransaction", (p) => p.submit([["upsert", { rowKey: "a", n: 9 }, "Replace"]])],
];
const ends: [string, (held: ReturnType<typeof holderOf>) => unknown][] = [
  ["was released", (held) => held.release()],
  ["is lost", (held) => held.lose()],
];

describe.each(ends)("after the lock %s", (_, end) => {
  test.each([...reads, ...writes])("%s rejects before it sends anything", async (_name, _operation, call) => {
    const { service, table } = fakePartition({ a: 1 });
    const held = holderOf(table, 7);
    const partition = await held.partition("p");
    await end(held);
    const before = service.count();
    await expect(call(partition)).rejects.toSatisfy((error) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false && error.url !== undefined);
    expect(service.count()).toBe(before);
    expect(valueOf(table, "a")).toBe(1);
  });

  test("partition rejects before it sends anything, also for one that is open", async () => {
    const { service, table } = fakePartition();
    const held = holderOf(table, 7);
    await held.partition("p");
    await end(held);
    const before = service.count();
    for (const key of ["p", "q"]) await expect(held.partition(key)).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false);
    expect(service.count()).toBe(before);
  });
});

describe.each(ends)("if the lock %s meanwhile", (_, end) => {
  test.each(reads)("%s in flight ends, and says that nothing was written", async (_name, operation, call) => {
    const { service, table } = fakePartition({ a: 1 });
    const held = holderOf(table, 7);
    const partition = await held.partition("p");
    service.next(operation, hang);
    const calling = call(partition);
    await expect.poll(() => service.operations.at(-1)).toBe(operation);
    void end(held);
    await expect(calling).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false);
  });

  test.each(writes)("%s in flight ends, and says that its outcome is unknown", async (_name, operation, call) => {
    const { service, table } = fakePartition({ a: 1 });
    const held = holderOf(table, 7);
    const partition = await held.partition("p");
    const sent = service.count(operation);
    service.next(operation, hangAfterCommit);
    const calling = call(partition);
    await expect.poll(() => service.count(operation)).toBe(sent + 1);
    void end(held);
    await expect(calling).rejects.toSatisfy(
      (error: unknown) => isConcurrencyError(error, "COMMIT_UNKNOWN") && error.committed === "unknown" && error.operationId !== "" && isConcurrencyError(error.cause, "LEASE_LOST"),
    );
  });

  test("an update whose mutator runs writes nothing, and says so", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const held = holderOf(table, 7);
    const partition = await held.partition<Numbered>("p");
    const updating = partition.update("a", async (entity) => {
      entity.n = 9;
      await end(held);
    });
    await expect(updating).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false);
    expect(service.count("submitTransaction")).toBe(1);
  });

  test("opening a partition ends", async () => {
    const { service, table } = fakePartition();
    const held = holderOf(table, 7);
    service.next("submitTransaction", hang);
    const opening = held.partition("p");
    await expect.poll(() => service.count("submitTransaction")).toBe(1);
    void end(held);
    await expect(opening).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false);
  });
});

test("a holder that was paused, and whose timers have not run yet, is stopped by the clock before it sends", async () => {
  const { service, table } = fakePartition({ a: 1 });
  const held = holderOf(table, 7);
  const partition = await held.partition<Numbered>("p");
  const updating = partition.update("a", (entity) => {
    entity.n = 9;
    held.pause(); // the clock shows the loss; the signal has not aborted
  });
  await expect(updating).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false);
  expect(service.count("submitTransaction")).toBe(1);
  expect(valueOf(table, "a")).toBe(1);
});

test("a list ends in the middle of a page when the lock is lost", async () => {
  const { table } = fakePartition({ a: 1, b: 2, c: 3 });
  const held = holderOf(table, 7);
  const items = (await held.partition("p")).list();
  expect((await items.next()).done).toBe(false);
  held.lose();
  await expect(items.next()).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST"));
});

test("the caller's own signal ends a list, a get and a submit with its reason", async () => {
  const { service, table } = fakePartition({ a: 1 });
  const partition = await holderOf(table, 7).partition("p");
  for (const [operation, call] of [
    ["listEntities", (abortSignal) => all(partition.list({ abortSignal }))],
    ["getEntity", (abortSignal) => partition.get("a", { abortSignal })],
    ["submitTransaction", (abortSignal) => partition.delete("a", { abortSignal })],
  ] as [string, (abortSignal: AbortSignal) => Promise<unknown>][]) {
    const controller = new AbortController();
    service.next(operation, hang);
    const sent = service.count(operation);
    const calling = call(controller.signal);
    await expect.poll(() => service.count(operation)).toBe(sent + 1);
    controller.abort(new Error("no longer wanted"));
    await expect(calling).rejects.toThrow("no longer wanted");
  }
});

test("withLock reports the loss itself, which does not say that fn wrote nothing", async () => {
  const { table } = fakePartition({ a: 1 });
  const held = holderOf(table, 7);
  const locked = useLease("TableLock.withLock", held, async (mine) => {
    const partition = await mine.partition("p");
    await partition.submit([["upsert", { rowKey: "a", n: 2 }, "Replace"]]);
    held.lose();
    await partition.submit([["upsert", { rowKey: "a", n: 3 }, "Replace"]]);
  });
  await expect(locked).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === "unknown");
  expect(valueOf(table, "a")).toBe(2);
});

describe("two calls that open a partition at the same time", () => {
  test("share one raise", async () => {
    const { service, table } = fakePartition();
    const held = holderOf(table, 7);
    const [one, two] = await Promise.all([held.partition("p"), held.partition("p")]);
    expect(one).toBe(two);
    expect(service.operations).toEqual(["getEntity", "submitTransaction"]);
  });

  test("do not reject each other: one that is cancelled leaves the raise to the other", async () => {
    const { service, table } = fakePartition();
    const held = holderOf(table, 7);
    const held1 = gate();
    service.next("submitTransaction", held1.fault);
    const controller = new AbortController();
    const first = held.partition("p", { abortSignal: controller.signal });
    const second = held.partition("p");
    await held1.reached;
    controller.abort(new Error("no longer wanted"));
    await expect(first).rejects.toThrow("no longer wanted");
    held1.open();
    await (await second).create({ rowKey: "a", n: 1 });
    expect(service.operations).toEqual(["getEntity", "submitTransaction", "submitTransaction"]);
  });

  test("abort the raise when both are cancelled", async () => {
    const { service, table } = fakePartition();
    const held = holderOf(table, 7);
    service.next("submitTransaction", hang);
    const controller = new AbortController();
    const opening = [held.partition("p", { abortSignal: controller.signal }), held.partition("p", { abortSignal: controller.signal })];
    await expect.poll(() => service.count("submitTransaction")).toBe(1);
    controller.abort();
    for (const open of opening) await expect(open).rejects.toMatchObject({ name: "AbortError" });
    set(table, "a", 1);
    expect(await (await held.partition("p")).get("a")).toMatchObject({ n: 1 });
  });
});
