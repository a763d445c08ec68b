import { randomUUID } from "node:crypto";

import { machineTime } from "../claims.js";
import { updateFailures } from "../expected-errors.js";
import type { Scenario } from "../scenario.js";

const partitionKey = "once-bank";

/** What a task was told, and what it did. */
type Note =
  | { readonly key: string; readonly value: string }
  /** The function of a key has acted, between these times, while it was held. */
  | { readonly key: string; readonly acted: string; readonly from: number; readonly to: number };

/** All tasks of all processes call the same keys at about the same time: the key is the second. */
export const once: Scenario = {
  name: "idempotent calls",
  invariant: "a key has one result, functions of a key do not overlap, a transaction takes effect once (Once)",
  tasks: 2,
  expects: [...updateFailures, "LEASE_LOST", "IN_PROGRESS"],
  prepare: async ({ table }) => {
    await table.createEntity({ partitionKey, rowKey: "counter", n: 0 });
  },
  work: async (task) => {
    const { Once } = task.library;
    const calls = new Once(task.storage.table, { claimDurationInMs: 5_000 });
    const note = (value: Note): void => task.note(value);
    while (!task.finish.aborted) {
      const key = `second-${Math.floor(machineTime() / 1_000)}`;
      await task.operation(async () => {
        const { value } = await calls.run(key, async ({ assertHeld }) => {
          const [acted, from] = [randomUUID(), machineTime()];
          return task.holding(key, async () => {
            await task.pause(5, 100);
            await task.mayFaint();
            // The time before the check: it was held then, even if the process is suspended in between.
            const to = machineTime();
            assertHeld();
            note({ key, acted, from, to });
            return acted;
          });
        }, { timeoutInMs: 8_000 });
        note({ key, value });
      });
      await task.operation(async () => {
        const { value } = await calls.runTransaction(`tx-${key}`, partitionKey, async (tx) => {
          const { n = 0 } = (await tx.get<{ n: number }>("counter")) ?? {};
          tx.update({ rowKey: "counter", n: n + 1 });
          return String(n + 1);
        }, { timeoutInMs: 8_000 });
        note({ key: `tx-${key}`, value });
      });
      await task.pause(50, 300);
    }
  },
  check: async ({ table }, operationLog) => {
    const notes = operationLog.notesOf<Note>("idempotent calls");
    const results = new Map<string, Set<string>>();
    for (const told of notes) if ("value" in told) results.set(told.key, (results.get(told.key) ?? new Set()).add(told.value));
    const acted = notes.flatMap((told) => ("acted" in told ? [told] : []));
    const overlaps = acted.flatMap((a) => acted.filter((b) => a !== b && a.key === b.key && b.from >= a.from && b.from < a.to));
    let committed = 0;
    for await (const { state } of table.listEntities<{ state?: string }>({ queryOptions: { filter: `PartitionKey eq '${partitionKey}' and RowKey ge '~asc~once!'` } })) if (state === "succeeded") committed++;
    const { n } = await table.getEntity<{ n: number }>(partitionKey, "counter");
    return [
      ...[...results].filter(([, values]) => values.size > 1).map(([key, values]) => `${key} has ${values.size} results`),
      ...overlaps.map(({ key }) => `two functions of ${key} acted at a time`),
      ...(n === committed ? [] : [`${committed} transactions are recorded, and ${n} took effect`]),
    ];
  },
};
