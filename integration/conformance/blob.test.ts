import type { ContainerClient } from "@azure/storage-blob";
import { beforeAll } from "vitest";

import { freshContainer } from "../support/clients.js";
import { blobRows } from "./blob.rows.js";
import { blobSubject, versionOf } from "./blob-subject.js";
import { testConditions } from "./condition-tests.js";

let container: ContainerClient;
beforeAll(async () => {
  container = await freshContainer();
});

testConditions(blobRows, async (row) => {
  const subject = await blobSubject(container, row);
  await row.before?.(subject);
  return {
    version: await versionOf(subject, row.ofSource),
    call: (conditions) => row.call(subject, conditions),
    etag: async () => (await versionOf(subject, row.ofSource)).etag,
  };
});
