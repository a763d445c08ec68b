import { fork } from "node:child_process";
import { once } from "node:events";

import type { Counter } from "./baseline.js";
import { contest } from "./contest.js";
import type { BenchEnv, Bound, Measured, Pair, Side } from "./harness.js";
import { sum } from "./throughput.js";
import type { Throughput, ThroughputOptions } from "./throughput.js";

/** What a worker is asked to do. Its answer is a {@link Throughput}. */
export interface Task extends ThroughputOptions {
  readonly side: Side;
}

const worker = new URL("workers/entity-updaters.ts", import.meta.url);

/** Several processes that update one entity at the same time. `shares`: how many times as much as the last of them the first gets done. */
export async function contestOfProcesses(
  name: string,
  env: BenchEnv,
  processes: number,
  options: ThroughputOptions,
  bounds: readonly Bound[],
): Promise<{ contest: Measured; shares: Pair }> {
  const table = await env.freshTable();
  for (const rowKey of ["ours", "baseline"]) await table.createEntity<Counter>({ partitionKey: "hot", rowKey, n: 0 });
  const updates: Record<Side, number[]> = { ours: Array<number>(processes).fill(0), baseline: Array<number>(processes).fill(0) };
  const crowd = Array.from({ length: processes }, () => fork(worker, [env.connectionString, table.tableName]));
  try {
    await Promise.all(crowd.map((child) => once(child, "message"))); // each says when it is ready
    const side = (of: Side): Parameters<typeof contest>[1][Side] => ({
      async run() {
        const answers = crowd.map(async (child) => {
          const answered = once(child, "message") as Promise<[Throughput]>;
          const failed = once(child, "exit").then(() => Promise.reject(new Error("a worker has ended")));
          child.send({ side: of, ...options } satisfies Task);
          return (await Promise.race([answered, failed]))[0];
        });
        const done = await Promise.all(answers);
        updates[of] = updates[of].map((before, at) => before + (done[at]?.updates ?? 0));
        const total = sum(done);
        // They ran at the same time, not one after the other.
        return { ...total, elapsedInMs: total.elapsedInMs / processes };
      },
      counter: async () => (await table.getEntity<Counter>("hot", of)).n,
    });
    const measured = await contest(name, { ours: side("ours"), baseline: side("baseline") }, bounds);
    const share = (of: Side): number => Math.max(...updates[of]) / Math.min(...updates[of]);
    return { contest: measured, shares: { ours: share("ours"), baseline: share("baseline") } };
  } finally {
    for (const child of crowd) child.kill();
  }
}
