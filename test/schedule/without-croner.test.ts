import { beforeEach, expect, test, vi } from "vitest";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { rejection } from "../support/outcome.js";
import { FakeFleet, noting } from "./fakes.js";

// An application without the optional peer dependency.
const croner = vi.hoisted(() => ({ isInstalled: false }));
vi.mock("croner", async (load) => {
  if (!croner.isInstalled) throw Object.assign(new Error("Cannot find package 'croner'"), { code: "ERR_MODULE_NOT_FOUND" });
  return load();
});

useFakeClock();

let fleet: FakeFleet;
beforeEach(() => {
  vi.setSystemTime(new Date("2030-01-01T10:00:30.000Z"));
  fleet = new FakeFleet();
});

test("an expression is a TypeError that says what to install, before a request is sent", async () => {
  const { schedule } = fleet.instance({ job: noting([], { cron: "* * * * *" }), other: noting([], { everyInMs: 60_000 }) });
  for (const call of [() => schedule.start(), () => schedule.trigger("other"), () => schedule.status()]) {
    expect(await rejection(call())).toMatchObject({ name: "TypeError", message: expect.stringContaining("npm install croner") as unknown });
  }
  expect(fleet.service.requests).toEqual([]);
  expect(schedule.isRunning).toBe(false);
});

test("intervals and functions do not need it", async () => {
  const ran: string[] = [];
  fleet.instance({ a: noting(ran, { everyInMs: 60_000 }), b: noting(ran, { nextRun: (after) => new Date(after.getTime() + 60_000) }) });
  await fleet.start();
  await pass(62_000);
  expect(ran).toHaveLength(2);
  await fleet.stop();
});
