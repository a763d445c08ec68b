import { Worker } from "node:worker_threads";

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
    const entity = {
      ours: () => optimisticUpdate(tableEntity<Counter>(table, "lone", "ours"), increment),
      baseline: () => incrementEntityOnce(table, "lone", "baseline"),
    };
    yield await compare("entity", entity, 1.05);

    const container = await env.freshContainer();
    const [ours, baseline] = [container.getBlockBlobClient("ours"), container.getBlockBlobClient("baseline")];
    const start = JSON.stringify({ n: 0 });
    for (const blob of [ours, baseline]) await blob.upload(start, start.length, { blobHTTPHeaders: { blobContentType: "application/json" } });
    const document = {
      ours: () => optimisticUpdate(jsonBlob<Counter>(ours), increment),
      baseline: () => incrementBlobOnce(baseline),
    };
    yield await compare("blob", document, 1.05);

    const load = new Worker("for (;;);", { eval: true });
    try {
      yield await compare("entity, another core loaded", entity, 1.1);
      yield await compare("blob, another core loaded", document, 1.1);
    } finally {
      await load.terminate();
    }
  },
};

async function compare(name: string, ways: Parameters<typeof alternate>[0], atMost: number): Promise<Measured> {
  const { microseconds, ...figures } = await alternate(ways, { turns: 1_500, opsPerTurn: 1, warmUpTurns: 1_500 });
  return {
    name,
    unit: "µs/update",
    ...microseconds,
    ...figures,
    bounds: [
      { of: "ratio", atMost },
      { of: "requests", atMost: 2 },
    ],
  };
}
