import fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { isConcurrencyError, isLibraryRow } from "../../src/index.js";
import { newJob } from "../../src/schedule/job-state.js";
import type { JobState } from "../../src/schedule/job-state.js";
import { entityOf, stateOf } from "../../src/schedule/job-row.js";
import { loseAnswerForGood } from "../fakes/faults.js";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { FakeFleet, noting } from "./fakes.js";

const now = Date.UTC(2030, 0, 1);
const full: JobState = {
  ...newJob("every 60000 ms", now),
  nextDue: now + 60_000,
  skip: { from: now - 5, to: now },
  run: { id: "r", due: now, isManual: true, key: "k", attempt: 2, holder: "p", startedAt: now, partition: "x", isReleased: false },
  requests: [{ due: now, key: undefined }],
  history: [{ due: now, state: "failed", key: undefined, attempt: 1, startedAt: now, durationInMs: 5, error: "e", holder: "p" }],
};

describe("the row of a job", () => {
  test("holds the whole state", () => {
    const same = stateOf(entityOf("default", "job", full), "url", now);
    expect(same).toEqual(full);
  });

  test("has texts and booleans only, and a history that fits", () => {
    const long = { ...full, history: Array.from({ length: 100 }, () => ({ ...full.history[0]!, error: "ä".repeat(300), holder: "h".repeat(300) })) };
    const row = entityOf("default", "job", long);
    expect(new Set(Object.values(row).map((value) => typeof value))).toEqual(new Set(["string", "boolean"]));
    expect(row.history.length).toBeLessThanOrEqual(30_000);
    expect(stateOf(row, "url", now).history.length).toBeGreaterThan(30);
  });

  test("is rejected if it is damaged anywhere, and never taken for a new job", () => {
    const row = entityOf("default", "job", full);
    const names = Object.keys(row).filter((name) => name !== "schedule" && name !== "job");
    const values = fc.constantFrom<unknown>(undefined, null, 5, 5n, NaN, "x", "{", "{}", "[{}]", "null", '[{"due":"x"}]', { a: 1 }, []);
    fc.assert(
      fc.property(fc.constantFrom(...names), values, (name, value) => {
        try {
          stateOf({ ...row, [name]: value }, "url", now);
          // Texts that are valid there.
          expect(name === "trigger" || (name === "nextDue" && value === "")).toBe(true);
        } catch (error) {
          expect(isConcurrencyError(error, "SCHEMA"), String(error)).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("is rejected if its cursor is in the future: the job would not run for years", () => {
    expect(() => stateOf(entityOf("default", "job", { ...full, cursor: now + 2 * 86_400_000 }), "url", now)).toThrow("cannot be read");
  });

  test.each(["0001-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z"])("is rejected if its cursor is %s: the search for due times since then would stop the process", (cursor) => {
    expect(() => stateOf({ ...entityOf("default", "job", full), cursor }, "url", now)).toThrow("cannot be read");
  });
});

describe("on an instance", () => {
  useFakeClock();
  let fleet: FakeFleet;
  beforeEach(() => {
    vi.setSystemTime(new Date("2030-01-01T10:00:30.000Z"));
    fleet = new FakeFleet();
  });

  test("a damaged row is an error event, and keeps no other job from running", async () => {
    const ran: string[] = [];
    const { errors } = fleet.instance({ a: noting(ran, { everyInMs: 60_000 }), b: noting([], { everyInMs: 60_000 }, () => expect.unreachable()) });
    await fleet.start();
    fleet.table.merge({ cursor: { type: "String", value: "1970-01-01T00:00:00Z" }, run: { type: "String", value: "{}" } }, "~asc~schedule-default", "~asc~schedule!b");
    await pass(120_000);
    expect(ran).toEqual(["10:01:00", "10:02:00"]);
    expect(errors.length).toBeGreaterThan(0);
    expect(errors.every((error) => isConcurrencyError(error, "SCHEMA"))).toBe(true);
    await fleet.stop();
  });

  test("a damaged row keeps the receipts of its own job from being purged, and no others", async () => {
    const effect = noting([], { everyInMs: 3_600_000 }, ({ name, commit }) => commit(name, []));
    fleet.instance({ a: effect, b: effect });
    await fleet.start();
    const { schedule } = fleet.instances[0]!;
    await schedule.trigger("a");
    await schedule.trigger("b");
    await pass(2_000);
    fleet.table.merge({ run: { type: "String", value: "{}" } }, "~asc~schedule-default", "~asc~schedule!b");
    vi.setSystemTime(Date.now() + 9 * 86_400_000);
    expect(await schedule.purge()).toEqual({ deleted: 1, kept: 1 });
    expect([fleet.table.rowKeys("a").length, fleet.table.rowKeys("b").length]).toEqual([0, 1]);
    await fleet.stop();
  });

  test("a row that was deleted begins anew, with the due times from then on", async () => {
    const ran: string[] = [];
    fleet.instance({ job: noting(ran, { everyInMs: 60_000, missed: "all" }) });
    await fleet.start();
    await pass(45_000);
    fleet.table.drop("~asc~schedule-default", "~asc~schedule!job");
    await pass(120_000);
    expect(ran.slice(0, 2)).toEqual(["10:01:00", expect.stringMatching(/10:0[23]:00/)]);
    expect(new Set(ran).size).toBe(ran.length);
    await fleet.stop();
  });

  test("all rows are recognised as rows of the library", async () => {
    fleet.instance({ job: noting([], { everyInMs: 3_600_000 }, ({ commit }) => commit("effects", [])) });
    await fleet.start();
    await fleet.instances[0]!.schedule.trigger("job");
    await pass(100);
    for (const partition of ["~asc~schedule-default", "effects"]) {
      expect(fleet.table.rowKeys(partition)).toHaveLength(1);
      for (const rowKey of fleet.table.rowKeys(partition)) expect(isLibraryRow({ rowKey })).toBe(true);
    }
    await fleet.stop();
  });

  test("without a Date header the clock of the host counts", async () => {
    const ran: string[] = [];
    fleet.service.tellsTime = false;
    fleet.service.aheadInMs = 600_000;
    fleet.instance({ job: noting(ran, { everyInMs: 60_000 }) });
    await fleet.start();
    await pass(60_000);
    expect(ran).toEqual(["10:01:00"]);
    await fleet.stop();
  });

  test("a table that cannot be reached is an error event, and due times are made up for", async () => {
    const ran: string[] = [];
    const { errors } = fleet.instance({ job: noting(ran, { everyInMs: 60_000, missed: "all" }) });
    await fleet.start();
    fleet.service.each("any", loseAnswerForGood);
    await pass(180_000);
    expect(errors.length).toBeGreaterThan(0);
    fleet.service.heal();
    await pass(60_000);
    expect(ran).toEqual(["10:01:00", "10:02:00", "10:03:00", "10:04:00"]);
    await fleet.stop();
  });
});
