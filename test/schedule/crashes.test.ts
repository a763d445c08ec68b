import { beforeEach, describe, expect, test, vi } from "vitest";
import type { JobContext, ScheduledJob } from "../../src/index.js";
import { hang, loseAnswer, loseAnswerForGood } from "../fakes/faults.js";
import { hang as hangingAnswer } from "../lease/fakes/answers.js";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { collected, FakeFleet, noting, working } from "./fakes.js";
import type { FakeInstance } from "./fakes.js";

useFakeClock();

let fleet: FakeFleet;
beforeEach(() => {
  vi.setSystemTime(new Date("2030-01-01T10:00:30.000Z"));
  fleet = new FakeFleet();
});

async function started(instance: FakeInstance): Promise<FakeInstance> {
  const starting = instance.schedule.start();
  await pass(20);
  await starting;
  return instance;
}

/** From now on leases run out. */
function loseRenewals(): void {
  fleet.server.intercept = (operation) => (operation === "renew" ? hangingAnswer : undefined);
}

/** A process that crashes during its run: its lock is not renewed, and it writes nothing more. */
class Crash {
  crashed = false;

  /** Starts an instance that runs the job until it crashes. */
  async during(jobs: Record<string, ScheduledJob>): Promise<FakeInstance> {
    const instance = fleet.instance(jobs);
    const { table } = instance;
    for (const method of ["getEntity", "updateEntity", "createEntity", "submitTransaction", "listEntities"] as const) {
      const original = (table[method] as (...args: unknown[]) => unknown).bind(table);
      const never = (): unknown => (method === "listEntities" ? { byPage: () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) }) } : new Promise(() => undefined));
      Object.assign(table, { [method]: (...args: unknown[]) => (this.crashed ? never() : original(...args)) });
    }
    await started(instance);
    return instance;
  }

  now(): void {
    this.crashed = true;
    loseRenewals();
  }
}

describe("a crash during a run", () => {
  test.each([
    ["retry", "succeeded", 2],
    ["fail", "failed", 1],
  ] as const)("onCrash: %s", async (onCrash, state, runs) => {
    const ran: string[] = [];
    const attempts: number[] = [];
    const crash = new Crash();
    const jobs = (work: (context: JobContext) => unknown): Record<string, ScheduledJob> => ({
      job: noting(ran, { everyInMs: 3_600_000, onCrash }, (context) => {
        attempts.push(context.attempt);
        return work(context);
      }),
    });
    const dying = await crash.during(jobs(() => new Promise(() => undefined)));
    await dying.schedule.trigger("job");
    await pass(100);
    const heir = await started(fleet.instance(jobs(() => undefined)));
    crash.now();
    await pass(120_000);
    expect(ran).toHaveLength(runs);
    expect(attempts).toEqual(onCrash === "retry" ? [1, 2] : [1]);
    expect(await collected(heir.schedule.history("job"))).toMatchObject([{ state, attempt: runs, holder: onCrash === "retry" ? "p2" : "p1" }]);
    void dying.schedule.stop({ drainTimeoutInMs: 0 });
    await pass(100_000);
    const stopping = heir.schedule.stop();
    await pass(20);
    await stopping;
  });
});

test("a claim whose response is lost runs once", async () => {
  const ran: string[] = [];
  for (let i = 0; i < 3; i++) fleet.instance({ job: noting(ran, { everyInMs: 60_000, onCrash: "fail" }) });
  await fleet.start();
  fleet.service.each("write", loseAnswer);
  await pass(300_000);
  expect(ran).toEqual(["10:01:00", "10:02:00", "10:03:00", "10:04:00", "10:05:00"]);
  fleet.service.heal();
  expect((await collected(fleet.instances[0]!.schedule.history("job"))).map(({ state }) => state)).toEqual(Array.from({ length: 5 }, () => "succeeded"));
  await fleet.stop();
});

test("a claim whose outcome is unknown at first runs once the table can be read again", async () => {
  const ran: string[] = [];
  fleet.instance({ job: noting(ran, { everyInMs: 60_000, onCrash: "fail" }) });
  await fleet.start();
  await pass(29_000);
  fleet.service.next("updateEntity", loseAnswerForGood);
  fleet.service.next("getEntity", hang, hang, hang, hang, hang, hang, hang);
  await pass(100_000);
  expect(ran).toContain("10:01:00");
  expect(new Set(ran).size).toBe(ran.length);
  expect((await collected(fleet.instances[0]!.schedule.history("job"))).filter(({ state }) => state === "failed")).toEqual([]);
  await fleet.stop();
});

