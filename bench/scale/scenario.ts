import { World } from "../../test/simulation/storage/world.js";
import type { SimProcess } from "../../test/simulation/storage/world.js";
import type { Backend } from "../../test/simulation/storage/backend.js";
import { Tally } from "./measurement.js";
import type { Measurement } from "./measurement.js";

/** The published limits: requests a second of one blob, one table partition and one queue. */
export const published = { blob: 500, table: 2_000, queue: 2_000 };

/** One process that does the same over and over, until the run ends. */
export interface Contender {
  readonly world: World;
  readonly process: SimProcess;
  readonly number: number;
  readonly tally: Tally;
}

/** Something that many processes want at the same time. */
export interface Scenario {
  readonly name: string;
  readonly variant: string;
  /** Whose limit counts. */
  readonly service: (world: World) => Backend;
  /** Before anybody comes. */
  readonly prepare?: (world: World, tally: Tally) => Promise<void> | void;
  /** Never ends. */
  readonly contend: (contender: Contender) => Promise<unknown>;
}

/** Processes do not all start in the same instant. */
const startWithinInMs = 5_000;

/** Runs until what happens at the start is over, and measures from then on. */
export async function measure(
  scenario: Scenario,
  processes: number,
  { warmUpInSeconds, seconds }: { warmUpInSeconds: number; seconds: number },
  seed = 1,
): Promise<Measurement> {
  const world = new World(seed, published);
  return world.time.run(async () => {
    const tally = new Tally();
    await scenario.prepare?.(world, tally);
    for (let number = 0; number < processes; number++) {
      const contender: Contender = { world, process: world.newProcess(), number, tally };
      const start = (): void => void scenario.contend(contender);
      world.time.after(world.time.random() * startWithinInMs, start);
    }
    await world.time.sleep(warmUpInSeconds * 1_000);
    tally.reset();
    const { counts } = scenario.service(world);
    Object.assign(counts, { requests: 0, throttled: 0 });
    await world.time.sleep(seconds * 1_000);
    return { scenario: scenario.name, variant: scenario.variant, ...tally.result(processes, seconds, counts) };
  });
}
