import { ShareServiceClient } from "@azure/storage-file-share";

import { containerMetadata, type LeasedTarget, jsonFile, leasedUpdate } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

/** Where the counter is, and what this process has to do about it. */
export interface LeasedUpdaterConfig {
  readonly connectionString: string;
  /** Of the container, or of the share, which has a file `counter.json`. */
  readonly name: string;
  readonly kind: "file" | "container";
  readonly process: number;
  readonly updates: number;
  /** How many at the same time. */
  readonly updaters: number;
}

/** `n`, and a list of all that was ever added, so that twice and never are both visible. */
type Counter = Record<string, string>;

runWorker(async (config: LeasedUpdaterConfig) => {
  const target = targetOf(config);
  const ids = Array.from({ length: config.updates }, (_, i) => `${config.process}.${i}`);
  let runs = 0;
  const work = async (): Promise<void> => {
    for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
      const mine = id;
      await leasedUpdate(
        target,
        (counter) => {
          runs++;
          counter["n"] = String(Number(counter["n"] ?? 0) + 1);
          counter["ids"] = `${counter["ids"] ?? ""} ${mine}`.trim();
        },
        { waitInMs: 120_000 },
      );
    }
  };
  await Promise.all(Array.from({ length: config.updaters }, work));
  return runs;
});

function targetOf({ kind, connectionString, name }: LeasedUpdaterConfig): LeasedTarget<Counter> {
  if (kind === "container") return containerMetadata(fastContainer(connectionString, name));
  const retryOptions = { retryDelayInMs: 5, maxRetryDelayInMs: 50, maxTries: 12 };
  const service = ShareServiceClient.fromConnectionString(connectionString, { retryOptions });
  return jsonFile<Counter>(service.getShareClient(name).rootDirectoryClient.getFileClient("counter.json"));
}
