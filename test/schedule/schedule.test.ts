import { beforeEach, expect, test, vi } from "vitest";
import { BlobLocks, Schedule } from "../../src/index.js";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { answer } from "../fakes/faults.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import { collected, FakeFleet, noting, working } from "./fakes.js";

useFakeClock();

let fleet: FakeFleet;
beforeEach(() => {
  vi.setSystemTime(new Date("2030-01-01T10:00:30.000Z"));
  fleet = new FakeFleet();
});

test("each due time runs once over a fleet, and is recorded", async () => {
  const ran: string[] = [];
  for (let i = 0; i < 5; i++) fleet.instance({ job: noting(ran, { everyInMs: 60_000 }) });
  await fleet.start();
  await pass(10 * 60_000);
  expect(ran).toEqual(["10:01:00", "10:02:00", "10:03:00", "10:04:00", "10:05:00", "10:06:00", "10:07:00", "10:08:00", "10:09:00", "10:10:00"]);
  const history = await collected(fleet.instances[0]!.schedule.history("job"));
  expect(history.map(({ state, dueOn }) => [state, dueOn.toISOString().slice(11, 16)])).toEqual(["10", "09", "08", "07", "06", "05", "04", "03", "02", "01"].map((minute) => ["succeeded", `10:${minute}`]));
  expect(history[0]).toMatchObject({ job: "job", attempt: 1, error: undefined, holder: expect.stringMatching(/^p\d$/) as string });
  await fleet.stop();
  expect(fleet.errors).toEqual([]);
});

test("an instance that did not get a due time looks at the next one, however long its poll interval is", async () => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 60_000 }, () => working(3_000)) };
  for (let i = 0; i < 3; i++) fleet.instance(jobs, { pollIntervalInMs: 3_600_000 });
  await fleet.start();
  await pass(32_500);
  const winner = fleet.instances.find(({ events }) => events.length > 0)!;
  const stopping = winner.schedule.stop();
  await pass(65_000);
  await stopping;
  expect(ran).toEqual(["10:01:00", "10:02:00"]);
  await fleet.stop();
});

test("cron expressions are due by their time zone", async () => {
  const ran: string[] = [];
  fleet.instance({ job: noting(ran, { cron: "5 12 * * *", timeZone: "Europe/Berlin" }) });
  // Loads croner, which takes real time.
  const [status] = await fleet.instances[0]!.schedule.status();
  await fleet.start();
  expect(status).toEqual({ name: "job", paused: false, nextDueOn: new Date("2030-01-01T11:05:00Z"), lastRun: undefined });
  await pass(3_600_000 * 4);
  expect(ran).toEqual(["11:05:00"]);
  await fleet.stop();
});

test("a failed run is recorded with its error, and the next due time runs", async () => {
  const ran: string[] = [];
  const { schedule, events } = fleet.instance({
    job: noting(ran, { everyInMs: 60_000 }, () => {
      if (ran.length === 1) throw new RangeError(`too ${"long ".repeat(100)}`);
    }),
  });
  await fleet.start();
  await pass(120_000);
  expect(events).toEqual(["started job 10:01:00", "failed job 10:01:00", "started job 10:02:00", "succeeded job 10:02:00"]);
  const [, failed] = await collected(schedule.history("job"));
  expect(failed).toMatchObject({ state: "failed", error: expect.stringMatching(/^RangeError: too long.*…$/) as string });
  expect(failed?.error).toHaveLength(300);
  await fleet.stop();
});

test("due times that pass during a run are skipped, or wait for its end", async () => {
  const skipping: string[] = [];
  const queueing: string[] = [];
  const all: string[] = [];
  const slow = async (): Promise<void> => working(150_000);
  const { finished } = fleet.instance({
    skipping: noting(skipping, { everyInMs: 60_000 }, slow),
    queueing: noting(queueing, { everyInMs: 60_000, overlap: "queue" }, slow),
    all: noting(all, { everyInMs: 60_000, overlap: "queue", missed: "all" }, slow),
  });
  await fleet.start();
  await pass(6 * 60_000 + 5_000);
  expect(skipping).toEqual(["10:01:00", "10:04:00"]);
  expect(queueing).toEqual(["10:01:00", "10:03:00", "10:06:00"]);
  expect(all).toEqual(["10:01:00", "10:02:00", "10:03:00"]);
  expect(finished.filter(({ job }) => job === "skipping").map(({ state }) => state)).toEqual(["succeeded", "succeeded"]);
  const history = await collected(fleet.instances[0]!.schedule.history("skipping"));
  expect(history.map(({ state, dueOn }) => `${state} ${dueOn.toISOString().slice(11, 16)}`)).toEqual(["skipped 10:05", "succeeded 10:04", "skipped 10:02", "succeeded 10:01"]);
  const stopped = fleet.stop();
  await pass(200_000);
  await stopped;
});

