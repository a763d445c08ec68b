/* Events of customers, in the order in which they happened, by two consumers; some are too large for a message. */
import { ClaimInbox, enqueueMany, QueueConsumer } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface CustomerEvent {
  customer: string;
  number: number;
  document: string;
}

const customers = ["contoso", "fabrikam", "tailspin"];
const perCustomer = 20;

export const customerEvents: Sample = {
  name: "customer-events",
  title: "Events of customers, in order",
  helper: "groupOf, order, overflow",
  section: "docs/queues.md#groups-and-order",
  plan: "Three customers have 20 events each, sent in any order. Every tenth has a document that is too large for a message. Two consumers handle them at the same time.",
  lesson: "Each customer is a group: one event at a time, by whichever consumer, in the sequence that the sender set. A large payload is in a blob until its message is done.",
  async run(storage) {
    const [queue, table, overflow] = await Promise.all([storage.queue(), storage.table(), storage.container()]);
    const events = customers.flatMap((customer) =>
      Array.from({ length: perCustomer }, (_, i): CustomerEvent => ({ customer, number: i + 1, document: "x".repeat((i + 1) % 10 === 0 ? 100_000 : 10) })),
    );
    // As senders that do not wait for each other: the last events come first.
    await enqueueMany(queue, events.toReversed(), (event) => ({
      payload: event,
      idempotencyKey: `${event.customer}-${event.number}`,
      group: event.customer,
      sequence: event.number,
    }), { overflow });
    say.step(`${events.length} events of ${customers.length} customers are in the queue, ${events.filter(({ number }) => number % 10 === 0).length} of them with a document in a blob`);

    const handled = new Map<string, number[]>(customers.map((customer) => [customer, []]));
    const running = new Set<string>();
    const shares = [0, 0];
    let overlaps = 0;
    let left = events.length;
    let done: () => void = () => undefined;
    const allDone = new Promise<void>((resolve) => (done = resolve));
    const consumers = shares.map(
      (_, n) =>
        new QueueConsumer<CustomerEvent>(
          queue,
          async ({ customer, number }) => {
            if (running.has(customer)) overlaps++;
            running.add(customer);
            await new Promise((resolve) => setTimeout(resolve, 5));
            handled.get(customer)?.push(number);
            running.delete(customer);
          },
          { inbox: new ClaimInbox(table), order: "sequence", overflow, concurrency: 8, minPollIntervalInMs: 50, maxPollIntervalInMs: 200 },
        ).on("completed", () => {
          shares[n] = (shares[n] ?? 0) + 1;
          if (--left === 0) done();
        }),
    );
    await Promise.all(consumers.map((consumer) => consumer.start()));
    await allDone;
    await Promise.all(consumers.map((consumer) => consumer.stop()));
    say.step(`one consumer has handled ${shares[0]} events, the other one ${shares[1]}`);

    const inOrder = [...handled.values()].every((numbers) => numbers.length === perCustomer && numbers.every((number, i) => number === i + 1));
    check(overlaps === 0, "no two events of a customer are handled at the same time");
    check(inOrder, "the events of each customer are handled in their order");
    let blobs = 0;
    for await (const blob of overflow.listBlobsFlat()) blobs += blob.name === "" ? 0 : 1;
    check(blobs === 0, "the documents are deleted with their messages");
    return `${events.length} events, each once and in the order of its customer`;
  },
};

await runIfStarted(customerEvents, import.meta.url);
