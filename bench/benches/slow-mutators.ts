import { setTimeout as pause } from "node:timers/promises";

import { optimisticUpdate, tableEntity } from "azure-storage-concurrency";

import type { Counter } from "../baseline.js";
import type { Bench } from "../harness.js";
import { isQuick } from "../pace.js";

const mutatorInMs = 20;

export const slowMutators: Bench = {
  name: "slow-mutators",
  about: `many callers of one entity whose mutators take ${mutatorInMs} ms each, while another client writes it twice a second, against the sum of their times: they run one after the other by contract`,
  async *run(env) {
    const callers = isQuick() ? 100 : 300;
    const table = await env.freshTable();
    await table.createEntity<Counter & { other: number }>({ partitionKey: "p", rowKey: "r", n: 0, other: 0 });
    const stop = new AbortController();
    let others = 0;
    const writing = (async () => {
      while (!stop.signal.aborted) {
        await table.updateEntity({ partitionKey: "p", rowKey: "r", other: ++others }, "Merge");
        await pause(500, undefined, { signal: stop.signal }).catch(() => undefined);
      }
    })();
    const start = performance.now();
    const results = await Promise.allSettled(
      Array.from({ length: callers }, () =>
        optimisticUpdate(
          tableEntity<Counter>(table, "p", "r"),
          async (counter) => {
            await pause(mutatorInMs);
            counter.n++;
          },
          { timeoutInMs: 60_000 },
        ),
      ),
    );
    const elapsedInMs = performance.now() - start;
    stop.abort();
    await writing;
    const done = results.filter(({ status }) => status === "fulfilled").length;
    const { n } = await table.getEntity<Counter>("p", "r");
    if (n !== done) throw new Error(`${done} updates, but the counter says ${n}`);
    yield { name: "time", unit: "ms", ours: elapsedInMs, baseline: callers * mutatorInMs, bounds: [{ of: "ratio", atMost: 1.3 }] };
    yield { name: "callers that succeed", unit: "callers", ours: done, baseline: callers, bounds: [{ of: "ratio", atLeast: 1 }] };
  },
};
