/* A message that fails too often is moved to the poison queue with the reason, and moved back when the cause is fixed. */
import { ConcurrentQueue } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const poisonAndRedrive: Sample = {
  name: "poison-and-redrive",
  title: "A message that cannot be handled",
  helper: "ConcurrentQueue.redrive",
  section: "docs/queues.md#poison-messages",
  plan: "A job fails each time. It must neither be lost, nor be tried for ever.",
  lesson: "A message that fails again and again keeps its consumers busy and hides the cause. In the poison queue, it waits with its reason until the cause is fixed; redrive then moves it back, with its key.",
  async run(storage) {
    const jobs = new ConcurrentQueue<{ job: string }>(await storage.queue(), {
      poisonQueue: await storage.queue(),
      maxAttempts: 2,
      retryDelayInMs: 0,
      minPollIntervalInMs: 50, maxPollIntervalInMs: 200,
    });
    await jobs.enqueue({ job: "report" });

    const printed: string[] = [];
    let onFire = true;
    const consumer = jobs.consume(({ job }) => {
      if (onFire) throw new Error("the printer is on fire");
      printed.push(job);
    });
    const poisoned = new Promise<{ error: unknown; attempt: number }>((resolve) => consumer.once("poisoned", resolve));
    const completed = new Promise<void>((resolve) => consumer.once("completed", () => resolve()));
    consumer.on("retried", ({ attempt }) => say.trouble(`attempt ${attempt} fails, and the message is retried`));
    await consumer.start();
    const { error, attempt } = await poisoned;
    say.trouble(`moved to the poison queue after ${attempt} attempts: ${(error as Error).message}`);

    onFire = false;
    const { moved } = await jobs.redrive();
    say.step(`the fire is out; ${moved} message is brought back`);
    await completed;
    await consumer.stop();
    check(attempt === 2 && moved === 1, "it is moved to the poison queue after maxAttempts");
    check(printed.join() === "report", "it is handled once");
    return `"${printed.join()}" is printed in the end`;
  },
};

await runIfStarted(poisonAndRedrive, import.meta.url);
