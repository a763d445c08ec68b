import { appendExactlyOnce, isConcurrencyError } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";
import type { Appended, AppendJob } from "./job.js";

/** Does one job after the other until it is stopped. */
runWorker(async (_config, parent) => {
  parent.send("ready");
  for (;;) parent.send(await run(await parent.receive<AppendJob>()));
});

async function run(job: AppendJob): Promise<Appended[]> {
  const blob = fastContainer(job.connectionString, job.container).getAppendBlobClient(job.blob);
  const options = { uniqueRecords: job.uniqueRecords, coalesce: job.coalesce, createIfNotExists: true, timeoutInMs: 200_000, maxAttempts: 1_000 };
  const append = async (record: string): Promise<number | null> => {
    try {
      return (await appendExactlyOnce(blob, record, options)).offset;
    } catch (error) {
      if (isConcurrencyError(error, "COMMIT_UNKNOWN")) return null;
      throw error;
    }
  };
  const appended: Appended[] = [];
  const work = async (records: readonly string[], list: number): Promise<void> => {
    for (const record of records) appended.push({ list, record, offset: await append(record) });
  };
  await Promise.all(job.lists.map(work));
  return appended;
}
