/* Order numbers from one counter: no two orders get the same number, and hardly any number costs a request. */
import { IdAllocator, tableEntity } from "azure-storage-concurrency";
import type { IdCounter } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

const orders = 2_000;

export const orderNumbers: Sample = {
  name: "order-numbers",
  title: "Order numbers",
  helper: "IdAllocator",
  section: "docs/appends.md#id-allocation",
  plan: `Two shops take ${orders.toLocaleString("en")} order numbers each, from the same counter and at the same time.`,
  lesson: "A shop reserves numbers in blocks, so most of them cost no request. Numbers that a shop has not used when it ends are gaps; no number is allocated twice.",
  async run(storage) {
    const { tableName } = await storage.table();
    // Each shop has its own client and allocator, as in two processes.
    const open = async (): Promise<IdAllocator> =>
      new IdAllocator(tableEntity<IdCounter>(await storage.table(tableName), "counters", "orders"), { start: 100_000, blockSize: 500 });
    const shops = [await open(), await open()];

    const started = performance.now();
    const numbers = await Promise.all(shops.map((shop) => Promise.all(Array.from({ length: orders }, () => shop.next()))));
    const elapsed = performance.now() - started;
    for (const shop of shops) shop.close();

    for (const [index, own] of numbers.entries()) say.step(`shop ${index + 1}: ${own.slice(0, 3).join(", ")} ... ${own.at(-1)}`);
    const different = new Set(numbers.flat()).size;
    check(different === 2 * orders, "no number is allocated twice");
    check(numbers.every((own) => own.every((number, n) => n === 0 || number > own[n - 1]!)), "the numbers of one shop increase");
    return `${different} different numbers in ${Math.round(elapsed)} ms`;
  },
};

await runIfStarted(orderNumbers, import.meta.url);
