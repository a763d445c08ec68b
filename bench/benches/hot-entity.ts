import type { TableClient } from "@azure/data-tables";
import { optimisticUpdate, tableEntity } from "azure-storage-concurrency";

import { incrementEntityOnce, untilItLands } from "../baseline.js";
import type { Counter } from "../baseline.js";
import { contest } from "../contest.js";
import type { Bench, Side } from "../harness.js";
import { measureThroughput } from "../throughput.js";
import type { Update } from "../throughput.js";

export const hotEntity: Bench = {
  name: "hot-entity",
  about: "64 concurrent updaters of one table entity, against an If-Match loop with full-jitter backoff",
  async *run(env) {
    const table = await env.freshTable();
    const side = async (name: Side): Promise<Parameters<typeof contest>[1][Side]> => {
      await table.createEntity<Counter>({ partitionKey: "hot", rowKey: name, n: 0 });
      const update = entityUpdates[name](table, "hot", name);
      return {
        run: () => measureThroughput(update, { updaters: 64, warmUpInMs: 2_000, measureInMs: 4_000 }),
        counter: async () => (await table.getEntity<Counter>("hot", name)).n,
      };
    };
    yield await contest("hot-entity", { ours: await side("ours"), baseline: await side("baseline") }, [
      { of: "ratio", atLeast: 100 },
      { of: "requests", atMost: 0.2 },
    ]);
  },
};

/** How each side increments a counter in an entity that others increment too. */
export const entityUpdates: Readonly<Record<Side, (table: TableClient, partitionKey: string, rowKey: string) => Update>> = {
  ours: (table, partitionKey, rowKey) => async () => {
    await optimisticUpdate(tableEntity<Counter>(table, partitionKey, rowKey), (counter) => {
      counter.n += 1;
    });
    return true;
  },
  baseline: (table, partitionKey, rowKey) => (stop) => untilItLands(() => incrementEntityOnce(table, partitionKey, rowKey), stop),
};
