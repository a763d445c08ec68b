/* stop() lets the handlers that run finish, and gives everything else back to the queue at once. */
import { setTimeout as pause } from "node:timers/promises";
import { enqueue, QueueConsumer } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const gracefulShutdown: Sample = {
  name: "graceful-shutdown",
  title: "Shutting a consumer down",
  helper: "QueueConsumer.stop",
  section: "docs/queues.md#shutdown",
  plan: "A consumer works on 3 of 10 messages when its process is asked to end, as at each deployment.",
  lesson: "What has begun is finished, and nothing is held back: the next instance sees the rest at once, not when some timeout is over.",
  async run(storage) {
    const queue = await storage.queue();
    await Promise.all(Array.from({ length: 10 }, (_, n) => enqueue(queue, { n })));

    let started = 0;
    let finished = 0;
    const consumer = new QueueConsumer<{ n: number }>(
      queue,
      async () => {
        started++;
        await pause(300);
        finished++;
      },
      { concurrency: 3, drainTimeoutInMs: 5_000 },
    );
    const working = new Promise<void>((resolve) => consumer.once("received", () => resolve()));
    await consumer.start();
    await working;
    say.step("the process is asked to end");
    await consumer.stop(); // what a SIGTERM handler would do

    const { receivedMessageItems: visible } = await queue.receiveMessages({ numberOfMessages: 32 });
    check(started === finished, "no handler is cut off");
    check(finished + visible.length === 10, "the rest can be seen at once");
    return `${finished} were finished, ${visible.length} are visible to the next consumer`;
  },
};

await runIfStarted(gracefulShutdown, import.meta.url);
