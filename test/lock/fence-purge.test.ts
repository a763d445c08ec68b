import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { isConcurrencyError } from "../../src/index.js";
import { purgeFenceRows } from "../../src/lock/purge-fence-rows.js";
import { before, ghost, hang, loseAnswerForGood } from "../fakes/faults.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import { FakeLockService, holderOf } from "./held-table.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime("2031-01-01"); // the fake stores in 2030
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const purge = (table: FakeTransactionTable): ReturnType<typeof purgeFenceRows> => purgeFenceRows(table, { olderThanInMs: 0 });
const fences = (table: FakeTransactionTable): string[] => table.rowKeys().filter((rowKey) => rowKey.startsWith("~asc~"));

/** A service whose requests by one client can be followed: `onRequest` runs before each of them arrives. */
function scene(lockedRow: string | undefined) {
  const service = new FakeService();
  const [mine, other] = [new FakeTransactionTable(service), new FakeTransactionTable(service, { pipeline: {} })];
  set(mine, "a", 0);
  const locks = new FakeLockService();
  return { service, mine, other, locks, take: (table: FakeTransactionTable, epoch: number) => locks.grant(table, epoch, lockedRow) };
}

/** Everything that happens while holder 7 is at work, in this order: each at some step of holder 7. */
type Scene = ReturnType<typeof scene>;
const events: readonly ((s: Scene, state: { next?: ReturnType<Scene["take"]> }) => unknown)[] = [
  (s, state) => (state.next = s.take(s.other, 8)),
  async (_, state) => (await state.next!.partition("p")).submit([["upsert", { rowKey: "a", n: 8 }, "Replace"]]),
  (s) => purge(s.other),
  async (s, state) => {
    // Since the successor's first write, holder 7 has written nothing.
    expect(valueOf(s.mine, "a")).toBe(8);
    await (await state.next!.partition("p")).submit([["upsert", { rowKey: "a", n: 88 }, "Replace"]]);
  },
  (s) => purge(s.other),
];

/** At which step of holder 7 each of the events happens: all ways to spread `count` events over `steps` steps in order. */
function* schedules(count: number, steps: number, from = 0): Generator<number[]> {
  if (count === 0) yield [];
  else for (let step = from; step < steps; step++) for (const rest of schedules(count - 1, steps, step)) yield [step, ...rest];
}

describe.each([["the partition", undefined], ["an entity", "a"]])("purge at every step of a holder of %s, of its successor, or between both", (_, lockedRow) => {
  // Read, write, confirmation, submit; after a purge, the same again.
  const steps = 6;

  test.each([true, false])("lets no write of the old holder through after the successor's first one (the row existed before: %s)", async (existed) => {
    let rejected = 0;
    for (const schedule of schedules(events.length, steps)) {
      const s = scene(lockedRow);
      if (existed) await (await holderOf(s.mine, 6, lockedRow, s.locks).partition("p")).submit([["upsert", { rowKey: "a", n: 6 }, "Replace"]]);
      const state = {};
      let step = 0;
      let at = 0;
      const advance = async (): Promise<void> => {
        const now = step++;
        while (at < events.length && schedule[at] === now) await events[at++]!(s, state);
      };
      // Each request of holder 7 is on its way while the events of its step happen.
      const own = s.service.request.bind(s.service);
      let inside = false;
      const onTheWay = async (): Promise<void> => {
        if (inside) return;
        inside = true;
        await advance().finally(() => (inside = false));
      };
      s.service.request = async (...request) => {
        await onTheWay();
        return own(...request);
      };
      s.locks.onConfirm = onTheWay;
      const old = s.take(s.mine, 7);
      const outcome = await old
        .partition("p")
        .then((partition) => partition.submit([["upsert", { rowKey: "a", n: 7 }, "Replace"]]))
        .then(() => "written", (error: unknown) => (error as { code?: string }).code);
      inside = true;
      while (at < events.length) await events[at++]!(s, state);
      const label = JSON.stringify({ schedule, outcome });
      // The successor wrote last: whatever holder 7 wrote came before.
      expect(valueOf(s.mine, "a"), label).toBe(88);
      expect(["written", "FENCED", "LEASE_LOST", "CONFLICT"], label).toContain(outcome);
      if (outcome !== "written") rejected++;
    }
    expect(rejected).toBeGreaterThan(50);
  });
});

