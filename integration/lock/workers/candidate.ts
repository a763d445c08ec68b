import { setTimeout as pause } from "node:timers/promises";

import { BlobLocks, LeaderElection, type LeadershipTerm } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { nextTurn } from "../../support/pause.js";
import { runWorker } from "../../support/worker-process.js";

export interface CandidateConfig {
  readonly connectionString: string;
  readonly container: string;
}

/** What a candidate tells: that its term has begun; then nothing until it is told to stop or resign. */
export interface Elected {
  readonly epoch: number;
}

/** When, by the wall clock, this process took itself for the leader: the first and the last time. */
export interface Reign {
  readonly epoch: number;
  readonly from: number;
  to: number;
}

/** Takes part until it gets a message. */
runWorker(async ({ connectionString, container }: CandidateConfig, parent) => {
  const reigns: Reign[] = [];
  const locks = new BlobLocks(fastContainer(connectionString, container));
  const election = new LeaderElection(locks, "scheduler", lead, { durationInSeconds: 15 });
  async function lead({ epoch, signal }: LeadershipTerm): Promise<void> {
    const reign: Reign = { epoch, from: Date.now(), to: Date.now() };
    reigns.push(reign);
    parent.send({ epoch } satisfies Elected);
    while (!signal.aborted) {
      const at = Date.now();
      await nextTurn();
      // The time before the check: a process that is stopped after it, and continues much later, was the leader then.
      if (!isAborted(signal)) reign.to = at;
      await pause(5);
    }
  }
  await election.start();
  parent.send("ready");
  await parent.receive();
  await election.stop();
  return reigns;
});

/** Asked anew after an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
