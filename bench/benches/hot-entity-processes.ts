import type { Bench } from "../harness.js";
import { contestOfProcesses } from "../processes.js";

const processes = 4;

export const hotEntityProcesses: Bench = {
  name: "hot-entity-processes",
  about: `${processes} processes x 16 updaters of one table entity, against an If-Match loop with full-jitter backoff`,
  async *run(env) {
    const times = { updaters: 16, warmUpInMs: 2_000, measureInMs: 4_000 };
    const { contest, shares } = await contestOfProcesses("hot-entity-processes", env, processes, times, [{ of: "ratio", atLeast: 40 }]);
    yield contest;
    yield { name: "most updates of a process over fewest", unit: "times", ...shares, bounds: [{ of: "ours", atMost: 1.5 }] };
  },
};
