import type { Ledger } from "../ledger.js";
import type { Lane, Scenario } from "../scenario.js";

/** How often each lane was counted. A table property cannot be an object, so that it is kept as text there. */
export interface Counts {
  total: number;
  lanes: string;
}

const timeoutInMs = 8_000;

export const counterEntity: Scenario = {
  name: "hot entity",
  invariant: "every update is applied exactly once (optimisticUpdate)",
  lanes: 4,
  prepare: async ({ table }) => {
    await table.createEntity({ partitionKey: "counter", rowKey: "r", total: 0, lanes: "{}" });
  },
  work: (lane) => {
    const target = lane.library.tableEntity<Counts>(lane.storage.table, "counter", "r");
    return countOn(lane, () => lane.library.optimisticUpdate(target, (draft) => count(draft, lane.id), { timeoutInMs }));
  },
  check: async ({ table }, ledger) => compare("hot entity", ledger, await table.getEntity<Counts>("counter", "r")),
};

export const counterBlob: Scenario = {
  name: "hot blob",
  invariant: "every update is applied exactly once (optimisticUpdate, each write by itself)",
  lanes: 2,
  prepare: async ({ container }) => {
    const text = JSON.stringify({ total: 0, lanes: "{}" });
    await container.getBlockBlobClient("counter.json").upload(text, text.length);
  },
  work: (lane) => {
    const target = lane.library.jsonBlob<Counts>(lane.storage.container.getBlockBlobClient("counter.json"));
    return countOn(lane, () => lane.library.optimisticUpdate(target, (draft) => count(draft, lane.id), { timeoutInMs, coalesce: false }));
  },
  check: async ({ container }, ledger) => {
    const text = (await container.getBlockBlobClient("counter.json").downloadToBuffer()).toString();
    return compare("hot blob", ledger, JSON.parse(text) as Counts);
  },
};

export async function countOn(lane: Lane, update: () => Promise<unknown>): Promise<void> {
  while (!lane.finish.aborted) {
    await lane.operation(update);
    await lane.pause(5, 60);
  }
}

export function count(counts: Counts, lane: string): void {
  counts.total++;
  const lanes = JSON.parse(counts.lanes) as Record<string, number>;
  lanes[lane] = (lanes[lane] ?? 0) + 1;
  counts.lanes = JSON.stringify(lanes);
}

export function compare(scenario: string, ledger: Ledger, { total, lanes }: Counts): string[] {
  const counted = JSON.parse(lanes) as Record<string, number>;
  const sum = Object.values(counted).reduce((a, b) => a + b, 0);
  const problems = ledger.compare(scenario, (lane) => counted[lane] ?? 0);
  return sum === total ? problems : [...problems, `the lanes add up to ${sum}, the total is ${total}`];
}
