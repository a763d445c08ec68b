import fc from "fast-check";
import { expect, test } from "vitest";
import { dueTimesOf, jitterOf, latestIn } from "../../src/schedule/due-times.js";
import type { JobTrigger } from "../../src/index.js";

async function next(trigger: JobTrigger, after: string, count = 1): Promise<string[]> {
  const times = await dueTimesOf("job", trigger);
  const found: string[] = [];
  for (let time: number | undefined = Date.parse(after); found.length < count && time !== undefined; ) {
    time = times.next(time);
    if (time !== undefined) found.push(new Date(time).toISOString());
  }
  return found;
}

test("a cron expression is due by the wall clock of its time zone, UTC unless it has one", async () => {
  expect(await next({ cron: "0 3 * * *" }, "2026-01-10T03:00:00Z")).toEqual(["2026-01-11T03:00:00.000Z"]);
  expect(await next({ cron: "0 3 * * *", timeZone: "Europe/Berlin" }, "2026-01-10T02:00:00Z")).toEqual(["2026-01-11T02:00:00.000Z"]);
});

test("daylight saving: a time that does not exist is due when its hour ends, and one that exists twice is due once", async () => {
  expect(await next({ cron: "30 2 * * *", timeZone: "Europe/Berlin" }, "2026-03-28T12:00:00Z", 2)).toEqual(["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]);
  expect(await next({ cron: "30 2 * * *", timeZone: "Europe/Berlin" }, "2026-10-24T12:00:00Z", 2)).toEqual(["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]);
});

test("daylight saving: several hours or minutes are not made up for, and are due both times", async () => {
  for (const [cron, count] of [["*/15 2 * * *", 8], ["30 1,2 * * *", 3], ["0 */2 * * *", 2]] as const) {
    const gap = await next({ cron, timeZone: "Europe/Berlin" }, "2026-03-28T22:00:00Z", 20);
    expect(gap.filter((time) => time >= "2026-03-29T01:00" && time < "2026-03-29T02:00"), cron).toEqual([]);
    const twice = await next({ cron, timeZone: "Europe/Berlin" }, "2026-10-24T23:00:00Z", 20);
    expect(twice.filter((time) => time < "2026-10-25T02:00"), cron).toHaveLength(count);
  }
});

test("daylight saving: the next due time is the same from any moment before it", async () => {
  for (const [timeZone, day] of [["Europe/Berlin", "2026-03-29"], ["Europe/Berlin", "2026-10-25"], ["Australia/Lord_Howe", "2026-04-04"], ["America/Havana", "2026-11-01"]] as const) {
    for (const cron of ["30 2 * * *", "30 0 * * *", "45 1 * * *", "*/20 1-3 * * *"]) {
      const times = await dueTimesOf("job", { cron, timeZone });
      let due: number | undefined;
      for (let time = Date.parse(day) - 6 * 3_600_000; time < Date.parse(day) + 30 * 3_600_000; time += 5 * 60_000) {
        if (due === undefined || due <= time) due = times.next(time);
        expect(times.next(time), `${cron} ${timeZone} ${new Date(time).toISOString()}`).toBe(due);
      }
    }
  }
});

test("an interval is due at its multiples since 1970, on every instance", async () => {
  expect(await next({ everyInMs: 60_000 }, "2026-01-10T03:00:00.000Z")).toEqual(["2026-01-10T03:01:00.000Z"]);
  expect(await next({ everyInMs: 60_000 }, "2026-01-10T03:00:59.999Z")).toEqual(["2026-01-10T03:01:00.000Z"]);
});

test("a function may end, and must not go back", async () => {
  expect(await next({ nextRun: (after) => (after.getUTCFullYear() < 2027 ? new Date("2027-01-01") : undefined) }, "2026-01-01", 5)).toEqual(["2027-01-01T00:00:00.000Z"]);
  await expect(next({ nextRun: (after) => after }, "2026-01-01")).rejects.toThrow("nextRun must return a date after 2026-01-01T00:00:00.000Z, or undefined");
  await expect(next({ nextRun: () => new Date(NaN) }, "2026-01-01")).rejects.toThrow(RangeError);
  await expect(next({ nextRun: (() => "tomorrow") as never }, "2026-01-01")).rejects.toThrow(RangeError);
});

test("wrong expressions and time zones are rejected", async () => {
  await expect(dueTimesOf("job", { cron: "* * *" })).rejects.toThrow('Schedule: job "job": the expression "* * *" with the time zone "UTC" is not valid');
  await expect(dueTimesOf("job", { cron: "0 3 * * *", timeZone: "" })).rejects.toThrow("timeZone must not be empty");
  await expect(dueTimesOf("job", { cron: "0 3 * * *", timeZone: "Europe/Brelin" })).rejects.toThrow('time zone "Europe/Brelin" is not valid');
  await expect(dueTimesOf("job", { cron: 5 as never })).rejects.toThrow(TypeError);
});

test("the latest due time is found without enumerating all of an outage", async () => {
  const times = await dueTimesOf("job", { everyInMs: 1_000 });
  let calls = 0;
  const counted = { next: (after: number) => (calls++, times.next(after)) };
  expect(latestIn(counted, Date.parse("2020-01-01"), Date.parse("2026-01-01T00:00:00.500Z"))).toBe(Date.parse("2026-01-01"));
  expect(calls).toBeLessThan(10);
  expect(latestIn(times, 5_000, 5_999)).toBeUndefined();
  expect(latestIn(times, 5_000, 6_000)).toBe(6_000);
  const yearly = await dueTimesOf("job", { cron: "0 0 1 1 *" });
  expect(latestIn(yearly, Date.parse("2020-06-01"), Date.parse("2026-06-01"))).toBe(Date.parse("2026-01-01"));
});

test("the latest due time is found among any number of them, however long ago", async () => {
  const daily = await dueTimesOf("job", { cron: "* * * 1 1 *" });
  let calls = 0;
  const counted = { next: (after: number) => (calls++, daily.next(after)) };
  // 172,800 due times, each of them on one of two days.
  expect(latestIn(counted, Date.parse("2024-06-01"), Date.parse("2026-11-18"))).toBe(Date.parse("2026-01-01T23:59:59Z"));
  expect(calls).toBeLessThan(60);
});

test("the latest due time is the last one of an enumeration, for any times", () => {
  const sets = fc.tuple(fc.uniqueArray(fc.integer({ min: 0, max: 20_000 }), { maxLength: 30 }), fc.integer({ min: 0, max: 20_000 }), fc.integer({ min: 0, max: 20_000 }));
  fc.assert(fc.property(sets, ([set, a, b]) => {
    const sorted = [...set].sort((x, y) => x - y);
    const [after, until] = [Math.min(a, b), Math.max(a, b)];
    const next = (time: number): number | undefined => sorted.find((due) => due > time);
    expect(latestIn({ next }, after, until)).toBe(sorted.filter((due) => due > after && due <= until).at(-1));
  }), { seed: 20_261_118 });
});

test("jitter depends on the job and the due time only", () => {
  const delays = Array.from({ length: 200 }, (_, i) => jitterOf("default/a", i * 60_000, 10_000));
  expect(delays).toEqual(Array.from({ length: 200 }, (_, i) => jitterOf("default/a", i * 60_000, 10_000)));
  expect(Math.min(...delays)).toBeLessThan(1_000);
  expect(Math.max(...delays)).toBeGreaterThan(9_000);
  expect(Math.max(...delays)).toBeLessThan(10_000);
  expect(jitterOf("default/a", 60_000, 0)).toBe(0);
});
