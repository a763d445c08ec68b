/* Who held what, and when: a row for each service, from left to right. */
import { isTerminal, paint, pin, print, width } from "./screen.js";
import type { Colour } from "./screen.js";

/** What a service is doing: it holds, it waits, or it is dead while what it held has not run out. */
export type State = "holds" | "waits" | "lingers" | "gone";

const glyphs: Record<State, string> = isTerminal
  ? { holds: "█", waits: "·", lingers: "░", gone: " " }
  : { holds: "#", waits: ".", lingers: "~", gone: " " };
const colours: Partial<Record<State, Colour>> = { holds: "green", waits: "dim", lingers: "red" };

interface Change {
  readonly at: number;
  readonly state: State;
}

interface Mark {
  readonly at: number;
  readonly character: string;
}

export interface TimelineOptions {
  /** What the states mean in this story: `{ holds: "has the lease", waits: "waits for it" }`. */
  legend: Partial<Record<State, string>>;
  /** The rows grow from left to right over this time; if it takes longer, they are drawn closer. */
  expectedInMs: number;
}

/** On a terminal it is drawn while it happens. */
export class Timeline {
  readonly #rows: Map<string, { changes: Change[]; marks: Mark[] }>;
  readonly #options: TimelineOptions;
  readonly #started = performance.now();
  readonly #redraw: NodeJS.Timeout | undefined;

  constructor(rows: readonly string[], options: TimelineOptions) {
    this.#rows = new Map(rows.map((row) => [row, { changes: [], marks: [] }]));
    this.#options = options;
    if (isTerminal) this.#redraw = setInterval(() => pin(this.#lines()), 100);
  }

  /** From now on. */
  set(row: string, state: State): void {
    this.#rows.get(row)?.changes.push({ at: this.#now(), state });
  }

  /** A character at this moment. */
  mark(row: string, character: string): void {
    this.#rows.get(row)?.marks.push({ at: this.#now(), character });
  }

  /** Prints it as it is at the end. */
  finish(): void {
    clearInterval(this.#redraw);
    pin([]);
    for (const line of this.#lines()) print(line);
  }

  #now(): number {
    return performance.now() - this.#started;
  }

  #lines(): string[] {
    const end = this.#now();
    const margin = Math.max(...[...this.#rows.keys()].map((row) => row.length)) + 8;
    const columnInMs = Math.max(end, this.#options.expectedInMs) / (width - margin);
    const columns = Math.floor(end / columnInMs) + 1;
    const rows = [...this.#rows].map(([row, { changes, marks }]) => {
      // A row shows the state at one moment, the end of each column: so two that follow each other never seem to overlap.
      const states = Array.from({ length: columns }, (_, column) => changes.findLast(({ at }) => at <= (column + 1) * columnInMs)?.state ?? "gone");
      const marked = new Map(marks.map(({ at, character }) => [Math.floor(at / columnInMs), character]));
      const cells = states.map((state, column) => {
        const mark = marked.get(column);
        if (mark !== undefined) return paint("bold", mark);
        const colour = colours[state];
        return colour ? paint(colour, glyphs[state]) : glyphs[state];
      });
      return `      ${row.padEnd(margin - 6)}${cells.join("")}`.trimEnd();
    });
    return [`${" ".repeat(margin)}${axis(columnInMs, width - margin)}`, ...rows, `${" ".repeat(margin)}${paint("dim", this.#legend())}`];
  }

  #legend(): string {
    return Object.entries(this.#options.legend)
      .map(([state, meaning]) => `${glyphs[state as State]} ${meaning}`)
      .join("   ");
  }
}

/** Times at round distances: `0 s       2 s       4 s`. */
function axis(columnInMs: number, columns: number): string {
  const stepInMs = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000].find((step) => step / columnInMs >= 9) ?? 60_000;
  let line = "";
  for (let at = 0; at / columnInMs < columns - 5; at += stepInMs) {
    line = `${line.padEnd(Math.round(at / columnInMs))}${at / 1_000} s`;
  }
  return paint("dim", line);
}