test.each([
  ["latest", ["10:01:00", "10:30:00", "10:31:00"]],
  // A due time of less than a minute ago is not missed.
  ["skip", ["10:01:00", "10:30:00", "10:31:00"]],
] as const)("after an outage of the whole fleet, missed: %s makes up for the latest due time at most", async (missed, expected) => {
  const ran: string[] = [];
  const job = noting(ran, { everyInMs: 60_000, missed });
  fleet.instance({ job });
  await fleet.start();
  await pass(45_000);
  await fleet.stop();
  vi.setSystemTime(new Date("2030-01-01T10:30:58.000Z"));
  const second = fleet.instance({ job });
  const starting = second.schedule.start();
  await pass(20);
  await starting;
  await pass(45_000);
  expect(ran).toEqual(expected);
  const history = await collected(second.schedule.history("job"));
  expect(history.filter(({ state }) => state === "skipped")).toMatchObject([{ dueOn: new Date("2030-01-01T10:02:00Z"), error: "missed: the due times from here to before 2030-01-01T10:30:00.000Z did not run" }]);
  await fleet.stop();
});

test("missed: skip does not make up for a due time of more than a minute ago", async () => {
  const ran: string[] = [];
  const job = noting(ran, { everyInMs: 600_000, missed: "skip" });
  fleet.instance({ job });
  await fleet.start();
  await fleet.stop();
  vi.setSystemTime(new Date("2030-01-01T10:11:01.000Z"));
  const second = fleet.instance({ job });
  const starting = second.schedule.start();
  await pass(20);
  await starting;
  await pass(1_000);
  expect(second.events).toEqual(["skipped job 10:10:00"]);
  await pass(10 * 60_000);
  expect(ran).toEqual(["10:20:00"]);
  await fleet.stop();
});

test("missed: all runs every due time of an outage, one after the other", async () => {
  const ran: string[] = [];
  const job = noting(ran, { everyInMs: 60_000, missed: "all" }, () => working(100));
  fleet.instance({ job });
  await fleet.start();
  await fleet.stop();
  vi.setSystemTime(new Date("2030-01-01T10:05:30.000Z"));
  for (let i = 0; i < 3; i++) fleet.instance({ job });
  const starting = fleet.instances.slice(1).map(({ schedule }) => schedule.start());
  await pass(50);
  await Promise.all(starting);
  await pass(60_000);
  expect(ran).toEqual(["10:01:00", "10:02:00", "10:03:00", "10:04:00", "10:05:00", "10:06:00"]);
  await fleet.stop();
});

test("a manual trigger runs the job once, on any instance, also if it is paused", async () => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 3_600_000 }) };
  const caller = fleet.instance(jobs);
  const runner = fleet.instance(jobs);
  const starting = runner.schedule.start();
  await pass(20);
  await starting;
  await caller.schedule.pause("job");
  const first = await caller.schedule.trigger("job", { idempotencyKey: "k" });
  expect(first).toMatchObject({ state: "pending", idempotencyKey: "k", attempt: 0, startedOn: undefined });
  expect(await caller.schedule.trigger("job", { idempotencyKey: "k" })).toEqual(first);
  await pass(20_000);
  expect(ran).toHaveLength(1);
  expect(await caller.schedule.trigger("job", { idempotencyKey: "k" })).toMatchObject({ state: "succeeded", dueOn: first.dueOn, holder: "p2" });
  await caller.schedule.trigger("job");
  await caller.schedule.trigger("job");
  await pass(20_000);
  expect(ran).toHaveLength(3);
  await fleet.stop();
});

