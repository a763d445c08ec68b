import { nextCall } from "../../linearizability/client.js";
import type { HistoryEvent } from "../../linearizability/history.js";
import type { Known, ObjectClients } from "../../linearizability/operations.js";
import { Recorder } from "../../linearizability/recorder.js";
import { machineTime } from "../claims.js";
import type { Scenario, Task } from "../scenario.js";

const name = "one object";

/** All processes move on to the next objects at the same time: a history of some hundred operations is checked quickly. */
const sliceInMs = 10_000;

/** Reads, updates, creates, deletes, overwrites and transactions of all processes on the same blob and the same entities. */
export const linearizability: Scenario = {
  name,
  invariant: "every call has its effect at one moment, or none if it says so (all operations on a blob and an entity)",
  tasks: 2,
  expects: [],
  work: async (task) => {
    let known: (Known & { readonly object: string }) | undefined;
    for (let count = 0; !task.finish.aborted; count++) {
      const slice = Math.floor(machineTime() / sliceInMs);
      const kind = task.random.next() < 0.5 ? "blob" : "entity";
      const object = `${kind}-${slice}`;
      const client = {
        name: object,
        object: clientsOf(task, kind, object),
        library: task.library,
        process: task.id,
        random: task.random,
        report: async (event: HistoryEvent) => task.note(event),
      };
      const call = nextCall(client, count, known?.object === object ? known : undefined);
      // Sent before the operation begins, which waits until what was sent before it has left the process.
      task.note(call.invoked);
      await task.operation(async () => {
        const after = await call.make();
        known = after && { ...after, object };
      });
      await task.pause(5, 60);
    }
  },
  check: async (_storage, operationLog) => {
    const recorder = new Recorder();
    for (const event of operationLog.notesOf<HistoryEvent>(name)) recorder.record(event);
    return recorder.violations();
  },
};

function clientsOf({ storage: { container, table } }: Task, kind: "blob" | "entity", object: string): ObjectClients {
  return kind === "blob" ? { kind, blob: container.getBlockBlobClient(`${object}.json`) } : { kind, table, partitionKey: object };
}
