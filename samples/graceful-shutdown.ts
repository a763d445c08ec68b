/* stop() lets the handlers that run finish, and gives everything else back to the queue at once. */
import { enqueue, QueueConsumer } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const gracefulShutdown: Sample = {
  title: "Graceful shutdown of a consumer",
  async run(storage) {
    const queue = await storage.queue();
    for (let i = 0; i < 10; i++) await enqueue(queue, { i });

    let finished = 0;
    const consumer = new QueueConsumer<{ i: number }>(
      queue,
      async () => {
        await new Promise((resolve) => setTimeout(resolve, 300));
        finished++;
      },
      { concurrency: 3, drainTimeoutInMs: 5_000 },
    );
    const started = new Promise<void>((resolve) => consumer.once("received", () => resolve()));
    await consumer.start();
    await started;
    say.step("a consumer works on 3 of 10 messages at a time; now the process is asked to end");
    await consumer.stop(); // what a SIGTERM handler would do
    const { approximateMessagesCount } = await queue.getProperties();
    say.result(`${finished} were finished, ${approximateMessagesCount ?? 0} are back in the queue for whoever comes next`);
  },
};

await runIfStarted(gracefulShutdown, import.meta.url);
