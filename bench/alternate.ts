import type { Pair, Side } from "./harness.js";
import { requestsSent } from "./requests.js";

export interface AlternateOptions {
  /** How often each side has its turn. */
  readonly turns: number;
  /** How many operations make one turn: as few as the clock allows, so that both sides meet the same machine. */
  readonly opsPerTurn: number;
  /** Turns that are not counted: compilation, connections, a journal that fills up. */
  readonly warmUpTurns: number;
}

export interface Alternated {
  /** Microseconds per operation, the median turn. */
  readonly microseconds: Pair;
  /** The median over all pairs of neighbouring turns: what slows the machine down slows both of a pair. */
  readonly ratio: number;
  readonly requestsPerOp: Pair;
}

/** Times two ways of doing the same thing, one operation after the other, in many short turns. */
export async function alternate(ways: Readonly<Record<Side, () => Promise<unknown>>>, options: AlternateOptions): Promise<Alternated> {
  const times: Record<Side, number[]> = { ours: [], baseline: [] };
  const requests = { ours: 0, baseline: 0 };
  const ratios: number[] = [];
  const turn = async (side: Side): Promise<number> => {
    const sentBefore = requestsSent();
    const start = performance.now();
    for (let op = 0; op < options.opsPerTurn; op++) await ways[side]();
    const microseconds = ((performance.now() - start) * 1_000) / options.opsPerTurn;
    requests[side] += requestsSent() - sentBefore;
    return microseconds;
  };
  for (let at = -options.warmUpTurns; at < options.turns; at++) {
    if (at === 0) requests.ours = requests.baseline = 0;
    const oursFirst = at % 2 === 0;
    const first = await turn(oursFirst ? "ours" : "baseline");
    const second = await turn(oursFirst ? "baseline" : "ours");
    if (at < 0) continue;
    const [ours, baseline] = oursFirst ? [first, second] : [second, first];
    times.ours.push(ours);
    times.baseline.push(baseline);
    ratios.push(ours / baseline);
  }
  const ops = options.turns * options.opsPerTurn;
  return {
    microseconds: { ours: median(times.ours), baseline: median(times.baseline) },
    ratio: median(ratios),
    requestsPerOp: { ours: requests.ours / ops, baseline: requests.baseline / ops },
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
