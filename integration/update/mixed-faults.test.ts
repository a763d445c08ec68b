import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { respondWith, delay, dropResponse, isRead, isWrite, dropRequest } from "../../src/testing.js";
import type { Worker } from "../support/workers.js";
import { ForeignWriter } from "./foreign-writer.js";
import { expectAllOnce, sceneOf, startUpdaters, timesApplied, updateTogether } from "./updating-processes.js";
import { appliedIds, type UpdateReport } from "./workers/jobs.js";

const allSorts = [
  delay({ minInMs: 1, maxInMs: 15 }, { probability: 0.1 }),
  delay({ minInMs: 1, maxInMs: 15 }, { probability: 0.1, at: "response", name: "late answer" }),
  dropRequest({ probability: 0.05 }),
  respondWith(503, { probability: 0.05 }),
  respondWith(500, { when: isWrite, probability: 0.05, at: "response", name: "500 after the commit" }),
  dropResponse({ when: isWrite, probability: 0.15 }),
  dropResponse({ when: isRead, probability: 0.05, name: "read lost" }),
];

let workers: Worker<never>[] = [];

beforeAll(async () => {
  workers = await startUpdaters(4);
});

afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
});

/** Each operation at most once; each that resolved exactly once; none that failed for certain. */
function expectExact(report: UpdateReport, times: (id: string) => number): void {
  expect(report.resolved.filter((id) => times(id) !== 1), "resolved, but not there exactly once").toEqual([]);
  expect(report.unknown.filter((id) => times(id) > 1), "unknown, and applied twice").toEqual([]);
  expect(report.failed.filter(({ id }) => times(id) !== 0), "failed, but applied").toEqual([]);
}

describe.each(["blob", "entity"] as const)("4 processes on one %s, with lost, late and refused requests and server errors", (kind) => {
  it("apply every operation exactly once, and know it", async () => {
    const scene = await sceneOf(kind, allSorts);
    const report = await updateTogether(workers, scene, { by: "library", change: "add", total: 600, updaters: 8, onUnknown: "look" });
    await expectAllOnce(scene, report, 600);
    for (const rule of ["delay", "late answer", "drop-request", "status-503", "500 after the commit", "drop-response", "read lost"]) {
      expect(scene.proxy.faultCount(rule), rule).toBeGreaterThan(0);
    }
  });

  it("never apply one twice although a foreign writer drops the journal", async () => {
    const scene = await sceneOf(kind, allSorts);
    const foreign = new ForeignWriter(scene.place);
    const working = updateTogether(workers, scene, { by: "library", change: "add", total: 600, updaters: 8 });
    await foreign.writeUntil(working, 15);
    const report = await working;
    const { n, applied } = await scene.stored();
    const times = timesApplied(appliedIds({ applied }), foreign.dropped);
    expect(report.failed).toEqual([]);
    expectExact(report, times);
    // The count goes on over the foreign writer's resets: what resolved, and what of the unknown did land.
    expect(n).toBe(report.resolved.length + report.unknown.filter((id) => times(id) === 1).length);
    // The foreign writer came between a lost answer and the look at what is stored: otherwise this shows nothing.
    expect(report.unknown.length).toBeGreaterThan(0);
    expect(foreign.dropped.length).toBeGreaterThan(0);
  });
});
