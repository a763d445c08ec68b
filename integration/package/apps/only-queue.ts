/** With no other SDK than the one for queues. */
import { QueueServiceClient } from "@azure/storage-queue";
import { enqueue, QueueConsumer } from "azure-storage-concurrency";
import { MemoryInbox } from "azure-storage-concurrency/testing";

const { STORAGE = "", SCENE = "" } = process.env;
const queue = QueueServiceClient.fromConnectionString(STORAGE).getQueueClient(SCENE);
await queue.create();
for (let copies = 0; copies < 2; copies++) await enqueue(queue, "hello", { idempotencyKey: "greeting" });

const handled: string[] = [];
const stop = new AbortController();
const consumer = new QueueConsumer<string>(queue, (text) => void handled.push(text), { inbox: new MemoryInbox(), concurrency: 1 });
consumer.on("duplicate", () => stop.abort());
await consumer.run({ abortSignal: stop.signal });
console.log(JSON.stringify({ handled }));
