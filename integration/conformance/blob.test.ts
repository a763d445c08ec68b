import type { ContainerClient } from "@azure/storage-blob";
import { beforeAll, describe, it } from "vitest";

import { freshContainer } from "../support/clients.js";
import { type BlobRow, blobRows } from "./blob.rows.js";
import { blobSubject, versionOf } from "./blob-subject.js";
import { testConditions, type Trial } from "./condition-tests.js";
import { liesAbout } from "./row.js";

let container: ContainerClient;
beforeAll(async () => {
  container = await freshContainer();
});

testConditions(blobRows, prepare);

describe("the checks notice a row that is wrong", () => {
  const names = ["Put Blob", "Get Blob", "Put Block", "Get Block List"];
  testConditions(blobRows.filter(({ operation }) => names.includes(operation)).flatMap(liesAbout), prepare, it.fails);
});

async function prepare(row: BlobRow): Promise<Trial> {
  const subject = await blobSubject(container, row);
  await row.before?.(subject);
  return {
    version: await versionOf(subject, row.ofSource),
    call: (conditions) => row.call(subject, conditions),
    etag: async () => (await versionOf(subject, row.ofSource)).etag,
  };
}
