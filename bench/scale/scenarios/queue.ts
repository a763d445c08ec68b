import { QueueConsumer } from "../../../src/index.js";
import type { World } from "../../../test/simulation/storage/world.js";
import type { Contender, Scenario } from "../scenario.js";

/** Messages a second that are sent, whoever is there to work on them. */
const arrivalsPerSecond = 500;
/** How long a message takes. */
const workInMs = 50;

const name = "one queue";
const service: Scenario["service"] = (world) => world.queues;

interface Job {
  readonly sentAt: number;
}

/** Without a request: how they are sent is not what is measured. */
function prepare(world: World): void {
  const { store } = world.newProcess().queue("jobs");
  const send = (): void => {
    store.send(JSON.stringify({ sentAt: world.time.now } satisfies Job));
    world.time.after((-Math.log(1 - world.time.random()) * 1_000) / arrivalsPerSecond, send);
  };
  send();
}

/** Everybody works on the messages of one queue. */
export const queue: Scenario = {
  name,
  variant: "QueueConsumer",
  service,
  prepare,
  contend: async ({ world, process, number, tally }) => {
    const handler = ({ sentAt }: Job): Promise<void> => world.time.sleep(workInMs).then(() => tally.done(number, world.time.now - sentAt));
    const consumer = new QueueConsumer<Job>(process.queue("jobs"), handler);
    consumer.on("error", () => tally.failures++);
    await consumer.start().catch(() => tally.failures++);
  },
};

/** Receives 16 at a time, works on them, deletes them; a second's rest if there is nothing. */
export const queueBaseline: Scenario = { name, variant: "plain SDK", service, prepare, contend: contendBaseline };

async function contendBaseline({ world, process, number, tally }: Contender): Promise<void> {
  const jobs = process.queue("jobs");
  for (;;) {
    try {
      const { receivedMessageItems } = await jobs.receiveMessages({ numberOfMessages: 16, visibilityTimeout: 60 });
      await Promise.all(
        receivedMessageItems.map(async ({ messageId, popReceipt, messageText }) => {
          await world.time.sleep(workInMs);
          await jobs.deleteMessage(messageId, popReceipt);
          tally.done(number, world.time.now - (JSON.parse(messageText) as Job).sentAt);
        }),
      );
      if (receivedMessageItems.length === 0) await world.time.sleep(1_000);
    } catch {
      tally.failures++;
      await world.time.sleep(1_000);
    }
  }
}
