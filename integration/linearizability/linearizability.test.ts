import { expect, it } from "vitest";

import { azurite, freshContainer, freshTable } from "../support/clients.js";
import { recordRun, type RunOptions, type RunReport } from "./run.js";

/*
 * `LINEARIZABILITY_SEED` repeats a run: the calls and the faults are drawn from it. `LINEARIZABILITY_OPERATIONS` makes a longer
 * one. The interleaving of the processes is the machine's.
 */
const seed = Number(process.env["LINEARIZABILITY_SEED"] ?? 1);
const operations = Number(process.env["LINEARIZABILITY_OPERATIONS"] ?? 600);

async function run(options: Pick<RunOptions, "updatesBy" | "operations" | "lostResponses" | "kill">): Promise<RunReport> {
  const { containerName: container } = await freshContainer();
  const { tableName: table } = await freshTable();
  const library = new URL("../../src/index.ts", import.meta.url).href;
  return recordRun({ ...options, storage: azurite(), container, table, seed, perObject: 150, processes: 4, library });
}

it(`${operations} calls of 4 processes on blobs and entities, with faults and kills, are linearizable (seed ${seed})`, { timeout: 60_000 + operations * 100 }, async () => {
  const { recorder, faults, kills } = await run({ updatesBy: "library", operations, lostResponses: 0.12, kill: true });
  if (process.env["LINEARIZABILITY_OPERATIONS"]) console.log([...recorder.outcomes].sort().map(([outcome, n]) => `${n} ${outcome}`).join("\n"));
  expect(recorder.violations().join("\n\n")).toBe("");
  expect(recorder.operations).toBeGreaterThan(operations * 0.7);
  expect(faults).toBeGreaterThan(operations / 5);
  expect(kills).toBeGreaterThan(0);
});

it("the check finds the updates that a loop on the plain SDK applies twice", async () => {
  const { recorder } = await run({ updatesBy: "hand-written loop", operations: 300, lostResponses: 0.4, kill: false });
  expect(recorder.violations().join("\n\n")).toMatch(/^blob-0: not linearizable/);
});
