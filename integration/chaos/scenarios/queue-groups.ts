import { machineTime, overlapsOf } from "../claims.js";
import type { Claim } from "../claims.js";
import type { Scenario } from "../scenario.js";
import { consumerOptions, isEmpty, lost, runService, twice } from "./queues.js";

interface Step {
  readonly key: string;
  readonly sequence: number;
  readonly filling: string;
}

/** Every eighth payload is too large for a message. */
const fillingOf = (sequence: number): string => String(sequence % 10).repeat(sequence % 8 === 0 ? 70_000 : 10);

interface Note {
  readonly held?: Claim;
  readonly sequence?: number;
  readonly completed?: string;
  readonly damaged?: string;
}

/** Each producer has a group of its own, and sends fast, so that its messages wait for each other in several consumers. */
export const queueGroups: Scenario = {
  name: "queue, groups",
  invariant: "the messages of a group are handled one at a time, in their sequence, with their payloads (groupOf, order, overflow)",
  tasks: 3,
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
        });
        if (sent) sequence++;
        await task.pause(10, 120);
      }
      return;
    }
    const consumer = new QueueConsumer<Step>(
      queue,
      async ({ key, sequence, filling }, { assertHeld, group = "" }) => {
        const first = machineTime();
        assertHeld();
        await task.pause(1, 20);
        const last = machineTime();
        assertHeld();
        task.note({ held: { resource: group, epoch: first, first, last }, sequence, ...(filling !== fillingOf(sequence) && { damaged: key }) } satisfies Note);
      },
      { ...consumerOptions, inbox: new ClaimInbox(table), order: "sequence", overflow },
    );
    consumer.on("completed", ({ idempotencyKey }) => task.note({ completed: idempotencyKey } satisfies Note));
    consumer.on("error", () => undefined);
    await runService(task, consumer);
  },
  isDrained: ({ groups }) => isEmpty(groups),
  check: async (_, operationLog) => {
    const completed = new Map<string, number>();
    const notes = operationLog.notesOf<Note>("queue, groups");
    for (const { completed: key } of notes) if (key !== undefined) completed.set(key, (completed.get(key) ?? 0) + 1);
    const held = notes.flatMap(({ held: claim, sequence }) => (claim && sequence !== undefined ? [{ ...claim, sequence }] : []));
    return Promise.resolve([
      ...twice(completed, "was completed"),
      ...overlapsOf(held, 1),
      ...outOfOrder(held),
      ...notes.flatMap(({ damaged }) => (damaged === undefined ? [] : [`${damaged} has another payload`])),
      ...lost("queue, groups", operationLog, new Map(held.map(({ resource, sequence }) => [`${resource}#${sequence}`, 1]))),
    ]);
  },
};

/** A message that was handled again, as its consumer was killed, is at its place. */
function outOfOrder(held: readonly (Claim & { readonly sequence: number })[]): string[] {
  const last = new Map<string, number>();
  return held
    .toSorted((a, b) => a.first - b.first)
    .flatMap(({ resource, sequence }) => {
      const before = last.get(resource) ?? 0;
      last.set(resource, sequence);
      return sequence === before || sequence === before + 1 ? [] : [`${resource}: ${sequence} was handled after ${before}`];
    });
}
