import type { ContainerClient } from "@azure/storage-blob";
import { beforeAll, describe, expect, it } from "vitest";

import { freshContainer } from "../support/clients.js";
import { blobRows } from "./blob.rows.js";
import { blobSubject, versionOf } from "./blob-subject.js";
import { combinationRows } from "./combinations.rows.js";
import { exchange } from "./exchange.js";
import { condition, type ConditionName } from "./row.js";

let container: ContainerClient;
beforeAll(async () => {
  container = await freshContainer();
});

const operations = [
  ["Get Blob", "reads"],
  ["Get Blob Properties", "reads"],
  ["Put Blob", "writes"],
  ["Set Blob Metadata", "writes"],
  ["Delete Blob", "writes"],
] as const;

describe.each(combinationRows.map((row) => [row.operation, row] as const))("%s", (_name, { given, ...expected }) => {
  it.each(operations)("%s", async (operation, kind) => {
    const row = blobRows.find((each) => each.operation === operation)!;
    const subject = await blobSubject(container, row);
    const version = await versionOf(subject);
    const conditions = Object.entries(given).map(([name, holds]) => condition(name as ConditionName, version, holds));
    const { answer } = await exchange(() => row.call(subject, Object.assign({}, ...conditions) as object));
    expect(/^2\d\d$/.test(answer) ? "passes" : answer).toBe(expected[kind]);
  });
});
