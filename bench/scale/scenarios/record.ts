import { optimisticUpdate, tableEntity } from "../../../src/index.js";
import type { SimTable } from "../../../test/simulation/storage/sim-table.js";
import type { Contender, Scenario } from "../scenario.js";

/** How many requests each process serves at a time, each of which adds one to the record. */
const callers = 4;

const name = "one hot entity";
const service: Scenario["service"] = (world) => world.tables;
const prepare: Scenario["prepare"] = (world) => world.newProcess().table("t").put({ n: { type: "Int32", value: 0 } }, "p", "hot");

/** Everybody adds one to the same entity, over and over. */
export const record: Scenario = {
  name,
  variant: "optimisticUpdate",
  service,
  prepare,
  contend: (contender) => {
    const target = tableEntity<{ n: number }>(contender.process.table("t"), "p", "hot");
    return each(contender, async () => {
      await optimisticUpdate(target, (entity) => {
        entity.n++;
      });
    });
  },
};

/** The loop as one writes it on the plain SDK: full jitter from 10 ms to 1 s after a conflict, and 30 s for all of it. */
export const recordBaseline: Scenario = {
  name,
  variant: "plain SDK",
  service,
  prepare,
  contend: (contender) => {
    const { world, process } = contender;
    const table = process.table("t");
    return each(contender, async () => {
      const until = world.time.now + 30_000;
      for (let attempt = 0; ; attempt++) {
        try {
          await incrementOnce(table);
          return;
        } catch (error) {
          if ((error as { statusCode?: number }).statusCode !== 412 || world.time.now > until) throw error;
        }
        await world.time.sleep(world.time.random() * Math.min(1_000, 10 * 2 ** attempt));
      }
    });
  },
};

async function incrementOnce(table: SimTable): Promise<void> {
  const { n, etag } = (await table.getEntity("p", "hot")) as { n: number; etag: string };
  await table.updateEntity({ partitionKey: "p", rowKey: "hot", n: n + 1 }, "Merge", { etag });
}

function each({ world, number, tally }: Contender, increment: () => Promise<void>): Promise<unknown> {
  const caller = async (): Promise<void> => {
    for (;;) {
      const since = world.time.now;
      try {
        await increment();
        tally.done(number, world.time.now - since);
      } catch {
        tally.failures++;
      }
    }
  };
  return Promise.all(Array.from({ length: callers }, caller));
}
