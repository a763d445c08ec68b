import { ContainerClient } from "@azure/storage-blob";

import { downloadConsistent, downloadConsistentStream } from "../../../src/index.js";
import type { DownloadOptions } from "../../../src/index.js";
import { runWorker } from "../../support/worker-process.js";

export interface DownloaderConfig {
  readonly connectionString: string;
  readonly container: string;
  readonly blob: string;
  readonly downloads: number;
  readonly stream: boolean;
  readonly options: DownloadOptions;
}

/** How often each result occurred: the name of the error, or "done". */
export type DownloadResults = Readonly<Record<string, number>>;

/**
 * Downloads a blob again and again, and handles every error, as a careful caller does. No handler for uncaught exceptions is
 * installed: an `error` event without a listener ends this process.
 */
runWorker(async ({ connectionString, container, blob, downloads, stream, options }: DownloaderConfig) => {
  const client = new ContainerClient(connectionString, container).getBlobClient(blob);
  const results: Record<string, number> = {};
  for (let number = 0; number < downloads; number++) {
    let result = "done";
    try {
      if (stream) await new Response((await downloadConsistentStream(client, options)).content).arrayBuffer();
      else await downloadConsistent(client, options);
    } catch (error) {
      result = (error as Error).name;
    }
    results[result] = (results[result] ?? 0) + 1;
    // The events of an aborted response come after the call has ended.
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
  return results satisfies DownloadResults;
});
