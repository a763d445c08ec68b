import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { BlobLocks, Schedule } from "../../src/index.js";
import type { JobContext, ScheduledJob } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;
const everyInMs = 20_000;
const jobNames = ["retry", "fail", "commit", "latest"] as const;

/** One call of the function of a job. */
interface Call {
  readonly job: string;
  readonly due: number;
  readonly startedAt: number;
  /** When it acted, if it was held then. */
  actedAt?: number;
}

const counted = { due: 0, calls: 0, stops: 0 };

/** The model: every due time has its effect; with `commit` once, with `onCrash: "fail"` at most once; runs that act do not overlap. */
class Fleet implements Scenario {
  readonly world: World;
  readonly #processes: SimProcess[];
  readonly #schedules: Schedule[];
  readonly #calls: Call[] = [];
  readonly #pending: Promise<unknown>[] = [];
  readonly #errors: unknown[] = [];
  #startedAt: number | undefined;

  constructor(world: World, seed: number) {
    this.world = world;
    this.#processes = Array.from({ length: processes }, (_, i) => {
      const process = world.newProcess();
      // The clock of each process is minutes off that of the others: as it sees it, that of the service is.
      const skewInMs = ((seed >> (i * 3)) % 5) * 60_000 - 120_000;
      if (seed % 3 === 0) process.tables.date = () => new Date(world.time.date.getTime() + skewInMs).toUTCString();
      return process;
    });
    this.#schedules = this.#processes.map((process, i) => this.#schedule(process, `p${i}`));
  }

  #schedule(process: SimProcess, holder: string): Schedule {
    const job = (name: string, work: (context: JobContext) => Promise<unknown>, policy: Partial<ScheduledJob>): ScheduledJob => ({
      everyInMs,
      missed: "all",
      overlap: "queue",
      ...policy,
      run: async (context) => {
        const call: Call = { job: name, due: context.dueOn.getTime(), startedAt: this.world.time.now };
        this.#calls.push(call);
        await work(context);
        context.assertHeld();
        call.actedAt = this.world.time.now;
      },
    }); // prettier-ignore
    const schedule = new Schedule(
      process.table("jobs"),
      new BlobLocks(process.container, { holder, defaults: { durationInSeconds: 15 } }),
      {
        retry: job("retry", () => this.world.time.sleep(3_000), { maxAttempts: 100 }),
        fail: job("fail", () => this.world.time.sleep(1_000), { onCrash: "fail" }),
        commit: job("commit", ({ commit, dueOn }) => commit("effects", [["create", { rowKey: `${dueOn.getTime()}-${crypto.randomUUID()}` }]]), { maxAttempts: 100 }),
        latest: job("latest", () => this.world.time.sleep(30_000), { missed: "latest", overlap: "skip", maxAttempts: 100 }),
      },
      { pollIntervalInMs: 5_000, takeoverIntervalInMs: 5_000, historyLimit: 100, drainTimeoutInMs: 2_000 },
    );
    return schedule.on("error", (error) => this.#errors.push(error));
  }

  start(process: number): void {
    const schedule = this.#schedules[process]!;
    const starting = schedule.start().then(() => {
      this.#startedAt ??= this.world.time.date.getTime();
    });
    this.#pending.push(starting.catch(() => undefined));
  }

  stop(process: number): void {
    counted.stops++;
    this.#pending.push(this.#schedules[process]!.stop());
  }

  cutOff(process: number): void {
    this.#processes[process]!.cutOff();
  }

  async finish(): Promise<void> {
    const { time } = this.world;
    this.world.networkConditions = calm;
    await time.sleep(61_000); // for the last straggler
    const survivor = this.world.newProcess();
    const last = this.#schedule(survivor, "survivor");
    await last.start();
    this.#startedAt ??= time.date.getTime();
    // Until it has made up for everything, at the latest when the locks of the dead have expired, and clocks that were ahead are reached.
    await time.sleep(600_000);
    const table = survivor.table("jobs");
    const now = time.date.getTime();
    const row = (job: string, name: string): string => String(table.property(name, "~asc~schedule-default", `~asc~schedule!${job}`)?.value);
    await Promise.all([...this.#schedules.map((schedule) => schedule.stop({ drainTimeoutInMs: 1_000 })), last.stop({ drainTimeoutInMs: 5_000 }), ...this.#pending]);
    await time.sleep(60_000);
    for (const job of ["retry", "commit"]) this.#checkAllDue(job, now);
    const fails = this.#dueTimes("fail");
    expect(fails.length, "starts of onCrash: fail").toBe(new Set(fails).size);
    const effects = table.rowKeys("effects").filter((key) => !key.startsWith("~asc~")).map((key) => Number(key.split("-")[0]));
    expect(effects.length, "effects of commits").toBe(new Set(effects).size);
    expect([...new Set(this.#dueTimes("commit"))].filter((due) => due <= now - everyInMs && !effects.includes(due)), "due times without their effect").toEqual([]);
    for (const job of jobNames) this.#checkOverlaps(job);
    for (const job of ["retry", "commit"]) expect(row(job, "history"), job).not.toContain('"failed"');
    counted.due += new Set(this.#dueTimes("retry")).size;
    counted.calls += this.#dueTimes("retry").length;
  }

  #dueTimes(job: string): number[] {
    return this.#calls.filter((call) => call.job === job).map(({ due }) => due);
  }

  /** None is left out between the first start of an instance and now. */
  #checkAllDue(job: string, now: number): void {
    const ran = new Set(this.#dueTimes(job));
    const first = Math.min(...ran);
    expect(first, `the first due time of ${job}`).toBeLessThanOrEqual((this.#startedAt ?? now) + 2 * everyInMs + 240_000);
    const missing: number[] = [];
    for (let due = first; due < now - everyInMs; due += everyInMs) if (!ran.has(due)) missing.push(due);
    expect(missing, `due times of ${job} that did not run, the first being ${first}`).toEqual([]);
    expect([...ran].filter((due) => due % everyInMs !== 0)).toEqual([]);
  }

  #checkOverlaps(job: string): void {
    const acted = this.#calls.filter((call): call is Call & { actedAt: number } => call.job === job && call.actedAt !== undefined);
    for (const a of acted) for (const b of acted) if (a !== b && b.startedAt > a.startedAt) expect(b.startedAt, `runs of ${job}`).toBeGreaterThanOrEqual(a.actedAt);
  }
}

class Start extends Step<Fleet> {
  readonly process: number;
  readonly pauseInMs: number;

  constructor(process: number, pauseInMs: number) {
    super();
    this.process = process;
    this.pauseInMs = pauseInMs;
  }

  override act(fleet: Fleet): void {
    fleet.start(this.process);
  }
}

class Stop extends Start {
  override act(fleet: Fleet): void {
    fleet.stop(this.process);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const start = fc.tuple(process_, pauses(60_000)).map(([process, pauseInMs]) => new Start(process, pauseInMs));
const stop = fc.tuple(process_, pauses(60_000)).map(([process, pauseInMs]) => new Stop(process, pauseInMs));

test("every due time has its effect: once with a commit, at most once with onCrash: fail, and runs that act do not overlap", { timeout: 600_000 }, async () => {
  await checkModel<Fleet>(
    150,
    [start, start, start, stop, fc.integer({ min: 1_000, max: 120_000 }).map((ms) => new Pause(ms)), process_.map((n) => new CutOff(n))],
    (world, seed) => new Fleet(world, seed),
  );
});

afterAll(() => {
  if (process.env["MODEL_RUNS"]) console.log(counted);
  // Else it would hold for a fleet in which nothing happens.
  expect(counted.due).toBeGreaterThan(1_000);
});
