import { join } from "node:path";

import { afterAll, describe, expect, test } from "vitest";

import { checkOut } from "./support/checkout.js";
import { removeProjects } from "./support/project.js";

/**
 * The tests of this repository on newer lines of Node, with the newest SDKs, which do not run on Node 20. Only those that the version can
 * make a difference to, and of the integration tests one file for each service and mechanism: all of them take many minutes.
 */
const runs = [
  {
    major: 24,
    projects: {
      unit: ["test/core", "test/lease", "test/update/nested-promises"],
      integration: ["update/round-trip-entities", "transaction/service", "lease/contract", "queue/redrive", "read/read-if-changed", "file/leased-update.test.ts"],
    },
  },
  { major: 22, projects: { unit: ["test/core"], integration: ["transaction/service", "queue/redrive"] } },
] as const;

afterAll(removeProjects);

describe("on newer Nodes, with the newest SDKs,", () => {
  test.for(runs)("the unit tests and the core of the integration tests pass on Node $major", async ({ major, projects: { unit, integration } }) => {
    const project = await checkOut(major);
    const { version } = (await project.json("node_modules/@azure/storage-blob/package.json")) as { version: string };
    expect(await project.node(["--version"])).toMatch(new RegExp(`^v${major}\\.`));
    const vitest = join("node_modules", "vitest", "vitest.mjs");
    const files = [...unit, ...integration.map((name) => `integration/${name}`)];
    const started = performance.now();
    const output = await project.node([vitest, "run", "--no-color", "--project", "unit", "--project", "integration", ...files], { TEST_RESULTS: "", AZURE_STORAGE_CONNECTION_STRING: "" }, 540_000);
    const passed = /Tests {2}(\d+) passed \(\1\)/.exec(output)?.[1];
    console.log(`Node ${major} with storage-blob ${version}: ${passed} tests in ${Math.round((performance.now() - started) / 1_000)} s`);
    expect(Number(passed)).toBeGreaterThan(200);
  });
});
