import { expect, test } from "vitest";

import { runTransaction } from "../../src/index.js";
import type { TableLike } from "../../src/index.js";
import { fakePartition, set } from "./fakes/partition.js";
import { answer, hang } from "../fakes/faults.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTransactionTable } from "./fakes/fake-transaction-table.js";
import type { Numbered } from "./fakes/partition.js";

/** Records how long the URL of each query would be. */
class MeasuringTable extends FakeTransactionTable {
  readonly filters: number[] = [];

  override listEntities(options: NonNullable<Parameters<TableLike["listEntities"]>[0]> = {}): ReturnType<TableLike["listEntities"]> {
    this.filters.push(encodeURIComponent(options.queryOptions?.filter ?? "").length);
    return super.listEntities(options);
  }
}

test.each([
  ["umlauts", "ü".repeat(400), 16],
  ["characters of three bytes", "漢".repeat(500), 16],
  ["characters outside of the basic plane", "😀".repeat(250), 16],
  ["quotes", "'".repeat(500), 16],
  ["ASCII characters", "x".repeat(500), 16],
])("getMany splits row keys of many %s so that no URL is too long", async (_, long, count) => {
  const table = new MeasuringTable(new FakeService());
  const rowKeys = Array.from({ length: count }, (_, i) => `${i}${long}`);
  for (const [i, rowKey] of rowKeys.entries()) set(table, rowKey, i);
  const found = await runTransaction(table, "p", (tx) => tx.getMany<Numbered>(rowKeys));
  expect(found.map((row) => row?.n)).toEqual(rowKeys.map((_, i) => i));
  expect(Math.max(0, ...table.filters)).toBeLessThan(8_000);
});

test("the length of the partition key counts", async () => {
  const table = new MeasuringTable(new FakeService());
  const rowKeys = Array.from({ length: 14 }, (_, i) => `${i}${"ü".repeat(100)}`);
  await runTransaction(table, "漢".repeat(500), (tx) => tx.getMany(rowKeys));
  expect(Math.max(0, ...table.filters)).toBeLessThan(8_000);
});

test("short keys are read 14 with one request, and a single one with a point read", async () => {
  const { service, table } = fakePartition();
  await runTransaction(table, "p", (tx) => tx.getMany(Array.from({ length: 29 }, (_, i) => `row-${i}`), { validate: false }));
  expect(service.operations.sort()).toEqual(["getEntity", "listEntities", "listEntities"]);
});

test("if one of several requests of a getMany fails, the others are cut off", async () => {
  const { service, table } = fakePartition();
  let hung: AbortSignal | undefined;
  service.next("listEntities", answer(403, "AuthorizationFailure"), (exchange) => {
    hung = exchange.signal;
    return hang(exchange);
  });
  const rowKeys = Array.from({ length: 14 * 30 }, (_, i) => `row-${i}`);
  const reading = runTransaction(table, "p", (tx) => tx.getMany(rowKeys, { validate: false }).catch((error: unknown) => [error, hung?.aborted]));
  expect(await reading).toEqual([expect.objectContaining({ statusCode: 403 }), true]);
  expect(service.count()).toBeLessThan(30);
});
