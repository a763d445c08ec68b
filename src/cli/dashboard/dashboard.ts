import { read } from "../../core/request.js";
import { BlobLocks } from "../../lock/blob-locks.js";
import type { Account } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { collectLocks, lockView } from "./collect-locks.js";
import { QueueCollector } from "./collect-queue.js";
import { collectSchedule } from "./collect-schedule.js";
import { collectTable } from "./collect-table.js";
import { PolledSource } from "./polled-source.js";
import { startCounting } from "./request-counter.js";
import { performAction } from "./actions.js";
import type { Action, InspectedLock, Snapshot } from "./snapshot.js";

/** What a dashboard shows, and how often it looks. */
export interface DashboardOptions {
  readonly containers: readonly string[];
  /** Of the blobs of the locks. */
  readonly prefix: string;
  readonly elections: readonly string[];
  readonly queues: readonly string[];
  readonly tables: readonly string[];
  /** The names of the schedules in each table. */
  readonly schedules: readonly string[];
  readonly intervalInMs: number;
  readonly allowActions: boolean;
}

/** To count the records of a table takes several requests, and the service scans the table. */
const minCountIntervalInMs = 30_000;
const answerWithinInMs = 3_000;

/** Reads what the page shows, when the page asks: while none is open, nothing is read. */
export class Dashboard {
  readonly options: DashboardOptions;
  readonly #account: Account;
  readonly #queues: ReadonlyMap<string, QueueCollector>;
  readonly #sources;
  readonly #counting = startCounting();
  readonly #stopped = new AbortController();

  constructor(account: Account, options: DashboardOptions) {
    this.options = options;
    this.#account = account;
    const { containers, prefix, elections, queues, tables, schedules, intervalInMs } = options;
    this.#queues = new Map(queues.map((name) => [name, new QueueCollector(account, name)]));
    this.#sources = {
      containers: containers.map((name) => new PolledSource(name, intervalInMs, async (signal) => collectLocks(await account.container(name), prefix, elections, signal))),
      queues: [...this.#queues].map(([name, queue]) => new PolledSource(name, intervalInMs, (signal) => queue.collect(signal))),
      schedules: tables.flatMap((table) =>
        schedules.map((schedule) => new PolledSource(`${table}/${schedule}`, intervalInMs, async (signal) => collectSchedule(await account.table(table), schedule, signal)))),
      tables: tables.map((name) => new PolledSource(name, Math.max(intervalInMs, minCountIntervalInMs), async (signal) => collectTable(await account.table(name), signal))),
    };
  }

  /** As it is now, or was less than an interval ago: pages that are open at the same time share the requests. */
  async snapshot(): Promise<Snapshot> {
    const all = this.#all();
    const refreshes = all.map((source) => source.refresh(this.#stopped.signal));
    // What takes longer is in a later answer: it must not hold up the others.
    await read(() => Promise.all(refreshes), { timeoutInMs: answerWithinInMs }).catch(() => undefined);
    const { containers, queues, schedules, tables } = this.#sources;
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    return {
      account: this.#account.settings.name,
      takenOn: new Date().toISOString(),
      intervalInMs: this.options.intervalInMs,
      allowsActions: this.options.allowActions,
      cost: { requestsPerMinute: Math.round(sum(all.map((source) => source.requestsPerMinute))), requests: sum(all.map((source) => source.requests)) },
      containers: containers.map(({ source }) => source),
      schedules: schedules.map(({ source }) => source),
      queues: queues.map(({ source }) => source),
      tables: tables.map(({ source }) => source),
    };
  }

  /** Undefined: the message is not shown any more. */
  payloadOf(queue: string, id: string, version: string): string | undefined {
    return this.#queues.get(queue)?.payloadOf(id, version);
  }

  /** A lock as it is now, with the ETag that a listing does not have. */
  async inspectLock(container: string, name: string): Promise<InspectedLock> {
    if (!this.options.containers.includes(container)) throw notShown("container", container);
    const status = await new BlobLocks(await this.#account.container(container), { prefix: this.options.prefix }).inspect(name);
    return { ...lockView(status), etag: status.etag };
  }

  /** Does what the user has confirmed, and returns a sentence about it. */
  async perform(action: Action): Promise<string> {
    const { containers, queues, tables, schedules, prefix } = this.options;
    if (action.kind === "break" && !containers.includes(action.container)) throw notShown("container", action.container);
    if ((action.kind === "redrive" || action.kind === "delete") && !queues.includes(action.queue)) throw notShown("queue", action.queue);
    if (action.kind === "trigger" && !(tables.includes(action.table) && schedules.includes(action.schedule))) throw notShown("schedule", `${action.table}/${action.schedule}`);
    try {
      return await performAction(this.#account, prefix, action);
    } finally {
      for (const source of this.#all()) source.expire();
    }
  }

  stop(): void {
    this.#stopped.abort();
    this.#counting[Symbol.dispose]();
  }

  #all(): readonly PolledSource<unknown>[] {
    return Object.values(this.#sources).flat();
  }
}

function notShown(what: string, name: string): CommandError {
  return new CommandError(exitCodes.usage, `The dashboard does not show the ${what} ${JSON.stringify(name)}.`);
}
