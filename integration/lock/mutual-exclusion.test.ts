import { expect, it, type TestContext } from "vitest";

import { respondWith, dropResponse, type FaultRule, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshContainer } from "../support/clients.js";
import { startWorkers } from "../support/workers.js";
import { countIn, entriesOf, meetingPlace } from "./workers/critical-section.js";
import type { SectionConfig } from "./workers/section-runner.js";

const sections = 500;
/** There is no more to it than the work: a busy machine takes its time. */
const timeoutInMs = 400_000;

/** 4 processes with 8 workers each. */
async function runSections(
  { onTestFinished }: TestContext,
  rules: readonly FaultRule[],
): Promise<{ entries: string[]; counted: number; faults: number }> {
  const proxy = await startFaultProxy(azurite().blobUrl, rules);
  onTestFinished(() => proxy.stop());
  const container = await freshContainer();
  const { remove, ...place } = await meetingPlace(container);
  onTestFinished(remove);
  const config: SectionConfig = { ...place, connectionString: connectionString({ blobUrl: proxy.url }), workers: 8, sections: sections / 4 };
  const file = new URL("./workers/section-runner.ts", import.meta.url);
  const processes = startWorkers<number>(file, [config, config, config, config], { timeoutInMs });
  onTestFinished(async () => {
    await Promise.all(processes.map((worker) => worker.stop()));
  });
  const done = await Promise.all(processes.map((worker) => worker.result));
  expect(done.reduce((sum, count) => sum + count)).toBe(sections);
  return { entries: await entriesOf(place.log), counted: await countIn(container), faults: proxy.faultCount() };
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

it.concurrent("lets one of 32 workers in 4 processes in at a time, over 500 critical sections", async (test) => {
  expectExclusion(await runSections(test, []));
}, timeoutInMs);

it.concurrent("does so while every tenth answer is lost and every tenth request is answered 503", async (test) => {
  const outcome = await runSections(test, [
    respondWith(503, { probability: 0.05 }),
    respondWith(503, { probability: 0.05, at: "response", name: "503 although it was done" }),
    dropResponse({ probability: 0.1 }),
  ]);
  expectExclusion(outcome);
  expect(outcome.faults).toBeGreaterThan(300);
}, timeoutInMs);
