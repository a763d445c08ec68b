import type { Scenario } from "../scenario.js";

/** The records of all lanes in one append blob; each names its lane and its number. */
export const append: Scenario = {
  name: "append",
  invariant: "every record is there exactly once, those of a lane in order (appendExactly)",
  lanes: 2,
  prepare: async ({ container }) => {
    await container.getAppendBlobClient("log").create();
  },
  work: async (lane) => {
    const log = lane.storage.container.getAppendBlobClient("log");
    while (!lane.finish.aborted) {
      await lane.operation((op) => lane.library.appendExactly(log, `${lane.id}#${op}\n`, { timeoutInMs: 8_000 }));
      await lane.pause(20, 150);
    }
  },
  check: async ({ container }, ledger) => {
    const text = (await container.getAppendBlobClient("log").downloadToBuffer()).toString();
    const problems: string[] = [];
    const records = new Map<string, number[]>();
    for (const record of text.split("\n").slice(0, -1)) {
      const [lane = "", op] = record.split("#");
      const before = records.get(lane) ?? [];
      if (Number(op) <= (before.at(-1) ?? -1)) problems.push(`${record} came after ${before.at(-1) ?? "nothing"}`);
      records.set(lane, [...before, Number(op)]);
    }
    return [...problems, ...ledger.compare("append", (lane) => records.get(lane)?.length ?? 0)];
  },
};