describe("a fence row that was deleted", () => {
  test("is not missed: the old holder's next write is rejected", async () => {
    const { mine, other, take } = scene(undefined);
    const old = await take(mine, 7).partition("p");
    await (await take(other, 8).partition("p")).submit([["upsert", { rowKey: "a", n: 8 }, "Replace"]]);
    expect(await purge(other)).toEqual({ deleted: 1, kept: 0 });
    await expect(old.submit([["upsert", { rowKey: "a", n: 7 }, "Replace"]])).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false);
    expect(valueOf(mine, "a")).toBe(8);
  });

  test("is written again by the holder, at the cost of a read, a write and a confirmation", async () => {
    const { service, locks, mine, other, take } = scene(undefined);
    const partition = await take(mine, 7).partition("p");
    await purge(other);
    const [sent, confirms] = [service.count(), locks.confirms];
    await partition.create({ rowKey: "b", n: 1 });
    // The rejected submit, the read that finds the row missing, and its read, write and submit.
    expect(service.operations.slice(sent)).toEqual(["submitTransaction", "getEntity", "getEntity", "submitTransaction", "submitTransaction"]);
    expect(locks.confirms).toBe(confirms + 1);
    expect(valueOf(mine, "b")).toBe(1);
  });

  test("does not come back for good by the late request of an old holder: those after it ask the service", async () => {
    const { service, locks, mine, other, take } = scene(undefined);
    const late = ghost();
    service.next("submitTransaction", late.fault);
    service.next("getEntity", before(() => undefined), hang);
    const old = take(mine, 7);
    const opening = old.partition("p");
    opening.catch(() => undefined);
    await expect.poll(() => service.count("getEntity")).toBe(2);
    const successor = take(other, 8);
    await (await successor.partition("p")).submit([["upsert", { rowKey: "a", n: 8 }, "Replace"]]);
    await purge(other);
    late.arrive();
    expect(mine.property("epoch", "p", "~asc~fence")).toEqual({ type: "Double", value: 7 });
    old.lose();
    await expect(opening).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST"));
    // Another old holder that was paused before it raised the fence finds a row with a lower epoch than its own.
    locks.current = 8;
    await expect(holderOf(mine, 7.5, undefined, locks).partition("p")).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST"));
    await (await successor.partition("p")).submit([["upsert", { rowKey: "a", n: 88 }, "Replace"]]);
    expect(valueOf(mine, "a")).toBe(88);
  });

  test("makes the outcome of a write unknown if its response is lost, too", async () => {
    const { service, mine, take } = scene(undefined);
    const partition = await take(mine, 7).partition("p");
    service.next("submitTransaction", async (exchange) => {
      await loseAnswerForGood({ ...exchange, send: async () => {
        const sent = await exchange.send();
        mine.drop("p", "~asc~fence");
        return sent;
      } });
      throw new Error("unreachable");
    });
    await expect(partition.create({ rowKey: "b", n: 1 })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "COMMIT_UNKNOWN"));
  });
});

describe("raising a fence", () => {
  test("asks the service whether the lock is still held if the row is new, and not if it is confirmed", async () => {
    const { table } = fakePartition();
    const locks = new FakeLockService();
    await (await locks.grant(table, 7).partition("p")).create({ rowKey: "a", n: 1 });
    expect(locks.confirms).toBe(1);
    await locks.grant(table, 8).partition("p");
    expect(locks.confirms).toBe(1);
  });

  test("asks again if the last holder wrote nothing: its row is not confirmed", async () => {
    const { table } = fakePartition();
    const locks = new FakeLockService();
    await locks.grant(table, 7).partition("p");
    await locks.grant(table, 8).partition("p");
    expect(locks.confirms).toBe(2);
  });

  test("takes the Int64 of an earlier version for what it is", async () => {
    const { table } = fakePartition();
    table.put({ epoch: { type: "Int64", value: "9" } }, "p", "~asc~fence");
    await expect(holderOf(table, 8).partition("p")).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "FENCED") && error.fencedBy === 9);
    await (await holderOf(table, 10).partition("p")).create({ rowKey: "a", n: 1 });
    expect(table.property("epoch", "p", "~asc~fence")).toEqual({ type: "Double", value: 10 });
  });
});

