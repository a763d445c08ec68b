import { BlobLocks, isConcurrencyError } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface EpochTakerConfig {
  readonly connectionString: string;
  readonly container: string;
}

/** Begin; or what to do with the lock that was just reported: it was taken away, or it is to be given back. */
export type Command = "go" | "release" | "broken" | "stop";

/** Takes the lock again and again, three at a time, and reports each epoch while holding it. */
runWorker(async ({ connectionString, container }: EpochTakerConfig, parent) => {
  const locks = new BlobLocks(fastContainer(connectionString, container), { defaults: { durationInSeconds: 15 } });
  const stop = new AbortController();
  await parent.receive<Command>();
  const take = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const lock = await locks.acquire("epochs", { abortSignal: stop.signal }).catch((error: unknown) => {
        if (error !== stop.signal.reason) throw error;
        return undefined;
      });
      if (!lock) return;
      parent.send(lock.epoch);
      const command = await parent.receive<Command>();
      if (command === "stop") stop.abort();
      if (command === "broken") await noticeLoss(() => lock.renew());
      await lock[Symbol.asyncDispose]();
    }
  };
  await Promise.all([take(), take(), take()]);
});

async function noticeLoss(renew: () => Promise<void>): Promise<void> {
  const failure = await renew().catch((error: unknown) => error);
  if (!isConcurrencyError(failure, "LEASE_LOST")) throw new Error(`a lock that was taken away was renewed: ${String(failure)}`);
}
