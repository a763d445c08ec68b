import type { Report } from "./messages.js";

/** What is known of one lane: a row of operations, one after the other. */
export interface LaneRecord {
  begun: number;
  done: number;
  /** The last operation has no outcome: the worker was killed, or the library could not tell. */
  open: boolean;
  readonly notes: unknown[];
}

/** Everything that the workers reported. */
export class Ledger {
  readonly #lanes = new Map<string, Map<string, LaneRecord>>();
  readonly errors = new Map<string, number>();

  record(report: Exclude<Report, { kind: "faint" }>): void {
    const lane = this.#lane(report.scenario, report.lane);
    switch (report.kind) {
      case "begin":
        lane.begun++;
        lane.open = true;
        break;
      case "done":
        lane.done++;
        lane.open = false;
        break;
      case "refused":
        lane.open = false;
        this.#count(`${report.scenario}: ${report.error}`);
        break;
      case "uncertain":
        this.#count(`${report.scenario}: ${report.error} (uncertain)`);
        break;
      case "note":
        lane.notes.push(report.note);
    }
  }

  lanesOf(scenario: string): ReadonlyMap<string, LaneRecord> {
    return this.#lanes.get(scenario) ?? new Map<string, LaneRecord>();
  }

  notesOf<T>(scenario: string): T[] {
    return [...this.lanesOf(scenario).values()].flatMap((lane) => lane.notes as T[]);
  }

  doneIn(scenario: string): number {
    return [...this.lanesOf(scenario).values()].reduce((sum, lane) => sum + lane.done, 0);
  }

  /**
   * Compares what was counted in the storage with what the library said: exactly what it called done, and an operation
   * without an outcome once or not at all.
   */
  compare(scenario: string, counted: (lane: string) => number): string[] {
    const problems: string[] = [];
    for (const [id, lane] of this.lanesOf(scenario)) {
      const found = counted(id);
      const most = lane.done + (lane.open ? 1 : 0);
      if (found < lane.done || found > most) {
        problems.push(`${id}: ${found} in the storage, ${lane.done} done${lane.open ? " and one open" : ""}`);
      }
    }
    return problems;
  }

  #lane(scenario: string, id: string): LaneRecord {
    let lanes = this.#lanes.get(scenario);
    if (!lanes) this.#lanes.set(scenario, (lanes = new Map<string, LaneRecord>()));
    let lane = lanes.get(id);
    if (!lane) lanes.set(id, (lane = { begun: 0, done: 0, open: false, notes: [] }));
    return lane;
  }

  #count(error: string): void {
    this.errors.set(error, (this.errors.get(error) ?? 0) + 1);
  }
}
