import { fork } from "node:child_process";
import { once } from "node:events";

import type { Counter } from "../by-hand.js";
import { contest } from "../contest.js";
import type { Bench, Side } from "../harness.js";
import { sum } from "../throughput.js";
import type { Throughput, ThroughputOptions } from "../throughput.js";

/** What a worker is asked to do. Its answer is a {@link Throughput}. */
export interface Task extends ThroughputOptions {
  readonly side: Side;
}

const processes = 4;
const worker = new URL("../workers/entity-updaters.ts", import.meta.url);

export const hotEntityProcesses: Bench = {
  name: "hot-entity-processes",
  about: `${processes} processes x 16 updaters of one table entity, against an If-Match loop with full-jitter backoff`,
  async *run(env) {
    const table = await env.freshTable();
    for (const rowKey of ["ours", "baseline"]) await table.createEntity<Counter>({ partitionKey: "hot", rowKey, n: 0 });

    const crowd = Array.from({ length: processes }, () => fork(worker, [env.connectionString, table.tableName]));
    try {
      await Promise.all(crowd.map((child) => once(child, "message"))); // each says when it is ready
      const side = (name: Side): Parameters<typeof contest>[1][Side] => ({
        async run() {
          const answers = crowd.map(async (child) => {
            const answered = once(child, "message") as Promise<[Throughput]>;
            const failed = once(child, "exit").then(() => Promise.reject(new Error("a worker has ended")));
            child.send({ side: name, updaters: 16, warmUpInMs: 2_000, measureInMs: 4_000 } satisfies Task);
            return (await Promise.race([answered, failed]))[0];
          });
          const total = sum(await Promise.all(answers));
          // They ran at the same time, not one after the other.
          return { ...total, elapsedInMs: total.elapsedInMs / processes };
        },
        counter: async () => (await table.getEntity<Counter>("hot", name)).n,
      });
      yield await contest("hot-entity-processes", { ours: side("ours"), baseline: side("baseline") }, [{ of: "ratio", atLeast: 10 }]);
    } finally {
      for (const child of crowd) child.kill();
    }
  },
};
