import { fork } from "node:child_process";
import { once } from "node:events";

import { jsonBlob, optimisticUpdate, tableEntity } from "azure-storage-concurrency";

import { alternate } from "../alternate.js";
import { incrementBlobOnce, incrementEntityOnce } from "../baseline.js";
import type { Counter } from "../baseline.js";
import { fakeBlob, fakeTable } from "../fakes.js";
import type { Bench, Measured, Pair, Side } from "../harness.js";

/** What `left-behind.ts` answers: bytes that are still in use, by kind of target. */
export type LeftBehind = Readonly<Record<"entity" | "blob", Pair>>;

const worker = new URL("../workers/left-behind.ts", import.meta.url);
const increment = (counter: Counter): void => {
  counter.n += 1;
};

export const overhead: Bench = {
  name: "overhead",
  about: "the library's own time and memory, on clients in memory, against the two bare calls on them",
  async *run() {
    const tables = { ours: fakeTable(), baseline: fakeTable() };
    const blobs = { ours: fakeBlob("ours"), baseline: fakeBlob("baseline") };
    const kinds = {
      entity: {
        ours: () => optimisticUpdate(tableEntity<Counter>(tables.ours, "p", "r"), increment),
        baseline: () => incrementEntityOnce(tables.baseline, "p", "r"),
      },
      blob: {
        ours: () => optimisticUpdate(jsonBlob<Counter>(blobs.ours), increment),
        baseline: () => incrementBlobOnce(blobs.baseline),
      },
    };
    for (const [kind, ways] of Object.entries(kinds)) {
      yield await time(`${kind}, one at a time`, 1, ways);
      yield await time(`${kind}, 64 at a time`, 64, {
        ours: () => Promise.all(Array.from({ length: 64 }, ways.ours)),
        // On one record the plain SDK gains nothing from doing them at once.
        async baseline() {
          for (let i = 0; i < 64; i++) await ways.baseline();
        },
      });
    }
    for (const [kind, bytes] of Object.entries(await leftBehind())) {
      const { ours, baseline } = bytes;
      yield { name: `${kind}, left by 10,000 targets`, unit: "kB", ours: ours / 1_000, baseline: baseline / 1_000, bounds: [{ of: "ours", atMost: 1_000 }] };
    }
  },
};

async function time(name: string, updatesPerOp: number, ways: Readonly<Record<Side, () => Promise<unknown>>>): Promise<Measured> {
  // Turns of less than a millisecond: on a busy machine most of them pass without the process being interrupted.
  const opsPerTurn = Math.ceil(20 / updatesPerOp);
  const { microseconds, ratio, spread } = await alternate(ways, { turns: 1_000, opsPerTurn, warmUpTurns: 500 });
  const { ours, baseline } = microseconds;
  return { name, unit: "µs/update", ours: ours / updatesPerOp, baseline: baseline / updatesPerOp, ratio, spread, bounds: [{ of: "ours", atMost: updatesPerOp === 1 ? 12 : 4 }] };
}

/** In a process of its own, where nothing else comes and goes. */
async function leftBehind(): Promise<LeftBehind> {
  const child = fork(worker, [], { execArgv: [...process.execArgv, "--expose-gc"] });
  const failed = once(child, "exit").then(() => Promise.reject(new Error("the process that measures memory has ended")));
  const answered = once(child, "message") as Promise<[LeftBehind]>;
  const [bytes] = await Promise.race([answered, failed]);
  child.disconnect();
  return bytes;
}
