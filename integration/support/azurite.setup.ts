import type { TestProject } from "vitest/node";

import { startAzurite, startFileShareServer, type StorageEndpoints } from "../../src/testing.js";
import { openAccount } from "./account.js";

declare module "vitest" {
  interface ProvidedContext {
    /** The storage of this run, shared by all test files: an Azurite and a file-share server, or an account. */
    azurite: Required<StorageEndpoints> & {
      readonly connectionString: string;
      /** What the names of all that tests create begin with. */
      readonly namePrefix: string;
    };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // The package tests pack and install; they are not about the service.
  const account = project.name === "integration" ? await openAccount() : undefined;
  if (account) {
    project.provide("azurite", account.provided);
    return account.removeAll;
  }
  const [azurite, files] = await Promise.all([startAzurite(), startFileShareServer()]);
  const { connectionString, blobUrl, queueUrl, tableUrl } = azurite;
  project.provide("azurite", { connectionString, blobUrl, queueUrl, tableUrl, fileUrl: files.url, namePrefix: "t" });
  return async () => {
    await Promise.all([azurite.stop(), files.stop()]);
  };
}
