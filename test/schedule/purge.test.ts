import { beforeEach, describe, expect, test, vi } from "vitest";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { rejection } from "../support/outcome.js";
import { FakeFleet, noting, working } from "./fakes.js";

useFakeClock();

const day = 86_400_000;

let fleet: FakeFleet;
beforeEach(() => {
  vi.setSystemTime(new Date("2030-01-01T10:00:30.000Z"));
  fleet = new FakeFleet();
});

const committing = noting([], { everyInMs: 3_600_000 }, ({ commit, dueOn }) => commit("effects", [["create", { rowKey: dueOn.toISOString() }]]));

function receipts(): string[] {
  return fleet.table.rowKeys("effects").filter((rowKey) => rowKey.startsWith("~asc~schedule-done!"));
}

/** On the fake clock. */
async function purge(schedule: { purge: (options?: { olderThanInMs?: number }) => Promise<unknown> }, olderThanInMs?: number): Promise<unknown> {
  const purging = schedule.purge(olderThanInMs === undefined ? {} : { olderThanInMs });
  await pass(10);
  return purging;
}

describe("purge", () => {
  test("deletes receipts of eight days ago, and keeps the effects and later receipts", async () => {
    const { schedule } = fleet.instance({ job: committing });
    await fleet.start();
    await pass(3_600_000);
    expect(receipts()).toHaveLength(1);
    expect(await purge(schedule)).toEqual({ deleted: 0, kept: 0 });
    await fleet.stop();
    vi.setSystemTime(Date.now() + 8 * day);
    await schedule.trigger("job");
    await fleet.start();
    await pass(1_000);
    expect(receipts().length).toBeGreaterThan(1);
    const before = receipts().length;
    expect(await purge(schedule)).toEqual({ deleted: 1, kept: 0 });
    expect(receipts()).toHaveLength(before - 1);
    expect(fleet.table.rowKeys("effects").filter((rowKey) => rowKey.startsWith("2030"))).toHaveLength(before);
    await fleet.stop();
  });

  test("keeps the receipt of a run in progress, however old it is", async () => {
    const { schedule } = fleet.instance({
      job: {
        everyInMs: 365 * day,
        run: async ({ commit }) => {
          await commit("effects", []);
          await working(3 * 3_600_000);
        },
      },
    });
    await fleet.start();
    await schedule.trigger("job");
    await pass(2 * 3_600_000);
    expect(await purge(schedule, 3_600_000)).toEqual({ deleted: 0, kept: 1 });
    await pass(2 * 3_600_000);
    expect(await purge(schedule, 3_600_000)).toEqual({ deleted: 1, kept: 0 });
    await fleet.stop();
  });

  test("keeps the receipts of other schedules, whose names begin alike", async () => {
    const a = fleet.instance({ job: committing }, { name: "a" });
    fleet.instance({ job: committing }, { name: "ab" });
    await fleet.start();
    await pass(3_600_000);
    expect(receipts()).toHaveLength(2);
    await pass(2 * 3_600_000);
    await purge(a.schedule, 3_600_000);
    expect(receipts().some((rowKey) => rowKey.startsWith("~asc~schedule-done!ab!"))).toBe(true);
    await fleet.stop();
  });

  test("keeps the receipts of a job whose row is damaged: its run may need them", async () => {
    const { schedule } = fleet.instance({ job: committing });
    await fleet.start();
    await pass(3_600_000);
    await fleet.stop();
    fleet.table.row("~asc~schedule-default", "~asc~schedule!job")!.properties.set("run", { type: "String", value: "{" });
    vi.setSystemTime(Date.now() + 30 * day);
    expect(await purge(schedule, 3_600_000)).toEqual({ deleted: 0, kept: 1 });
    expect(receipts()).toHaveLength(1);
  });

  test("does not take less than an hour: a transaction may still be in flight", async () => {
    const { schedule } = fleet.instance({ job: committing });
    expect(await rejection(schedule.purge({ olderThanInMs: 3_599_999 }))).toBeInstanceOf(RangeError);
    expect(fleet.service.requests).toEqual([]);
  });
});