test("manual triggers whose keys do not fit into the row are a RangeError, and change nothing", async () => {
  const { schedule } = fleet.instance({ job: noting([], { everyInMs: 86_400_000 }) });
  // JSON needs six characters for each of these.
  const key = (n: number): string => `${"\u0001".repeat(190)}${n}`;
  const results = await Promise.allSettled(Array.from({ length: 50 }, (_, n) => schedule.trigger("job", { idempotencyKey: key(n) })));
  expect(results.filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(20);
  expect(results.find(({ status }) => status === "rejected")).toMatchObject({ reason: expect.any(RangeError) as unknown });
  expect(String(fleet.row("job")["requests"]).length).toBeLessThan(32_768);
  expect(await schedule.trigger("job", { idempotencyKey: key(0) })).toMatchObject({ state: "pending" });
});

test("stop in a run ends when its time is over, and the run goes on", async () => {
  let stoppedAfterInMs: number | undefined;
  const { schedule, events } = fleet.instance({
    job: {
      everyInMs: 60_000,
      run: async () => {
        const started = Date.now();
        await schedule.stop({ drainTimeoutInMs: 3_000 });
        stoppedAfterInMs = Date.now() - started;
      },
    },
  });
  await fleet.start();
  await pass(60_000);
  expect(stoppedAfterInMs).toBe(3_000);
  expect(events).toEqual(["started job 10:01:00", "succeeded job 10:01:00"]);
  expect(schedule.isRunning).toBe(false);
});

test("a manual trigger on a running instance starts at once", async () => {
  const ran: string[] = [];
  const { schedule } = fleet.instance({ job: noting(ran, { everyInMs: 3_600_000 }) });
  await fleet.start();
  await schedule.trigger("job");
  await pass(20);
  expect(ran).toHaveLength(1);
  await fleet.stop();
});

test("a due time that is claimed while another process triggers the job runs at once, and not at the next poll", async () => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 60_000 }) };
  const { table, errors } = fleet.instance(jobs);
  const operator = fleet.instance(jobs).schedule;
  const starting = fleet.instances[0]!.schedule.start();
  await pass(20);
  await starting;
  const update = table.updateEntity.bind(table);
  let isMet = false;
  table.updateEntity = async (...args) => {
    if (!isMet) {
      isMet = true;
      await operator.trigger("job");
    }
    return update(...args);
  };
  await pass(33_000);
  expect(isMet).toBe(true);
  expect(ran).toHaveLength(2);
  expect(ran).toContain("10:01:00");
  expect(errors).toEqual([]);
  await fleet.stop();
});

test("a manual run never has the due time of another run: the time of the service that its trigger has read is a whole second", async () => {
  const due: number[] = [];
  const jobs = { job: noting([], { everyInMs: 1_000 }, ({ dueOn }) => due.push(dueOn.getTime())) };
  fleet.instance(jobs);
  const operator = fleet.instance(jobs).schedule;
  const starting = fleet.instances[0]!.schedule.start();
  await pass(20);
  await starting;
  for (let second = 0; second < 5; second++) {
    const triggering = operator.trigger("job");
    await pass(1_000);
    await triggering;
  }
  await pass(2_000);
  expect(due.filter((time) => time % 1_000 !== 0)).toHaveLength(5);
  expect(new Set(due).size).toBe(due.length);
  await fleet.stop();
});

test("a job that is paused does not run, and does not make up for it when it is resumed", async () => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 60_000, missed: "all" }) };
  fleet.instance(jobs);
  const other = fleet.instance(jobs);
  await fleet.start();
  await pass(45_000);
  await other.schedule.pause("job");
  expect(await other.schedule.status()).toMatchObject([{ paused: true, nextDueOn: undefined, lastRun: { state: "succeeded" } }]);
  await pass(180_000);
  expect(ran).toEqual(["10:01:00"]);
  await other.schedule.resume("job");
  await pass(60_000);
  expect(ran).toEqual(["10:01:00", "10:05:00"]);
  await fleet.stop();
});

test("jitter delays a due time by the same time on all instances", async () => {
  const started: number[] = [];
  const jobs = { job: noting([], { everyInMs: 60_000, jitterInMs: 40_000 }, ({ dueOn }) => started.push(Date.now() - dueOn.getTime())) };
  for (let i = 0; i < 3; i++) fleet.instance(jobs);
  await fleet.start();
  await pass(60_000 * 12);
  expect(started.length).toBeGreaterThanOrEqual(11);
  expect(Math.max(...started)).toBeGreaterThan(20_000);
  expect(Math.max(...started)).toBeLessThan(42_500);
  expect(Math.min(...started)).toBeLessThan(15_000);
  await fleet.stop();
});

test("a run that takes longer than maxRunTimeInMs is aborted, and has failed", async () => {
  const { schedule } = fleet.instance({ job: noting([], { everyInMs: 60_000, maxRunTimeInMs: 5_000 }, ({ signal }) => working(20_000, signal)) });
  await fleet.start();
  await pass(45_000);
  const [run] = await collected(schedule.history("job"));
  expect(run).toMatchObject({ state: "failed", error: expect.stringContaining("longer than 5000 ms (maxRunTimeInMs)") as string });
  expect(run!.durationInMs).toBeLessThan(5_100);
  await fleet.stop();
});