describe("purge", () => {
  test("deletes rows that were not used for a day, and no others", async () => {
    const { table } = fakePartition({ a: 1 });
    await holderOf(table, 7).partition("p");
    await holderOf(table, 7).partition("q");
    vi.setSystemTime("2030-01-01T23:00:00Z");
    expect(await purgeFenceRows(table, {})).toEqual({ deleted: 0, kept: 0 });
    vi.setSystemTime("2030-01-02T01:00:00Z");
    expect(await purgeFenceRows(table, {})).toEqual({ deleted: 2, kept: 0 });
    expect(table.rowKeys()).toEqual(["a"]);
  });

  test("keeps a row that a holder uses in between", async () => {
    const { service, table, other } = fakePartition();
    const partition = await holderOf(table, 7).partition("p");
    service.next("deleteEntity", before(() => partition.create({ rowKey: "a", n: 1 })));
    expect(await purge(other)).toEqual({ deleted: 0, kept: 1 });
  });

  test("deletes the rows of entities, and then that of their partition", async () => {
    const { service, table } = fakePartition();
    await holderOf(table, 7, "a").partition();
    await holderOf(table, 9, "b").partition();
    expect(fences(table)).toEqual(["~asc~fence", "~asc~fence~a", "~asc~fence~b"]);
    service.next("deleteEntity", before(() => holderOf(table, 8, "a").partition()));
    expect(await purge(table)).toEqual({ deleted: 1, kept: 2 });
    expect(fences(table)).toEqual(["~asc~fence", "~asc~fence~a"]);
    expect(await purge(table)).toEqual({ deleted: 2, kept: 0 });
    expect(fences(table)).toEqual([]);
  });

  test("ends at once when it is aborted, and rejects a wrong age", async () => {
    const { service, table } = fakePartition();
    await holderOf(table, 7).partition("p");
    service.next("deleteEntity", hang);
    const controller = new AbortController();
    const purging = purgeFenceRows(table, { olderThanInMs: 0, abortSignal: controller.signal });
    await expect.poll(() => service.count("deleteEntity")).toBe(1);
    controller.abort(new Error("no longer wanted"));
    await expect(purging).rejects.toThrow("no longer wanted");
    await expect(purgeFenceRows(table, { olderThanInMs: -1 })).rejects.toThrow(RangeError);
    await expect(purgeFenceRows(table, { olderThan: 1 } as never)).rejects.toThrow(TypeError);
  });
});

describe("two granularities", () => {
  test.each([
    ["table", undefined, "partition", undefined],
    ["partition", undefined, "table", undefined],
    ["table", undefined, "entity", "a"],
    ["entity", "a", "table", undefined],
  ] as const)("never work in one partition: %s first, then %s %s", async (first, firstRow, second, secondRow) => {
    const { table, other } = fakePartition();
    const partition = await holderOf(table, 7, firstRow, undefined, first).partition("p");
    await expect(holderOf(other, 9, secondRow, undefined, second).partition("p")).rejects.toSatisfy(
      (error: unknown) => isConcurrencyError(error, "LOCK_MODE_MISMATCH") && error.expected === second && error.found === first,
    );
    await partition.create({ rowKey: "a", n: 1 });
  });

  test("that open a partition at the same time: one is rejected", async () => {
    for (const operation of ["getEntity", "submitTransaction"]) {
      const { service, table, other } = fakePartition();
      service.next(operation, before(() => holderOf(other, 9, "a").partition("p").catch(() => undefined)));
      await expect(holderOf(table, 7).partition("p")).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LOCK_MODE_MISMATCH"));
    }
  });

  test("one after the other, if the rows of the first were purged", async () => {
    const { table } = fakePartition();
    const old = await holderOf(table, 900, undefined, undefined, "table").partition("p");
    await purge(table);
    await (await holderOf(table, 3, undefined, undefined, "partition").partition("p")).create({ rowKey: "a", n: 1 });
    await expect(old.create({ rowKey: "b", n: 1 })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LOCK_MODE_MISMATCH"));
    expect(valueOf(table, "b")).toBeUndefined();
  });
});
