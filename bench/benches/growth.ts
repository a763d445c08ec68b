import { contest } from "../contest.js";
import type { Counter } from "../baseline.js";
import type { Bench, Side } from "../harness.js";
import { contestOfProcesses } from "../processes.js";
import { measureThroughput } from "../throughput.js";
import { entityUpdates } from "./hot-entity.js";

const times = { warmUpInMs: 500, measureInMs: 1_500 };

export const growthWriters: Bench = {
  name: "growth-writers",
  about: "what an update costs with 1 to 256 updaters of one table entity in one process",
  async *run(env) {
    const table = await env.freshTable();
    for (const updaters of [1, 4, 16, 64, 256]) {
      const side = async (of: Side): Promise<Parameters<typeof contest>[1][Side]> => {
        const rowKey = `${of}-${updaters}`;
        await table.createEntity<Counter>({ partitionKey: "hot", rowKey, n: 0 });
        const update = entityUpdates[of](table, "hot", rowKey);
        return {
          run: () => measureThroughput(update, { updaters, ...times }),
          counter: async () => (await table.getEntity<Counter>("hot", rowKey)).n,
        };
      };
      yield await contest(String(updaters), { ours: await side("ours"), baseline: await side("baseline") }, []);
    }
  },
};

export const growthProcesses: Bench = {
  name: "growth-processes",
  about: "what an update costs with 1 to 8 processes, 8 updaters each, of one table entity",
  async *run(env) {
    for (const processes of [1, 2, 4, 8]) yield (await contestOfProcesses(String(processes), env, processes, { updaters: 8, ...times }, [])).contest;
  },
};
