import { BlobLocks } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface CompetitorConfig {
  readonly connectionString: string;
  readonly container: string;
}

/** Wants the lock once for each message it gets, and answers with the epoch once it has given it back. */
runWorker(async ({ connectionString, container }: CompetitorConfig, parent) => {
  const locks = new BlobLocks(fastContainer(connectionString, container));
  parent.send("ready");
  for (;;) {
    await parent.receive();
    parent.send(await locks.withLock("busy", async (lock) => lock.epoch));
  }
});
