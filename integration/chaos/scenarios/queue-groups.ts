import { machineTime } from "../claims.js";
import { queueFailures } from "../expected-errors.js";
import { checkDeliveries } from "../histories/deliveries.js";
import type { DeliveryEvent } from "../histories/deliveries.js";
import type { Scenario } from "../scenario.js";
import { consumerOptions, isEmpty, lost, runService } from "./queues.js";

interface Step {
  readonly key: string;
  readonly sequence: number;
  readonly filling: string;
}

/** Every eighth payload is too large for a message. */
const fillingOf = (sequence: number): string => String(sequence % 10).repeat(sequence % 8 === 0 ? 70_000 : 10);

type Note = DeliveryEvent | { readonly kind: "damaged"; readonly key: string };

const name = "queue, groups";

/** Each producer has a group of its own, and sends fast, so that its messages wait for each other in several consumers. */
export const queueGroups: Scenario = {
  name,
  invariant: "the messages of a group are handled one at a time, in their sequence, with their payloads (groupOf, order, overflow)",
  tasks: 3,
  expects: queueFailures,
  lanes: ["messages", "handlers"],
  unhurried: [0],
  work: async (task) => {
    const { groups: queue, container: overflow, table } = task.storage;
    const { ClaimInbox, enqueue, QueueConsumer } = task.library;
    if (!task.id.endsWith("/0")) {
      // Without a gap: the sequence is raised if the message was sent, and a task whose send is uncertain ends.
      for (let sequence = 1; !task.finish.aborted; ) {
        const sent = await task.operation(async (op) => {
          const key = `${task.id}#${op}`;
          const step: Step = { key, sequence, filling: fillingOf(sequence) };
          await enqueue(queue, step, { idempotencyKey: key, group: task.id, sequence, overflow, abortSignal: AbortSignal.timeout(8_000) });
        }, "messages");
        if (sent) sequence++;
        await task.pause(10, 120);
      }
      return;
    }
    const consumer = new QueueConsumer<Step>(
      queue,
      async ({ key, sequence, filling }, { assertHeld, group = "" }) => {
        // The time is taken before the check: it was held at that time, even if the process is suspended in between.
        const from = machineTime();
        assertHeld();
        await task.pause(1, 20);
        const to = machineTime();
        assertHeld();
        task.note({ kind: "handled", key, group, sequence, from, to } satisfies Note);
        if (filling !== fillingOf(sequence)) task.note({ kind: "damaged", key } satisfies Note);
        task.progress("handlers");
      },
      { ...consumerOptions, inbox: new ClaimInbox(table), order: "sequence", overflow },
    );
    consumer.on("completed", ({ idempotencyKey }) => task.note({ kind: "completed", key: idempotencyKey, at: machineTime() } satisfies Note));
    consumer.on("error", (error) => task.reportError(error));
    await runService(task, consumer);
  },
  isDrained: ({ groups }) => isEmpty(groups),
  check: async (_, operationLog) => {
    const notes = operationLog.notesOf<Note>(name);
    const events = notes.filter((note) => note.kind !== "damaged");
    const handled = events.flatMap((event) => (event.kind === "handled" ? [[event.key, 1] as const] : []));
    return Promise.resolve([
      ...checkDeliveries(events),
      ...notes.flatMap((note) => (note.kind === "damaged" ? [`${note.key} has another payload`] : [])),
      ...lost(name, operationLog, new Map(handled)),
    ]);
  },
};
