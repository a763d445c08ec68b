/* Order numbers from one counter: no two orders get the same, and next to none costs a request. */
import { IdAllocator, tableEntity } from "azure-storage-concurrency";
import type { IdCounter } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const orderNumbers: Sample = {
  title: "Order numbers",
  async run(storage) {
    const table = await storage.table();
    // Two shops, each with an allocator of its own, as in two processes.
    const open = (): IdAllocator => new IdAllocator(tableEntity<IdCounter>(table, "counters", "orders"), { start: 100_000, blockSize: 500 });
    const shops = [open(), open()];

    const started = performance.now();
    const numbers = await Promise.all(shops.map((shop) => Promise.all(Array.from({ length: 2_000 }, () => shop.next()))));
    const elapsed = performance.now() - started;

    say.step("two shops take 2,000 order numbers each");
    for (const [index, own] of numbers.entries()) say.result(`shop ${index + 1}: ${own.slice(0, 3).join(", ")} ... ${own.at(-1)}`);
    say.result(`${new Set(numbers.flat()).size} different numbers in ${Math.round(elapsed)} ms; those of one shop increase`);
    for (const shop of shops) shop.close();
  },
};

await runIfStarted(orderNumbers, import.meta.url);
