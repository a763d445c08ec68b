import { expect, it } from "vitest";

import type { Check } from "../../src/cli/verify/check.js";
import { blobTrials } from "../../src/cli/verify/checks/blobs.js";
import { conditionChecks } from "../../src/cli/verify/checks/conditions.js";
import { containerTrials } from "../../src/cli/verify/checks/containers.js";
import { conditionNames, type ConditionRow } from "../../src/cli/verify/row.js";
import { blobRows } from "../../src/cli/verify/rows/blob.js";
import { containerRows } from "../../src/cli/verify/rows/container.js";
import { runChecks } from "../../src/cli/verify/run-checks.js";
import { workspaceHere } from "./suite.js";

/** Rows in which every cell is wrong: one takes the other conditions, one has other responses. */
function wrongRows<R extends ConditionRow>(row: R): R[] {
  const { operation, accepts } = row;
  const thrown = conditionNames.filter((name) => row.unsupported?.[name] === "throws");
  const etags = { returnsETag: !row.returnsETag, ...(row.changesETag !== undefined && { changesETag: !row.changesETag }) };
  const others = conditionNames.filter((name) => !accepts.includes(name) && !thrown.includes(name));
  const rejections = Object.fromEntries(accepts.map((name) => [name, "499 Nonsense"]));
  const unsupported = Object.fromEntries(others.map((name) => [name, "throws" as const]));
  return [
    { ...row, ...etags, operation: `${operation}, with the other conditions`, accepts: others, unsupported: {} },
    { ...row, ...etags, operation: `${operation}, with other responses`, unsupported, passes: "299", rejections },
  ];
}

const blobs = ["Put Blob", "Get Blob", "Put Block", "Get Block List"];
const containers = ["Set Container Metadata", "Lease Container: acquire", "List Blobs"];

it("every cell of a row that is wrong is reported as different", async () => {
  const wrong: readonly Check[] = [
    ...conditionChecks(blobRows.filter(({ operation }) => blobs.includes(operation)).flatMap(wrongRows), blobTrials),
    ...conditionChecks(containerRows.filter(({ operation }) => containers.includes(operation)).flatMap(wrongRows), containerTrials),
  ];
  const workspace = workspaceHere();
  await workspace.open(["blob"]);
  try {
    const results = await runChecks(wrong, workspace, { emulator: true });
    expect(results.length).toBeGreaterThan(70);
    expect(results.filter(({ status }) => status !== "different").map(({ check }) => check.name)).toEqual([]);
  } finally {
    expect(await workspace.removeAll()).toEqual([]);
  }
});
