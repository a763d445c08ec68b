import fc from "fast-check";
import { World } from "../simulation/storage/world.js";
import { calm, stormy } from "../simulation/storage/network-conditions.js";

/** How many commands a run has at most. */
const maxCommands = 12;

/** What is checked: commands that do something, and what has to be true at the end. */
export interface Scenario {
  readonly world: World;
  /** Lets everything come to an end on a calm network, and throws what is wrong with it. */
  finish(): Promise<void>;
}

/** One thing that somebody does, and how long it takes until the next. */
export abstract class Step<S extends Scenario> implements fc.AsyncCommand<object, S> {
  abstract readonly pauseInMs: number;

  check(): boolean {
    return true;
  }

  /** Begins, and does not wait for the end. */
  abstract act(scenario: S): void;

  async run(_model: object, scenario: S): Promise<void> {
    this.act(scenario);
    if (this.pauseInMs > 0) await scenario.world.time.sleep(this.pauseInMs);
  }

  toString(): string {
    return `${this.constructor.name}${JSON.stringify(this)}`;
  }
}

/** Nothing happens for a while. */
export class Pause<S extends Scenario> extends Step<S> {
  readonly pauseInMs: number;

  constructor(pauseInMs: number) {
    super();
    this.pauseInMs = pauseInMs;
  }

  override act(): void {
    // time passes
  }
}

/** A process dies, or is cut off from the storage for good. */
export class CutOff extends Step<Scenario & { cutOff(process: number): void }> {
  readonly pauseInMs = 0;
  readonly process: number;

  constructor(process: number) {
    super();
    this.process = process;
  }

  override act(scenario: { cutOff(process: number): void }): void {
    scenario.cutOff(this.process);
  }
}

/** Mostly in quick succession, sometimes after a long while. */
export function pauses(long: number): fc.Arbitrary<number> {
  return fc.oneof({ weight: 4, arbitrary: fc.constantFrom(0, 1, 10, 60) }, { weight: 1, arbitrary: fc.integer({ min: 100, max: long }) });
}

/** Quiet, or a storm: the share of sends that go wrong. */
const roughness = fc.constantFrom(0, 0.1, 0.3, 0.6);

/**
 * Runs drawn commands on a simulated storage account, many times. What fails is told with its seed and the fewest
 * commands that fail still. `MODEL_SEED` (see test/support/seed.ts) repeats it from the first run on; with `MODEL_PATH` and `MODEL_REPLAY` besides
 * (the `path` and the `replayPath` that are told), it goes straight to the end. `MODEL_RUNS` is a factor on the number
 * of runs.
 */
export async function checkModel<S extends Scenario>(
  runs: number,
  commands: fc.Arbitrary<Step<S>>[],
  begin: (world: World, seed: number) => S,
): Promise<void> {
  const { MODEL_PATH, MODEL_REPLAY, MODEL_RUNS } = process.env;
  const replay = MODEL_REPLAY === undefined ? {} : { replayPath: MODEL_REPLAY };
  const drawn = fc.commands<object, S, false>(commands, { maxCommands, size: "max", ...replay });
  const property = fc.asyncProperty(fc.noShrink(fc.nat()), roughness, drawn, async (seed, rough, steps) => {
    const world = new World(seed);
    await world.time.run(async () => {
      world.networkConditions = rough === 0 ? calm : stormy(rough);
      const scenario = begin(world, seed);
      await fc.asyncModelRun(() => ({ model: {}, real: scenario }), steps);
      await scenario.finish();
    });
  });
  await fc.assert(property, {
    numRuns: Math.ceil(runs * Number(MODEL_RUNS ?? 1)),
    ...(MODEL_PATH !== undefined && { path: MODEL_PATH }),
  });
}
