/* What fails too often is put aside with the reason, and brought back when the reason is gone. */
import { ConcurrentQueue } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const poisonAndRedrive: Sample = {
  title: "Poison messages, and bringing them back",
  async run(storage) {
    const jobs = new ConcurrentQueue<{ job: string }>(await storage.queue(), {
      poisonQueue: await storage.queue(),
      maxAttempts: 2,
      retryDelay: 0,
      pollIntervalInMs: { min: 50, max: 200 },
    });
    await jobs.enqueue({ job: "report" });

    let broken = true;
    const consumer = jobs.consume(({ job }) => {
      if (broken) throw new Error(`${job}: the printer is on fire`);
      say.step(`${job} is done`);
    });
    const poisoned = new Promise<{ reason: string; attempt: number }>((resolve) => consumer.once("poisoned", resolve));
    const completed = new Promise<void>((resolve) => consumer.once("completed", () => resolve()));
    await consumer.start();
    const { reason, attempt } = await poisoned;
    say.warn(`put aside after ${attempt} attempts: ${reason}`);
    broken = false;
    const { moved } = await jobs.redrive();
    say.step(`the fire is out; ${moved} message is brought back`);
    await completed;
    await consumer.stop();
    say.result("and this time it worked");
  },
};

await runIfStarted(poisonAndRedrive, import.meta.url);
