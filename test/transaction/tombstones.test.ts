import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { purgeTombstones, runTransaction } from "../../src/index.js";
import { answer, before, hang, pass } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

const tombstone = { asc_tombstone: { type: "Boolean", value: true } };

describe("a delete", () => {
  test("is conditional: a row that was changed in between is not deleted unseen", async () => {
    const { service, table } = fakePartition({ a: 1 });
    service.next("submitTransaction", before(() => set(table, "a", 2)));
    await runTransaction(table, "p", async (tx) => {
      if ((await tx.get<Numbered>("a"))?.n === 1) tx.delete("a");
    });
    expect(valueOf(table, "a")).toBe(2);
  });

  test("never sends a delete within the transaction, as that would be unconditional", async () => {
    const { table } = fakePartition({ a: 1 });
    await runTransaction(table, "p", (tx) => tx.delete("a"));
    expect(table.submitted.flat().map(([kind]) => kind)).toEqual(["update"]);
  });

  test("does not remove what somebody put in the place of the tombstone", async () => {
    const { service, table } = fakePartition({ a: 1 });
    service.next("deleteEntity", before(() => set(table, "a", 7)));
    await runTransaction(table, "p", (tx) => tx.delete("a"));
    await expect.poll(() => service.requests.find(({ operation }) => operation === "deleteEntity")?.served).toBe(1);
    expect(valueOf(table, "a")).toBe(7);
  });

  test("a hundred of them under load are cleaned up before the load ends", async () => {
    const rows = Object.fromEntries(Array.from({ length: 240 }, (_, i) => [`r${i}`, i]));
    const { service, table } = fakePartition(rows);
    await Promise.all(Object.keys(rows).map((rowKey) => runTransaction(table, "p", (tx) => tx.delete(rowKey))));
    expect(service.count("deleteEntity")).toBeGreaterThan(100);
    await expect.poll(() => table.rowKeys()).toEqual([]);
  });
});

describe("a row that was read and is missing", () => {
  test("is validated by a tombstone, which is removed", async () => {
    const { table } = fakePartition({ a: 1 });
    await runTransaction(table, "p", async (tx) => {
      await tx.get("missing");
      tx.update({ rowKey: "a", n: 2 });
    });
    await expect.poll(() => table.rowKeys()).toEqual(["a"]);
  });

  test("is removed also if the tombstone was there before", async () => {
    const { table } = fakePartition({ a: 1 });
    table.put(tombstone, "p", "missing");
    await runTransaction(table, "p", async (tx) => {
      await tx.get("missing");
      tx.update({ rowKey: "a", n: 2 });
    });
    await expect.poll(() => table.rowKeys()).toEqual(["a"]);
  });
});

describe("cleaning up", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("that hangs holds up the next transaction for five seconds at most", async () => {
    const { service, table } = fakePartition({ a: 1, b: 1 });
    service.next("deleteEntity", hang);
    await runTransaction(table, "p", (tx) => tx.delete("a"));
    const next = runTransaction(table, "p", (tx) => tx.update({ rowKey: "b", n: 2 }));
    await vi.advanceTimersByTimeAsync(5_000);
    await next;
    expect(valueOf(table, "b")).toBe(2);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("purgeTombstones", () => {
  test("removes old tombstones and nothing else, and says how many", async () => {
    const { table } = fakePartition({ a: 1 });
    for (const rowKey of ["x", "y"]) table.put(tombstone, "p", rowKey);
    table.put(tombstone, "q", "x");
    // The fake's rows are of 2030.
    vi.setSystemTime("2030-01-01T00:30:00Z");
    expect(await purgeTombstones(table)).toEqual({ deleted: 0, kept: 0 });
    vi.setSystemTime("2030-01-01T02:00:00Z");
    expect(await purgeTombstones(table, { partitionKey: "p" })).toEqual({ deleted: 2, kept: 0 });
    vi.useRealTimers();
    expect(table.rowKeys()).toEqual(["a"]);
    expect(table.rowKeys("q")).toEqual(["x"]);
  });

  test("leaves alone what has become an entity in between", async () => {
    const { service, table } = fakePartition();
    table.put(tombstone, "p", "x");
    vi.setSystemTime("2030-01-01T02:00:00Z");
    service.next("deleteEntity", before(() => set(table, "x", 1)));
    expect(await purgeTombstones(table)).toEqual({ deleted: 0, kept: 1 });
    vi.useRealTimers();
    expect(valueOf(table, "x")).toBe(1);
  });

  test("does not count what another client has deleted in between", async () => {
    const { service, table } = fakePartition();
    for (const rowKey of ["x", "y"]) table.put(tombstone, "p", rowKey);
    vi.setSystemTime("2030-01-01T02:00:00Z");
    service.next("deleteEntity", before(() => table.drop("p", "x")));
    expect(await purgeTombstones(table)).toEqual({ deleted: 1, kept: 0 });
    vi.useRealTimers();
    expect(table.rowKeys()).toEqual([]);
  });

  test.each<[string, "listEntities" | "deleteEntity", number]>([
    ["the first page", "listEntities", 0],
    ["the second page", "listEntities", 1],
    ["a delete", "deleteEntity", 0],
  ])("ends at once when it is aborted while %s hangs, and cancels the request", async (_, operation, passed) => {
    const { service, table } = fakePartition();
    table.pageSize = 1;
    for (const rowKey of ["x", "y"]) table.put(tombstone, "p", rowKey);
    vi.setSystemTime("2030-01-01T02:00:00Z");
    let signal: AbortSignal | undefined;
    const deaf: Fault = (exchange) => {
      signal = exchange.signal;
      return new Promise(() => undefined);
    };
    service.next(operation, ...Array<Fault>(passed).fill(pass), deaf);
    const controller = new AbortController();
    const purging = purgeTombstones(table, { abortSignal: controller.signal });
    await expect.poll(() => signal).toBeDefined();
    vi.useRealTimers();
    controller.abort(new Error("no longer wanted"));
    await expect(purging).rejects.toThrow("no longer wanted");
    expect(signal!.aborted).toBe(true);
  });

  test.each<[string, "listEntities" | "deleteEntity"]>([["a page", "listEntities"], ["a delete", "deleteEntity"]])("ends after a minute if %s gets no response, and cancels the request", async (_, operation) => {
    const { service, table } = fakePartition();
    for (const rowKey of ["x", "y"]) table.put(tombstone, "p", rowKey);
    vi.setSystemTime("2030-01-01T02:00:00Z");
    let signal: AbortSignal | undefined;
    service.next(operation, (exchange) => {
      signal = exchange.signal;
      return new Promise(() => undefined);
    });
    vi.useFakeTimers({ now: new Date("2030-01-01T02:00:00Z") });
    const purging = rejection(purgeTombstones(table));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await purging).toMatchObject({ code: "OPERATION_TIMEOUT", committed: "unknown" });
    expect(signal?.aborted).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  test("ends when it is aborted, or may not delete", async () => {
    const { service, table } = fakePartition();
    table.put(tombstone, "p", "x");
    vi.setSystemTime("2030-01-01T02:00:00Z");
    await expect(purgeTombstones(table, { abortSignal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
    service.next("deleteEntity", answer(403, "AuthorizationFailure"));
    await expect(purgeTombstones(table)).rejects.toMatchObject({ statusCode: 403 });
    vi.useRealTimers();
  });
});
