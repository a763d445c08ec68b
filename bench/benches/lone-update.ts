import { jsonBlob, optimisticUpdate, tableEntity } from "azure-storage-concurrency";

import { alternate } from "../alternate.js";
import { incrementBlobOnce, incrementEntityOnce } from "../baseline.js";
import type { Counter } from "../baseline.js";
import type { Bench, Measured } from "../harness.js";

const increment = (counter: Counter): void => {
  counter.n += 1;
};

export const loneUpdate: Bench = {
  name: "lone-update",
  about: "updates one after the other, against the two bare calls: a read and a conditional write",
  async *run(env) {
    const table = await env.freshTable();
    for (const rowKey of ["ours", "baseline"]) await table.createEntity<Counter>({ partitionKey: "lone", rowKey, n: 0 });
    yield await compare("entity", {
      ours: () => optimisticUpdate(tableEntity<Counter>(table, "lone", "ours"), increment),
      baseline: () => incrementEntityOnce(table, "lone", "baseline"),
    });

    const container = await env.freshContainer();
    const [ours, baseline] = [container.getBlockBlobClient("ours"), container.getBlockBlobClient("baseline")];
    const start = JSON.stringify({ n: 0 });
    for (const blob of [ours, baseline]) await blob.upload(start, start.length, { blobHTTPHeaders: { blobContentType: "application/json" } });
    yield await compare("blob", {
      ours: () => optimisticUpdate(jsonBlob<Counter>(ours), increment),
      baseline: () => incrementBlobOnce(baseline),
    });
  },
};

async function compare(name: string, ways: Parameters<typeof alternate>[0]): Promise<Measured> {
  const { microseconds, ratio, requestsPerOp } = await alternate(ways, { turns: 1_500, opsPerTurn: 1, warmUpTurns: 1_500 });
  return {
    name,
    unit: "µs/update",
    ...microseconds,
    ratio,
    requestsPerOp,
    bounds: [
      { of: "ratio", atMost: 1.15 },
      { of: "requests", atMost: 2 },
    ],
  };
}
