import { describe, expect, it } from "vitest";
import { isConcurrencyError, optimisticUpdate, tableEntity } from "../../src/index.js";
import { World } from "./storage/world.js";

describe("200 processes that update one entity, of which the service could serve forty", () => {
  it("wait instead of failing with the SDK's 503, and nearly all calls are told whether they were committed", { timeout: 60_000 }, async () => {
    const world = new World(1, { blob: Infinity, table: 400, queue: Infinity });
    await world.time.run(async () => {
      const row = { n: { type: "Int32" as const, value: 0 } };
      world.newProcess().table("t").put(row, "p", "hot");
      const counts = { done: 0, busy: 0, unknown: 0 };
      for (let process = 0; process < 200; process++) {
        const target = tableEntity<{ n: number }>(world.newProcess().table("t"), "p", "hot");
        const caller = async (): Promise<void> => {
          for (;;) {
            try {
              await optimisticUpdate(target, (entity) => {
                entity.n++;
              });
              counts.done++;
            } catch (error) {
              if (!isConcurrencyError(error)) counts.busy++;
              else if (error.code === "COMMIT_UNKNOWN") counts.unknown++;
            }
          }
        };
        for (let each = 0; each < 4; each++) world.time.after(world.time.random() * 2_000, () => void caller());
      }
      // Until the crowd that all starts at once has spread.
      await world.time.sleep(30_000);
      Object.assign(counts, { done: 0, busy: 0, unknown: 0 });
      Object.assign(world.tables.counts, { requests: 0, throttled: 0 });
      await world.time.sleep(30_000);
      const { requests, throttled } = world.tables.counts;
      expect(counts.busy).toBe(0);
      expect(counts.unknown).toBeLessThan(counts.done / 3);
      expect(throttled / requests).toBeLessThan(0.2);
    });
  });
});
