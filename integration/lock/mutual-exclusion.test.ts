import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";

import { answerWith, dropAnswer, type FaultRule, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer } from "../support/clients.js";
import { startWorkers, type Worker } from "../support/workers.js";
import { countIn, entriesOf, meetingPlace } from "./workers/critical-section.js";
import type { SectionJob } from "./workers/section-runner.js";

const sections = 500;
/** There is no more to it than the work: a busy machine takes its time. */
const timeoutInMs = 200_000;
let processes: Worker<never>[];

beforeAll(async () => {
  const file = new URL("./workers/section-runner.ts", import.meta.url);
  processes = startWorkers<never>(file, [null, null, null, null], { timeoutInMs: 400_000 });
  await Promise.all(processes.map((worker) => worker.receive()));
});
afterAll(() => Promise.all(processes.map((worker) => worker.stop())));

/** 4 processes with 8 workers each. */
async function runSections(rules: readonly FaultRule[]): Promise<{ entries: string[]; counted: number; faults: number }> {
  const proxy = await startFaultProxy(azurite().blobUrl, rules);
  onTestFinished(() => proxy.stop());
  const { containerName: container } = await freshContainer();
  const direct = containerClient(container);
  const { remove, ...place } = await meetingPlace(direct);
  onTestFinished(remove);
  const job: SectionJob = {
    ...place,
    connectionString: connectionString({ blobUrl: proxy.url }),
    workers: 8,
    sections: sections / processes.length,
  };
  const done = await Promise.all(
    processes.map((worker) => {
      worker.send(job);
      return worker.receive<number>();
    }),
  );
  expect(done.reduce((sum, count) => sum + count)).toBe(sections);
  return { entries: await entriesOf(place.log), counted: await countIn(direct), faults: proxy.fired() };
}

function expectExclusion({ entries, counted }: { entries: string[]; counted: number }): void {
  expect(counted).toBe(sections);
  expect(entries).toHaveLength(sections);
  const epochs = entries.map((name) => Number(name.split(":")[0]));
  expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
  const processOf = (name: string): string => /:(\d+)/.exec(name)![1]!;
  const changes = entries.filter((name, at) => at > 0 && processOf(name) !== processOf(entries[at - 1]!)).length;
  // Not four processes that came one after the other.
  expect(changes).toBeGreaterThan(20);
}

it("lets one of 32 workers in 4 processes in at a time, over 500 critical sections", async () => {
  expectExclusion(await runSections([]));
}, timeoutInMs);

it("does so while every tenth answer is lost and every tenth request is answered 503", async () => {
  const outcome = await runSections([
    answerWith(503, { probability: 0.05 }),
    answerWith(503, { probability: 0.05, at: "answer", name: "503 although it was done" }),
    dropAnswer({ probability: 0.1 }),
  ]);
  expectExclusion(outcome);
  expect(outcome.faults).toBeGreaterThan(300);
}, timeoutInMs);
