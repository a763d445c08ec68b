import type { Bound, Measured, Side } from "./harness.js";
import { sum } from "./throughput.js";
import type { Throughput } from "./throughput.js";

// Each side comes first once and last once: a machine that slows down, or an Azurite that grows, favours neither.
const order: readonly Side[] = ["baseline", "ours", "ours", "baseline"];

/** Lets both sides update a counter of their own in turn, and compares how many updates they get done in a second. */
export async function contest(
  name: string,
  sides: Readonly<Record<Side, { run(): Promise<Throughput>; counter(): Promise<number> }>>,
  bounds: readonly Bound[],
): Promise<Measured> {
  const phases: Record<Side, Throughput[]> = { ours: [], baseline: [] };
  for (const side of order) phases[side].push(await sides[side].run());
  const figures = { ours: sum(phases.ours), baseline: sum(phases.baseline) };
  for (const side of ["ours", "baseline"] as const) {
    // A fast wrong answer is no answer.
    const counted = await sides[side].counter();
    if (counted !== figures[side].total) throw new Error(`${name}, ${side}: ${figures[side].total} updates, but the counter says ${counted}`);
  }
  const rate = ({ updates, elapsedInMs }: Throughput): number => (updates / elapsedInMs) * 1_000;
  const perUpdate = ({ updates, requests }: Throughput): number => requests / updates;
  return {
    name,
    unit: "updates/s",
    ours: rate(figures.ours),
    baseline: rate(figures.baseline),
    requestsPerOp: { ours: perUpdate(figures.ours), baseline: perUpdate(figures.baseline) },
    bounds,
  };
}
