import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { RecordedMetrics } from "../support/metrics.js";
import { FakeFleet, noting, working } from "./fakes.js";

useFakeClock();

let metrics: RecordedMetrics;
beforeEach(() => {
  metrics = new RecordedMetrics();
});
afterEach(() => metrics.stop());

it("a schedule counts its runs by outcome, and measures how long they take and how late they start", async () => {
  // Two due times follow within the 125 seconds, whenever the test runs.
  vi.setSystemTime(new Date("2030-01-01T00:00:10Z"));
  const fleet = new FakeFleet();
  const notes: string[] = [];
  fleet.instance({
    sweep: noting(notes, { everyInMs: 60_000 }, () => working(5_000)),
    bill: noting(notes, { everyInMs: 60_000 }, () => Promise.reject(new Error("secret"))),
  });
  await fleet.start();
  await pass(125_000);
  const sweep = { "azsc.name": "default/sweep" };
  const bill = { "azsc.name": "default/bill" };
  const byName = <V>(values: [Readonly<Record<string, unknown>>, V][]): [Readonly<Record<string, unknown>>, V][] => values.toSorted(([a], [b]) => (String(a["azsc.name"]) < String(b["azsc.name"]) ? -1 : 1));
  expect(byName(await metrics.values("schedule.runs"))).toEqual([
    [{ ...bill, "azsc.outcome": "failed" }, 2],
    [{ ...sweep, "azsc.outcome": "succeeded" }, 2],
  ]);
  const [, [, sweepSeconds]] = byName(await metrics.sums("schedule.run_duration")) as [unknown, [unknown, number]];
  expect(Math.round(sweepSeconds)).toBe(10);
  expect(byName(await metrics.values("schedule.start_delay"))).toEqual([
    [bill, 2],
    [sweep, 2],
  ]);
  for (const [, delayInSeconds] of await metrics.sums("schedule.start_delay")) expect(delayInSeconds).toBeLessThan(5);
  await fleet.stop();
});
