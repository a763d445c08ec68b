/** What is still in memory after updates of 10,000 targets have ended. Needs --expose-gc. */
import { setImmediate as nextTurn } from "node:timers/promises";

import { jsonBlob, optimisticUpdate, tableEntity } from "azure-storage-concurrency";

import type { LeftBehind } from "../benches/overhead.js";
import { incrementBlobOnce, incrementEntityOnce } from "../baseline.js";
import type { Counter } from "../baseline.js";
import { fakeBlob, fakeTable } from "../fakes.js";

const increment = (counter: Counter): void => {
  counter.n += 1;
};

// Targets of one account: they share a pipeline, under which the library finds them while they are busy. The clients
// themselves are dropped after use, so what stays is not what they hold.
const pipeline = {};
const table = (): ReturnType<typeof fakeTable> => Object.assign(fakeTable(), { pipeline });

const bytes: LeftBehind = {
  entity: {
    baseline: await measure((id) => incrementEntityOnce(table(), "p", id)),
    ours: await measure((id) => optimisticUpdate(tableEntity<Counter>(table(), "p", id), increment)),
  },
  blob: {
    baseline: await measure((id) => incrementBlobOnce(fakeBlob(id, pipeline))),
    ours: await measure((id) => optimisticUpdate(jsonBlob<Counter>(fakeBlob(id, pipeline)), increment)),
  },
};
process.send!(bytes);

async function measure(update: (id: string) => Promise<unknown>): Promise<number> {
  // What code and its compilation need comes with the first targets, and does not grow with their number.
  await updateAll(2_000, "warm-up", update);
  const before = await bytesInUse();
  await updateAll(10_000, "measured", update);
  // Less than before: nothing was left behind, and something old went.
  return Math.max(0, (await bytesInUse()) - before);
}

async function updateAll(count: number, prefix: string, update: (id: string) => Promise<unknown>): Promise<void> {
  const atOnce = 100;
  for (let from = 0; from < count; from += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, (_, at) => update(`${prefix}-${from + at}`)));
  }
}

async function bytesInUse(): Promise<number> {
  for (let i = 0; i < 5; i++) {
    await nextTurn();
    globalThis.gc!();
  }
  return process.memoryUsage().heapUsed;
}
