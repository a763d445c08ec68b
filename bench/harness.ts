import type { ContainerClient } from "@azure/storage-blob";
import type { TableClient } from "@azure/data-tables";

/** A set of measurements with a name. To add one: a file in `benches/`, and an entry in the list in `benches/index.ts`. */
export interface Bench {
  readonly name: string;
  /** One line on what is compared with what. */
  readonly about: string;
  /** Yields each row as soon as it is known. */
  run(env: BenchEnv): AsyncIterable<Measured>;
}

/** What a bench works with: one Azurite for the whole run, and containers and tables of its own in it. */
export interface BenchEnv {
  readonly connectionString: string;
  freshTable(): Promise<TableClient>;
  freshContainer(): Promise<ContainerClient>;
}

/** The two sides of every comparison: this library, and equivalent code on the plain SDK. */
export type Side = "ours" | "baseline";

/** One figure of both sides. */
export type Pair = Readonly<Record<Side, number>>;

/** The first and the third quartile. */
export type Spread = readonly [low: number, high: number];

/** What a bench measured; the harness adds what follows from it. */
export interface Measured extends Pair {
  readonly name: string;
  readonly unit: string;
  /** Ours over the baseline, where a better figure is at hand than the quotient of the two (a median of quotients). */
  readonly ratio?: number;
  /** The quartiles of the ratio over all turns: between them is half of the turns. */
  readonly spread?: Spread;
  /** Left out where nothing is sent. */
  readonly requestsPerOp?: Pair;
  readonly bounds: readonly Bound[];
}

/** A limit that one of the figures has to keep. */
export interface Bound {
  readonly of: "ratio" | "ours" | "requests";
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** One line of the table, and one element of the JSON file. */
export interface Row extends Pair {
  readonly bench: string;
  readonly name: string;
  readonly unit: string;
  readonly ratio: number;
  readonly spread: Spread | null;
  readonly requestsPerOp: Pair | null;
  /** For example ">= 50x, <= 0.2 requests". Empty: the figure is for information. */
  readonly bound: string;
  readonly met: boolean;
}

export function toRow(bench: string, measured: Measured): Row {
  const { name, unit, ours, baseline, bounds } = measured;
  const ratio = measured.ratio ?? ours / baseline;
  const requestsPerOp = measured.requestsPerOp ?? null;
  const figures = { ratio, ours, requests: requestsPerOp?.ours ?? NaN };
  const suffixes = { ratio: "x", ours: ` ${unit}`, requests: " requests" };
  return {
    bench,
    name,
    unit,
    ours,
    baseline,
    ratio,
    spread: measured.spread ?? null,
    requestsPerOp,
    bound: bounds.map((bound) => describe(bound) + suffixes[bound.of]).join(", "),
    met: bounds.every((bound) => isMet(bound, figures[bound.of])),
  };
}

function describe({ atLeast, atMost }: Bound): string {
  return [atLeast === undefined ? "" : `>= ${atLeast}`, atMost === undefined ? "" : `<= ${atMost}`].join("");
}

// A figure that is not a number keeps no limit: a bench that measured nothing must not look like a good one.
function isMet({ atLeast = -Infinity, atMost = Infinity }: Bound, figure: number): boolean {
  return figure >= atLeast && figure <= atMost;
}
