import { fork } from "node:child_process";
import { once } from "node:events";

import { ContainerClient } from "@azure/storage-blob";
import { delay, replaceEndpoints, startFaultProxy } from "azure-storage-concurrency/testing";

import type { Bench, BenchEnv, Bound } from "../harness.js";
import { isQuick } from "../pace.js";

/** Two kinds of locks of the library, and the loop that they are compared with. */
export type LockKind = "default" | "fair" | "baseline";

/** What a worker is asked to do: take the lock again and again, and hold it for a moment each time. */
export interface ContendTask {
  readonly kind: LockKind;
  readonly lock: string;
  readonly sectionInMs: number;
  readonly warmUpInMs: number;
  readonly measureInMs: number;
}

/** What it did in the time that was measured. */
export interface Contended {
  /** How long each section waited for the lock. */
  readonly waitsInMs: readonly number[];
  readonly requests: number;
}

const worker = new URL("../workers/lock-contenders.ts", import.meta.url);
const latencyInMs = 20;
const sectionInMs = 20;

export const lockProcesses: Bench = {
  name: "lock-processes",
  about: `4, 8 and 16 processes that take one lock in a loop, ${sectionInMs} ms sections and ${latencyInMs} ms a request, against random polling between 500 ms and 1.5 s`,
  async *run(env) {
    for (const processes of isQuick() ? [8] : [4, 8, 16]) {
      const { fair, ...measured } = await contend(env, processes);
      const baseline = measured.baseline;
      for (const [kind, ours, atLeast] of [["default", measured.default, 10], ["fair", fair, 11]] as const) {
        yield {
          name: `${kind}, ${processes} processes`,
          unit: "locks/s",
          ours: ours.rate,
          baseline: baseline.rate,
          requestsPerOp: { ours: ours.requests, baseline: baseline.requests },
          bounds: [{ of: "ours", atLeast }],
        };
        const bounds: Bound[] = kind === "default" ? [{ of: "ratio", atMost: 1 }] : processes === 16 ? [{ of: "ours", atMost: 2_000 }] : [];
        yield { name: `${kind}, ${processes} processes, p99`, unit: "ms", ours: ours.p99, baseline: baseline.p99, bounds };
        yield { name: `${kind}, ${processes} processes, most turns over fewest`, unit: "times", ours: ours.spread, baseline: baseline.spread, bounds: [] };
      }
    }
  },
};

interface Figures {
  readonly rate: number;
  readonly p99: number;
  readonly requests: number;
  readonly spread: number;
}

async function contend(env: BenchEnv, processes: number): Promise<Record<LockKind, Figures>> {
  const { containerName } = await env.freshContainer();
  const direct = new ContainerClient(env.connectionString, containerName);
  await direct.getBlockBlobClient("baseline").upload("", 0);
  const proxy = await startFaultProxy(direct.url.slice(0, -containerName.length - 1), [delay(latencyInMs)], { logLimit: 0 });
  const crowd = Array.from({ length: processes }, () => fork(worker, [replaceEndpoints(env.connectionString, { blobUrl: proxy.url }), containerName]));
  try {
    await Promise.all(crowd.map((child) => once(child, "message"))); // each says when it is ready
    const times = isQuick() ? { warmUpInMs: 2_000, measureInMs: 8_000 } : { warmUpInMs: 5_000, measureInMs: 30_000 };
    const measure = async (kind: LockKind): Promise<Figures> => {
      const done = await Promise.all(
        crowd.map(async (child) => {
          const answered = once(child, "message") as Promise<[Contended]>;
          const failed = once(child, "exit").then(() => Promise.reject(new Error("a worker has ended")));
          child.send({ kind, lock: kind, sectionInMs, ...times } satisfies ContendTask);
          return (await Promise.race([answered, failed]))[0];
        }),
      );
      return figuresOf(done, times.measureInMs);
    };
    return { baseline: await measure("baseline"), default: await measure("default"), fair: await measure("fair") };
  } finally {
    for (const child of crowd) child.kill();
    await proxy.stop();
  }
}

function figuresOf(done: readonly Contended[], measureInMs: number): Figures {
  const waits = done.flatMap(({ waitsInMs }) => waitsInMs).toSorted((a, b) => a - b);
  const turns = done.map(({ waitsInMs }) => waitsInMs.length);
  return {
    rate: (waits.length / measureInMs) * 1_000,
    p99: waits[Math.ceil(waits.length * 0.99) - 1] ?? NaN,
    requests: done.reduce((sum, { requests }) => sum + requests, 0) / waits.length,
    spread: Math.max(...turns) / Math.min(...turns),
  };
}