describe("commit", () => {
  const effects = (): number => fleet.table.rowKeys("effects").filter((key) => !key.startsWith("~asc~")).length;

  test("writes the effect and the record in one transaction, once", async () => {
    const results: string[] = [];
    const { schedule } = await started(fleet.instance({
      job: noting([], { everyInMs: 3_600_000 }, async ({ commit, dueOn }) => {
        results.push(await commit("effects", [["create", { rowKey: dueOn.toISOString(), total: 1 }]]));
        await expect(commit("effects", [])).rejects.toThrow("a run can commit once");
      }),
    }));
    await schedule.trigger("job");
    await pass(100);
    expect(results).toEqual(["committed"]);
    expect(effects()).toBe(1);
    expect(fleet.table.rowKeys("effects").filter((key) => key.startsWith("~asc~schedule-done!default!job!"))).toHaveLength(1);
    expect(await collected(schedule.history("job"))).toMatchObject([{ state: "succeeded" }]);
    await fleet.stop();
  });

  test("rejects row keys of the library, on which receipts of other runs depend", async () => {
    const { schedule } = await started(fleet.instance({
      job: noting([], { everyInMs: 3_600_000 }, ({ commit }) => commit("effects", [["create", { rowKey: "~asc~schedule-done!default!job!x" }]])),
    }));
    await schedule.trigger("job");
    await pass(100);
    expect(fleet.table.rowKeys("effects")).toEqual([]);
    await fleet.stop();
  });

  test("has succeeded even if the function throws afterwards, and failed if no commit succeeded even if it returns", async () => {
    let fails = false;
    const { schedule, errors } = await started(fleet.instance({
      job: noting([], { everyInMs: 3_600_000 }, async ({ commit }) => {
        if (fails) return commit("effects", [["update", { rowKey: "missing" }]]).catch(() => undefined);
        await commit("effects", [["upsert", { rowKey: "a" }]]);
        throw new Error("after the commit");
      }),
    }));
    await schedule.trigger("job");
    await pass(100);
    fails = true;
    await schedule.trigger("job");
    await pass(10_000);
    expect((await collected(schedule.history("job"))).map(({ state }) => state)).toEqual(["failed", "succeeded"]);
    expect(errors).toEqual([expect.objectContaining({ message: "after the commit" })]);
    await fleet.stop();
  });

  test("a crash after the commit: the run has succeeded, and does not run again", async () => {
    const ran: string[] = [];
    const crash = new Crash();
    const jobs = { job: noting(ran, { everyInMs: 3_600_000 }, async ({ commit }: JobContext) => {
      await commit("effects", [["create", { rowKey: "a" }]]);
      await new Promise(() => undefined);
    }) };
    const dying = await crash.during(jobs);
    await dying.schedule.trigger("job");
    await pass(100);
    const heir = await started(fleet.instance(jobs));
    crash.now();
    await pass(120_000);
    expect(ran).toHaveLength(1);
    expect(await collected(heir.schedule.history("job"))).toMatchObject([{ state: "succeeded", attempt: 1 }]);
    void dying.schedule.stop({ drainTimeoutInMs: 0 });
    await pass(100_000);
    const stopping = heir.schedule.stop();
    await pass(20);
    await stopping;
  });

  test.each(["retry", "fail"] as const)("a late commit of a run that was taken over is refused (onCrash: %s)", async (onCrash) => {
    let release: (() => void) | undefined;
    const late: unknown[] = [];
    const jobs = (isSlow: boolean): Record<string, ScheduledJob> => ({
      job: noting([], { everyInMs: 3_600_000, onCrash }, async ({ commit, attempt }) => {
        if (isSlow) await new Promise<void>((resolve) => (release = resolve));
        await commit("effects", [["create", { rowKey: `attempt-${attempt}` }]]).catch((error: unknown) => late.push(error));
      }),
    });
    const first = await started(fleet.instance(jobs(true), { drainTimeoutInMs: 600_000 }));
    await first.schedule.trigger("job");
    await pass(100);
    const heir = await started(fleet.instance(jobs(false)));
    // The process is suspended: its lease runs out.
    loseRenewals();
    await pass(120_000);
    expect(fleet.table.rowKeys("effects").filter((key) => !key.startsWith("~asc~"))).toEqual(onCrash === "retry" ? ["attempt-2"] : []);
    release?.();
    await pass(1_000);
    expect(late).toEqual([expect.objectContaining({ code: "LEASE_LOST" })]);
    expect(effects()).toBe(onCrash === "retry" ? 1 : 0);
    expect((await collected(heir.schedule.history("job"))).map(({ state }) => state)).toEqual([onCrash === "retry" ? "succeeded" : "failed"]);
    await fleet.stop();
    await pass(60_000);
  });

  test("a transaction in flight when its run is taken over is not committed later", async () => {
    const jobs = (isSlow: boolean): Record<string, ScheduledJob> => ({
      job: noting([], { everyInMs: 3_600_000 }, async ({ commit, attempt, signal }) => {
        const committing = commit("effects", [["create", { rowKey: `attempt-${attempt}` }]]);
        if (isSlow) await working(500_000, signal).catch(() => undefined);
        await committing;
      }),
    });
    const first = await started(fleet.instance(jobs(true)));
    let arrive: (() => void) | undefined;
    const submit = first.table.submitTransaction.bind(first.table);
    first.table.submitTransaction = async (actions, options) => {
      if (!arrive) await new Promise<void>((resolve) => (arrive = resolve));
      return submit(actions, options && { ...options, abortSignal: new AbortController().signal });
    };
    await first.schedule.trigger("job");
    await pass(100);
    const heir = await started(fleet.instance(jobs(false)));
    loseRenewals();
    await pass(120_000);
    expect(fleet.table.rowKeys("effects").filter((key) => !key.startsWith("~asc~"))).toEqual(["attempt-2"]);
    arrive?.();
    await pass(60_000);
    expect(effects()).toBe(1);
    expect((await collected(heir.schedule.history("job"))).map(({ state, attempt }) => [state, attempt])).toEqual([["succeeded", 2]]);
    await fleet.stop();
    await pass(60_000);
  });
});
