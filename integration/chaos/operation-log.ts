import type { Report } from "./messages.js";

/** What is known of one task: a row of operations, one after the other. */
export interface TaskRecord {
  begun: number;
  done: number;
  /** The last operation has no outcome: the worker was killed, or the library could not tell. */
  open: boolean;
  /** When the last operation began, in the time of the supervisor. */
  begunAt: number;
  readonly notes: unknown[];
}

type LoggedReport = Extract<Report, { scenario: string }>;

/** Everything that the workers reported. */
export class OperationLog {
  readonly #tasks = new Map<string, Map<string, TaskRecord>>();
  readonly errors = new Map<string, number>();
  /** Errors that no scenario expects, with the first stack of each, and tasks that were stuck after the storm. */
  readonly #unexpected = new Map<string, { count: number; readonly stack: string }>();
  readonly #stuck: string[] = [];

  record(report: LoggedReport): void {
    const task = this.#task(report.scenario, report.task);
    switch (report.kind) {
      case "begin":
        task.begun++;
        task.open = true;
        task.begunAt = performance.now();
        break;
      case "done":
        task.done++;
        task.open = false;
        break;
      case "refused":
        task.open = false;
        this.#count(`${report.scenario}: ${report.error}`);
        break;
      case "uncertain":
        this.#count(`${report.scenario}: ${report.error} (uncertain)`);
        break;
      case "unexpected": {
        const key = `${report.scenario}: unexpected ${report.error}`;
        const known = this.#unexpected.get(key);
        if (known) known.count++;
        else this.#unexpected.set(key, { count: 1, stack: report.stack });
        break;
      }
      case "stuck":
        this.#stuck.push(`${report.scenario}: ${report.task} got nothing done after the storm; ${report.waiting}`);
        break;
      case "note":
        task.notes.push(report.note);
    }
  }

  tasksOf(scenario: string): ReadonlyMap<string, TaskRecord> {
    return this.#tasks.get(scenario) ?? new Map<string, TaskRecord>();
  }

  notesOf<T>(scenario: string): T[] {
    return [...this.tasksOf(scenario).values()].flatMap((task) => task.notes as T[]);
  }

  doneIn(scenario: string): number {
    return [...this.tasksOf(scenario).values()].reduce((sum, task) => sum + task.done, 0);
  }

  /** What a run fails for besides the invariants. */
  problems(): string[] {
    return [...[...this.#unexpected].map(([what, { count, stack }]) => `${what}, ${count}x: ${stack}`), ...this.#stuck];
  }

  /** The operations of a scenario that have begun and not ended, those that wait longest first. */
  waitingIn(scenario: string, isAlive: (task: string) => boolean): string {
    const now = performance.now();
    const open = [...this.tasksOf(scenario)].filter(([id, task]) => task.open && isAlive(id)).sort(([, a], [, b]) => a.begunAt - b.begunAt);
    const lines = open.slice(0, 5).map(([id, { begun, begunAt }]) => `operation ${begun - 1} of ${id} for ${((now - begunAt) / 1000).toFixed(1)} s`);
    return lines.join(", ") || "no operation";
  }

  /**
   * Compares what was counted in the storage with what the library said: exactly what it called done, and an operation
   * without an outcome once or not at all.
   */
  compare(scenario: string, counted: (task: string) => number): string[] {
    const problems: string[] = [];
    for (const [id, task] of this.tasksOf(scenario)) {
      const found = counted(id);
      const most = task.done + (task.open ? 1 : 0);
      if (found < task.done || found > most) {
        problems.push(`${id}: ${found} in the storage, ${task.done} done${task.open ? " and one open" : ""}`);
      }
    }
    return problems;
  }

  #task(scenario: string, id: string): TaskRecord {
    let tasks = this.#tasks.get(scenario);
    if (!tasks) this.#tasks.set(scenario, (tasks = new Map<string, TaskRecord>()));
    let task = tasks.get(id);
    if (!task) tasks.set(id, (task = { begun: 0, done: 0, open: false, begunAt: 0, notes: [] }));
    return task;
  }

  #count(error: string): void {
    this.errors.set(error, (this.errors.get(error) ?? 0) + 1);
  }
}
