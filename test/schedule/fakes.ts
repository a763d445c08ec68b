import { BlobLocks, Schedule } from "../../src/index.js";
import type { JobContext, ScheduledJob, ScheduledRun, ScheduleOptions } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { pass } from "../lease/fakes/time.js";
import { ClockService } from "../once/fakes.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

/** One instance: a process of its own, which shares nothing with the others but the services. */
export interface FakeInstance {
  readonly schedule: Schedule;
  readonly events: string[];
  readonly errors: unknown[];
  readonly finished: ScheduledRun[];
  readonly service: ClockService;
  readonly table: FakeTransactionTable;
}

export class FakeFleet {
  readonly service = new ClockService();
  readonly server = new FakeLeaseServer();
  readonly table = new FakeTransactionTable(this.service);
  readonly instances: FakeInstance[] = [];

  instance(jobs: Record<string, ScheduledJob>, options: ScheduleOptions = {}, holder = `p${this.instances.length + 1}`): FakeInstance {
    const service = this.service;
    const table = new FakeTransactionTable(service, { pipeline: {} });
    const schedule = new Schedule(table, new BlobLocks(this.server.container(), { holder }), jobs, options);
    const instance: FakeInstance = { schedule, events: [], errors: [], finished: [], service, table };
    schedule.on("error", (error) => instance.errors.push(error));
    schedule.on("started", ({ job, dueOn }) => instance.events.push(`started ${job} ${dueOn.toISOString().slice(11, 19)}`));
    schedule.on("finished", (run) => {
      instance.finished.push(run);
      instance.events.push(`${run.state} ${run.job} ${run.dueOn.toISOString().slice(11, 19)}`);
    });
    this.instances.push(instance);
    return instance;
  }

  /** All instances have started. */
  async start(): Promise<void> {
    const starting = this.instances.map(({ schedule }) => schedule.start());
    await pass(50);
    await Promise.all(starting);
  }

  async stop(): Promise<void> {
    const stopping = this.instances.map(({ schedule }) => schedule.stop());
    await pass(200);
    await Promise.all(stopping);
  }

  get errors(): unknown[] {
    return this.instances.flatMap(({ errors }) => errors);
  }

  /** The properties of the row of a job. */
  row(job: string, schedule = "default"): Record<string, unknown> {
    const row = this.table.row(`~asc~schedule-${schedule}`, `~asc~schedule!${job}`);
    return Object.fromEntries([...(row?.properties ?? [])].map(([name, { value }]) => [name, value]));
  }
}

/** A job that notes its due times, the seconds of the day. */
export function noting(notes: string[], trigger: Partial<ScheduledJob> & ({ everyInMs: number } | { cron: string } | { nextRun: (after: Date) => Date | undefined }), work?: (context: JobContext) => unknown): ScheduledJob {
  return {
    ...trigger,
    run: async (context: JobContext) => {
      notes.push(context.dueOn.toISOString().slice(11, 19));
      await work?.(context);
    },
  };
}

/** Waits on the fake clock, or until the signal aborts. */
export function working(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}

export async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}
