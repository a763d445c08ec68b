/** What has to go forward: one kind of work in one scenario. */
export interface Lane {
  readonly scenario: string;
  readonly lane: string;
}

interface LaneState extends Lane {
  waitedInMs: number;
  reported: boolean;
}

/**
 * Finds what stands still. Its clock is that of the workers: it runs while a process is awake and the storage responds to requests that meet
 * no faults, so that a machine that is busy with something else does not count as a stall.
 */
export class Liveness {
  readonly #lanes: readonly LaneState[];
  readonly #limitInMs: number;
  /** The longest time that each lane stood still, for the report of the run. */
  readonly longest = new Map<string, number>();
  readonly stalls: string[] = [];
  elapsedInMs = 0;

  constructor(lanes: readonly Lane[], limitInMs: number) {
    this.#lanes = lanes.map((lane) => ({ ...lane, waitedInMs: 0, reported: false }));
    this.#limitInMs = limitInMs;
  }

  /** `describe` tells what is waiting in a scenario. */
  advance(ms: number, describe: (scenario: string) => string): void {
    this.elapsedInMs += ms;
    for (const state of this.#lanes) {
      state.waitedInMs += ms;
      const key = `${state.scenario}/${state.lane}`;
      this.longest.set(key, Math.max(this.longest.get(key) ?? 0, state.waitedInMs));
      if (state.waitedInMs <= this.#limitInMs || state.reported) continue;
      // Once for each time that it stands still.
      state.reported = true;
      this.stalls.push(`${state.scenario}: no ${state.lane} for ${Math.round(state.waitedInMs / 1000)} s; waiting: ${describe(state.scenario)}`);
    }
  }

  progress(scenario: string, lane: string): void {
    for (const state of this.#lanes) if (state.scenario === scenario && state.lane === lane) restart(state);
  }

  /** A holder was killed or suspended: what it held comes back one lease time later, and the time counts from here. */
  excuse(scenario: string): void {
    for (const state of this.#lanes) if (state.scenario === scenario && !state.reported) restart(state);
  }
}

function restart(state: LaneState): void {
  state.waitedInMs = 0;
  state.reported = false;
}