test("a run that ignores its signal is recorded as failed, and this instance does not run the job beside it", async () => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 60_000, maxRunTimeInMs: 5_000 }, () => (ran.length === 1 ? working(300_000) : undefined)) };
  const { errors } = fleet.instance(jobs, { drainTimeoutInMs: 1_000 });
  await fleet.start();
  await pass(40_000);
  expect(fleet.row("job")["run"]).toBe("");
  expect(errors).toEqual([expect.objectContaining({ code: "OPERATION_TIMEOUT", message: expect.stringContaining("End it when signal aborts") as string })]);
  fleet.instance(jobs);
  const second = fleet.instances[1]!.schedule.start();
  await pass(240_000);
  await second;
  // The other instance runs the job when the lock has expired.
  expect(ran.length).toBeGreaterThan(2);
  expect(fleet.instances[0]!.events.filter((event) => event.startsWith("started"))).toHaveLength(1);
  await pass(120_000);
  await fleet.stop();
});

test("stop waits for runs; after its time their signals abort, and another instance goes on with them", async () => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 3_600_000 }, ({ signal }) => working(30_000, signal)) };
  const first = fleet.instance(jobs);
  const starting = first.schedule.start();
  await pass(20);
  await starting;
  await first.schedule.trigger("job");
  await pass(1_000);
  const second = fleet.instance(jobs);
  const starting2 = second.schedule.start();
  await pass(20);
  await starting2;
  const stopping = first.schedule.stop({ drainTimeoutInMs: 2_000 });
  await pass(2_000);
  await stopping;
  await pass(20_000);
  expect(ran).toHaveLength(2);
  await pass(30_000);
  expect((await collected(second.schedule.history("job")))[0]).toMatchObject({ state: "succeeded", attempt: 1, holder: "p2" });
  await fleet.stop();
  expect(fleet.errors).toEqual([]);
});

test("a job that was changed runs by its new trigger from then on, and old instances go on with the old one", async () => {
  const old: string[] = [];
  const changed: string[] = [];
  fleet.instance({ job: noting(old, { everyInMs: 3_600_000, missed: "all" }), removed: noting([], { everyInMs: 60_000 }) });
  await fleet.start();
  await pass(1_900_000);
  fleet.instance({ job: noting(changed, { everyInMs: 600_000, missed: "all" }) });
  const starting = fleet.instances[1]!.schedule.start();
  await pass(20);
  await starting;
  await pass(1_800_000);
  // Not the due times before the change.
  expect([...old, ...changed].sort()).toEqual(["10:40:00", "10:50:00", "11:00:00"]);
  expect(fleet.row("removed")["run"]).toBe("");
  await fleet.stop();
  expect(fleet.errors).toEqual([]);
});

test("clocks that differ by minutes do no harm: the time of the service counts", async () => {
  const started: string[] = [];
  fleet.service.aheadInMs = 180_000;
  const jobs = { job: noting(started, { everyInMs: 60_000 }) };
  for (let i = 0; i < 3; i++) fleet.instance(jobs);
  await fleet.start();
  await pass(60_000);
  // The clock of these processes shows 10:01:30, that of the service 10:04:30.
  expect(started).toEqual(["10:04:00"]);
  await fleet.stop();
});

test("wrong arguments are rejected before a request is sent", async () => {
  const run = (): void => undefined;
  const make = (jobs: unknown, options?: object) => () => fleet.instance(jobs as never, options);
  expect(make({})).toThrow("at least one job");
  expect(make({ "a b": { everyInMs: 1_000, run } })).toThrow("the name of a job must have 1 to 100 letters");
  expect(make({ a: { run } })).toThrow('job "a" needs one of cron, everyInMs and nextRun; got none');
  expect(make({ a: { run, everyInMs: 1_000, cron: "* * * * *" } })).toThrow("got cron and everyInMs");
  expect(make({ a: { everyInMs: 1_000 } })).toThrow("run must be a function");
  expect(make({ a: { everyInMs: 1_000, run, mised: "all" } })).toThrow('unknown option "mised"');
  expect(make({ a: { everyInMs: 1_000, run, missed: "some" } })).toThrow('must be one of "latest", "all", "skip"');
  expect(make({ a: { everyInMs: 1_000, run } }, { pollInterval: 1 })).toThrow('unknown option "pollInterval"');
  const { schedule } = fleet.instance({ a: { cron: "61 * * * *", run } });
  await expect(schedule.start()).rejects.toThrow('job "a": the expression "61 * * * *" with the time zone "UTC" is not valid');
  await expect(fleet.instance({ a: { everyInMs: 10, run } }).schedule.start()).rejects.toThrow("everyInMs must be a whole number, 100 to");
  await expect(fleet.instance({ a: { everyInMs: 1_000, run } }).schedule.trigger("b")).rejects.toThrow('there is no job "b". Known jobs: a.');
  expect(fleet.service.requests).toEqual([]);
});

