import { appendExactlyOnce } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface RepeaterConfig {
  readonly connectionString: string;
  readonly container: string;
  readonly ids: readonly string[];
}

/** Appends one record for each id, several at a time, and reports each offset. A test kills it in the middle. */
runWorker(async ({ connectionString, container, ids }: RepeaterConfig, parent) => {
  const blob = fastContainer(connectionString, container).getAppendBlobClient("log");
  for (let at = 0; at < ids.length; at += 4) {
    await Promise.all(
      ids.slice(at, at + 4).map(async (operationId) => {
        const { offset } = await appendExactlyOnce(blob, `<${operationId}>`, { operationId, createIfNotExists: true, timeoutInMs: 60_000, maxAttempts: 1_000 });
        parent.send({ id: operationId, offset });
      }),
    );
  }
});
