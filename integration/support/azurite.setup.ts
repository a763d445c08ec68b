import type { TestProject } from "vitest/node";

import { startAzurite, type StorageEndpoints } from "../../src/testing.js";

declare module "vitest" {
  interface ProvidedContext {
    /** The Azurite of this run, shared by all test files. */
    azurite: StorageEndpoints & { readonly connectionString: string };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const azurite = await startAzurite();
  const { connectionString, blobUrl, queueUrl, tableUrl } = azurite;
  project.provide("azurite", { connectionString, blobUrl, queueUrl, tableUrl });
  return () => azurite.stop();
}