test("schedules with the same name in different tables do not wait for each other, and one in the same table does, however its name is written", async () => {
  const ran: string[] = [];
  const at = (tableName: string): Schedule => new Schedule(new FakeTransactionTable(fleet.service, { tableName, pipeline: {} }), new BlobLocks(fleet.server.container(), { holder: tableName }), { cleanup: noting(ran, { everyInMs: 60_000 }) });
  fleet.instance({ cleanup: noting([], { everyInMs: 60_000 }, () => working(240_000)) });
  await fleet.start();
  await pass(60_000);
  const [other, same] = [at("invoices"), at("Orders")];
  const starting = Promise.all([other.start(), same.start()]);
  await pass(50);
  await starting;
  await pass(120_000);
  expect(ran).toEqual(["10:02:00", "10:03:00"]);
  const stopping = Promise.all([other.stop(), same.stop(), fleet.stop()]);
  await pass(240_000);
  await stopping;
});

test("due times that pass while missed ones are made up for are skipped, and each of them is in the history", async () => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 60_000, missed: "all", overlap: "skip" }, () => working(ran.length <= 3 ? 90_000 : 1_000)) };
  fleet.instance(jobs);
  await fleet.start();
  await fleet.stop();
  await pass(5 * 60_000);
  const { schedule } = fleet.instance(jobs, { historyLimit: 100 }, "later");
  const starting = schedule.start();
  await pass(50);
  await starting;
  await pass(15 * 60_000);
  expect(ran.slice(0, 7)).toEqual(["10:01:00", "10:02:00", "10:03:00", "10:04:00", "10:05:00", "10:11:00", "10:12:00"]);
  const skipped = (await collected(schedule.history("job"))).filter(({ state }) => state === "skipped").reverse();
  expect(skipped.map(({ dueOn, error }) => `${dueOn.toISOString().slice(11, 16)} ${error?.replace(/.*T(\d\d:\d\d).*/, "$1")}`)).toEqual(["10:06 10:07", "10:08 10:08", "10:09 10:10"]);
  await fleet.stop();
});

test.each([-600_000, 600_000])("a process that has not started the schedule registers, pauses and resumes jobs by the clock of the service: %i ms ahead", async (aheadInMs) => {
  const ran: string[] = [];
  const jobs = { job: noting(ran, { everyInMs: 60_000, missed: "all" }), other: noting(ran, { everyInMs: 3_600_000, missed: "all" }) };
  fleet.service.aheadInMs = aheadInMs;
  const { schedule } = fleet.instance(jobs);
  await fleet.start();
  const operator = fleet.instance(jobs, {}, "operator").schedule;
  await operator.pause("job");
  await pass(5 * 60_000);
  await operator.resume("job");
  ran.length = 0;
  await pass(3 * 60_000 - 1_000);
  expect(ran).toHaveLength(3);
  expect((await operator.trigger("job")).dueOn.getTime() - (Date.now() + aheadInMs)).toBeGreaterThan(-2_000);
  await schedule.stop();
  // Registered by a process that never starts it.
  const later = new FakeFleet();
  later.service.aheadInMs = aheadInMs;
  await later.instance(jobs).schedule.pause("job");
  expect(Math.abs(Date.parse(String(later.row("job")["cursor"])) - (Date.now() + aheadInMs))).toBeLessThan(2_000);
});

test("a table that does not exist is an error that says so, in each call", async () => {
  const { schedule } = fleet.instance({ job: noting([], { everyInMs: 60_000 }) });
  fleet.service.each("any", answer(404, "TableNotFound"));
  for (const call of [() => schedule.start(), () => schedule.trigger("job"), () => schedule.pause("job"), () => schedule.status(), () => schedule.history("job").next(), () => schedule.purge()]) {
    const outcome = call().then(() => undefined, (error: unknown) => error);
    await pass(100);
    expect(await outcome).toMatchObject({ code: "TARGET_NOT_FOUND", message: expect.stringContaining("of a schedule does not exist") as string });
  }
});
