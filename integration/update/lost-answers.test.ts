import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { dropResponse, isWrite } from "../../src/testing.js";
import type { Worker } from "../support/workers.js";
import { expectAllOnce, sceneOf, startUpdaters, updateTogether } from "./updating-processes.js";

const everyFifthWrite = [dropResponse({ when: isWrite, probability: 0.2 })];

let workers: Worker<never>[] = [];

beforeAll(async () => {
  workers = await startUpdaters(4);
});

afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
});

describe("4 processes, and a fifth of the answers to writes lost", () => {
  it.each([
    { what: "a blob", kind: "blob", change: "add" },
    { what: "an entity, by Merge", kind: "entity", change: "add" },
    { what: "an entity, by Replace", kind: "entity", change: "add and remove" },
  ] as const)("count to exactly 2,000 on $what", async ({ kind, change }) => {
    const scene = await sceneOf(kind, everyFifthWrite);
    const report = await updateTogether(workers, scene, { by: "library", change, total: 2_000, updaters: 16, onUnknown: "look" });
    await expectAllOnce(scene, report, 2_000);
    expect(scene.proxy.faultCount("drop-response")).toBeGreaterThan(10);
    if (kind === "entity") {
      const method = change === "add" ? "PATCH" : "PUT";
      expect(scene.proxy.count((r) => isWrite(r) && r.method !== method)).toBe(0);
    }
  });

  it.each(["blob", "entity"] as const)("count exactly on one %s without group commit", async (kind) => {
    const scene = await sceneOf(kind, everyFifthWrite);
    const job = { by: "library", change: "add", total: 160, updaters: 1, coalesce: false, onUnknown: "look" } as const;
    const report = await updateTogether(workers, scene, job);
    await expectAllOnce(scene, report, 160);
  });

  it.each(["blob", "entity"] as const)("count too far on one %s with a loop written by hand", async (kind) => {
    const scene = await sceneOf(kind, everyFifthWrite);
    const report = await updateTogether(workers, scene, { by: "hand-written loop", change: "add", total: 160, updaters: 1 });
    const { n } = await scene.stored();
    console.log(`If-Match loop written by hand on one ${kind}: wanted ${report.resolved.length}, got ${n}`);
    expect(report.resolved).toHaveLength(160);
    expect(n).toBeGreaterThan(160);
  });
});
