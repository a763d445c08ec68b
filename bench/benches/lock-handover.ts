import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";

import { BlobLocks } from "azure-storage-concurrency";

import type { Bench, Side } from "../harness.js";

/** What a worker is asked to do: get a lock, hold it, give it back. */
export interface HoldTask {
  readonly side: Side;
  readonly channel: string;
  readonly claimDurationInMs: number;
}

/** What it tells when it has the lock, and when it is about to give it back. */
export interface Handed {
  readonly channel: string;
  readonly event: "acquired" | "releasing";
  /** By the wall clock, which both processes share. */
  readonly at: number;
  /** That this process has sent so far. */
  readonly requests: number;
}

const worker = new URL("../workers/lock-holders.ts", import.meta.url);
/** Locks that go back and forth at the same time, so that it does not take long. */
const channels = 6;
const handOvers = 8;
const order: readonly Side[] = ["baseline", "ours", "ours", "baseline"];

export const lockHandover: Bench = {
  name: "lock-handover",
  about: "from the release in one process to the next holder in another, after 300 to 800 ms, against random polling between 250 ms and 1 s",
  async *run(env) {
    const container = await env.freshContainer();
    const names = Array.from({ length: channels }, (_, n) => `lock-${n}`);
    for (const name of names) await container.getBlockBlobClient(name).upload("", 0);
    await Promise.all(names.map((name) => new BlobLocks(container).withLock(name, () => undefined)));

    const pair = [0, 1].map(() => fork(worker, [env.connectionString, container.containerName])) as [ChildProcess, ChildProcess];
    try {
      for (const child of pair) child.setMaxListeners(0); // each of the locks listens for its own messages
      await Promise.all(pair.map((child) => once(child, "message"))); // each says when it is ready
      const times: Record<Side, number[]> = { ours: [], baseline: [] };
      const requests: Record<Side, number> = { ours: 0, baseline: 0 };
      for (const side of order) {
        const phase = await Promise.all(names.map((name) => backAndForth(pair, side, name)));
        times[side].push(...phase.flatMap(({ gaps }) => gaps));
        // Counted by process, not by lock.
        requests[side] += [0, 1].reduce((sum, at) => sum + spread(phase.flatMap(({ counts }) => counts[at] ?? [])), 0);
      }
      yield {
        name: "lock-handover",
        unit: "ms",
        ours: median(times.ours),
        baseline: median(times.baseline),
        requestsPerOp: { ours: requests.ours / times.ours.length, baseline: requests.baseline / times.baseline.length },
        bounds: [{ of: "ratio", atMost: 0.5 }],
      };
    } finally {
      for (const child of pair) child.kill();
    }
  },
};

/** Has a lock go from one process to the other and back. The next one waits for it from the moment it was taken. */
async function backAndForth(
  pair: readonly [ChildProcess, ChildProcess],
  side: Side,
  channel: string,
): Promise<{ gaps: number[]; counts: number[][] }> {
  const gaps: number[] = [];
  const counts: number[][] = [[], []];
  const ask = (at: number): Record<Handed["event"], Promise<Handed>> => {
    const child = pair[at] as ChildProcess;
    const told = async (event: Handed["event"]): Promise<Handed> => {
      const answer = await messageOf(child, (message) => message.channel === channel && message.event === event);
      counts[at]?.push(answer.requests);
      return answer;
    };
    const answers = { acquired: told("acquired"), releasing: told("releasing") };
    child.send({ side, channel, claimDurationInMs: 300 + Math.random() * 500 } satisfies HoldTask);
    return answers;
  };
  let holder = ask(0);
  await holder.acquired;
  for (let handOver = 1; handOver <= handOvers; handOver++) {
    const next = ask(handOver % 2);
    const { at: releasedAt } = await holder.releasing;
    gaps.push((await next.acquired).at - releasedAt);
    holder = next;
  }
  await holder.releasing;
  return { gaps, counts };
}

function messageOf(child: ChildProcess, matches: (message: Handed) => boolean): Promise<Handed> {
  return new Promise((resolve, reject) => {
    const onMessage = (message: Handed): void => {
      if (!matches(message)) return;
      child.off("message", onMessage).off("exit", onExit);
      resolve(message);
    };
    const onExit = (): void => reject(new Error("a worker has ended"));
    child.on("message", onMessage).once("exit", onExit);
  });
}

function spread(counts: readonly number[]): number {
  return Math.max(...counts) - Math.min(...counts);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}
