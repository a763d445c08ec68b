import type { Report } from "./messages.js";

/** What is known of one task: a row of operations, one after the other. */
export interface TaskRecord {
  begun: number;
  done: number;
  /** The last operation has no outcome: the worker was killed, or the library could not tell. */
  open: boolean;
  readonly notes: unknown[];
}

/** Everything that the workers reported. */
export class OperationLog {
  readonly #tasks = new Map<string, Map<string, TaskRecord>>();
  readonly errors = new Map<string, number>();

  record(report: Exclude<Report, { kind: "faint" }>): void {
    const task = this.#task(report.scenario, report.task);
    switch (report.kind) {
      case "begin":
        task.begun++;
        task.open = true;
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
    if (!task) tasks.set(id, (task = { begun: 0, done: 0, open: false, notes: [] }));
    return task;
  }

  #count(error: string): void {
    this.errors.set(error, (this.errors.get(error) ?? 0) + 1);
  }
}
