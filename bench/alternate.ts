import type { Pair, Side, Spread } from "./harness.js";
import { paced } from "./pace.js";
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
  readonly spread: Spread;
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
  const [turns, warmUpTurns] = [paced(options.turns), paced(options.warmUpTurns)];
  for (let at = -warmUpTurns; at < turns; at++) {
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
  const ops = turns * options.opsPerTurn;
  return {
    microseconds: { ours: median(times.ours), baseline: median(times.baseline) },
    ratio: median(ratios),
    spread: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
    requestsPerOp: { ours: requests.ours / ops, baseline: requests.baseline / ops },
  };
}

/** Of times, for a bench that shows rates. */
export function inverse({ ratio, spread: [low, high] }: Pick<Alternated, "ratio" | "spread">): { ratio: number; spread: Spread } {
  return { ratio: 1 / ratio, spread: [1 / high, 1 / low] };
}

function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (sorted.length - 1) * part;
  const [below, above] = [sorted[Math.floor(at)] ?? NaN, sorted[Math.ceil(at)] ?? NaN];
  return below + (above - below) * (at - Math.floor(at));
}
