import { fork } from "node:child_process";
import { once } from "node:events";

import type { Bench } from "../harness.js";

/** What `growing-memory.ts` answers: bytes. */
export interface GrowingMemory {
  /** Of 10,000 callers that wait for a lock, while they wait. */
  readonly waiters: number;
  /** After 20,000 and after 100,000 messages. */
  readonly afterSomeMessages: number;
  readonly afterAllMessages: number;
}

const worker = new URL("../workers/growing-memory.ts", import.meta.url);

export const memory: Bench = {
  name: "memory",
  about: "memory of 10,000 callers that wait for a lock, and of a consumer after 100,000 messages compared with 20,000; on services in memory",
  async *run() {
    // In a process of its own, where nothing else comes and goes.
    const child = fork(worker, [], { execArgv: [...process.execArgv, "--expose-gc"] });
    const failed = once(child, "exit").then(() => Promise.reject(new Error("the process that measures memory has ended")));
    const [bytes] = await Promise.race([once(child, "message") as Promise<[GrowingMemory]>, failed]);
    child.disconnect();
    yield { name: "10,000 waiters", unit: "kB", ours: bytes.waiters / 1_000, baseline: NaN, bounds: [{ of: "ours", atMost: 5_000 }] };
    yield { name: "100,000 messages", unit: "kB", ours: bytes.afterAllMessages / 1_000, baseline: bytes.afterSomeMessages / 1_000, bounds: [{ of: "ratio", atMost: 1.1 }] };
  },
};
