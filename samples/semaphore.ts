/* At most three exports at a time, in all processes together. */
import { setTimeout as pause } from "node:timers/promises";
import { BlobLocks, Semaphore } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";
import { Timeline } from "./support/timeline.js";

export const semaphore: Sample = {
  name: "semaphore",
  title: "At most three at a time",
  helper: "Semaphore",
  section: "docs/locks.md#semaphores",
  plan: "Two services start three exports each. The database behind them stands three at a time.",
  lesson: "Each slot is a lease: the limit holds over all processes, and the slot of one that crashes becomes free again.",
  async run(storage) {
    const { containerName } = await storage.container();
    const rows = ["A1", "A2", "A3", "B1", "B2", "B3"].map((name) => `export ${name}`);
    const timeline = new Timeline(rows, { legend: { holds: "runs", waits: "waits for a slot" }, expectedInMs: 1_500 });
    let running = 0;
    let most = 0;
    const startService = async (own: readonly string[]): Promise<void> => {
      // Each service has its own; the name and the number of slots are what they share.
      const exports = new Semaphore(new BlobLocks(await storage.container(containerName)), "exports", 3);
      const run = async (row: string): Promise<void> => {
        timeline.set(row, "waits");
        await exports.withSlot(async () => {
          timeline.set(row, "holds");
          most = Math.max(most, ++running);
          await pause(400);
          running--;
          timeline.set(row, "gone");
        });
      };
      await Promise.all(own.map(run));
    };
    await Promise.all([startService(rows.slice(0, 3)), startService(rows.slice(3))]);
    timeline.finish();

    check(most <= 3, "never more than three run at once");
    return `6 exports are done, and never more than ${most} ran at once`;
  },
};

await runIfStarted(semaphore, import.meta.url);
