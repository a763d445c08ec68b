import { setTimeout as pause } from "node:timers/promises";
import type { BlockBlobClient } from "@azure/storage-blob";
import { BlobLocks, Schedule } from "azure-storage-concurrency";

import type { Bench, BenchEnv } from "../harness.js";
import { requestsSent } from "../requests.js";

const instances = 5;
const everyInMs = 1_000;
const dueTimes = 10;

export const schedule: Bench = {
  name: "schedule",
  about: `a job of ${instances} instances, against a cron loop with a blob lease on each of them`,
  async *run(env) {
    const ours = await measure((onRun) => startSchedules(env, onRun));
    const baseline = await measure((onRun) => startLoops(env, onRun));
    yield {
      name: `due times of ${instances} instances`,
      unit: "ms late",
      ours: ours.lateInMs,
      baseline: baseline.lateInMs,
      requestsPerOp: { ours: ours.requests, baseline: baseline.requests },
      // A read of each instance, the lock, the claim, and the end with its read; instances that look in the same moment try the lock.
      bounds: [{ of: "requests", atMost: 20 }, { of: "ours", atMost: 1_500 }],
    };
  },
};

/** Requests of all instances for each due time, and how late they ran on average. */
async function measure(start: (onRun: (due: number) => void) => Promise<() => Promise<unknown>>): Promise<{ lateInMs: number; requests: number }> {
  const late: number[] = [];
  const stop = await start((due) => void late.push(Date.now() - due));
  // From between two due times to between two due times.
  await pause(everyInMs * 2.5 - (Date.now() % everyInMs));
  const [sent, ran] = [requestsSent(), late.length];
  await pause(everyInMs * dueTimes);
  const requests = (requestsSent() - sent) / dueTimes;
  const counted = late.slice(ran);
  await stop();
  return { lateInMs: counted.reduce((sum, ms) => sum + ms, 0) / counted.length, requests };
}

async function startSchedules(env: BenchEnv, onRun: (due: number) => void): Promise<() => Promise<unknown>> {
  const [table, container] = [await env.freshTable(), await env.freshContainer()];
  const schedules = Array.from({ length: instances }, (_, i) => new Schedule(table, new BlobLocks(container, { holder: `instance-${i}` }), { job: { everyInMs, run: ({ dueOn }) => onRun(dueOn.getTime()) } }));
  for (const started of schedules) await started.start();
  return () => Promise.all(schedules.map((started) => started.stop()));
}

/** What services write: at each due time, a lease on a blob, whose metadata have the last due time. A crash, or a lost response, loses a due time or runs it twice. */
async function startLoops(env: BenchEnv, onRun: (due: number) => void): Promise<() => Promise<unknown>> {
  const container = await env.freshContainer();
  const blob = container.getBlockBlobClient("job");
  await blob.upload("", 0);
  const stop = new AbortController();
  const loops = Array.from({ length: instances }, () => cronLoop(blob, onRun, stop.signal));
  return () => {
    stop.abort();
    return Promise.all(loops);
  };
}

async function cronLoop(blob: BlockBlobClient, onRun: (due: number) => void, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    await pause(everyInMs - (Date.now() % everyInMs), undefined, { signal: stop }).catch(() => undefined);
    if (isStopped(stop)) return;
    const due = Math.floor(Date.now() / everyInMs) * everyInMs;
    const lease = blob.getBlobLeaseClient();
    try {
      await lease.acquireLease(15);
    } catch {
      continue;
    }
    const { leaseId } = lease;
    const { metadata } = await blob.getProperties();
    if (Number(metadata?.["due"] ?? 0) < due) {
      await blob.setMetadata({ due: String(due) }, { conditions: { leaseId } });
      onRun(due);
    }
    await lease.releaseLease();
  }
}

/** A function, not a property access: TypeScript keeps the narrowing of a property across an `await`. */
function isStopped(stop: AbortSignal): boolean {
  return stop.aborted;
}
