import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import { BlobLocks, WorkBalancer } from "../../../src/index.js";
import { claimWhileHeld } from "../../chaos/claims.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface ShardOwnerConfig {
  readonly connectionString: string;
  readonly container: string;
  readonly shards: number;
  /** How far the clock of this process is ahead. */
  readonly skewInMs: number;
  /** A file that outlives the process: one claim in each line. */
  readonly log: string;
}

/** Takes part until it gets a message, and writes down for how long it was certain to own each shard. */
runWorker(async ({ connectionString, container, shards, skewInMs, log }: ShardOwnerConfig, parent) => {
  const now = Date.now.bind(Date);
  Date.now = () => now() + skewInMs;
  const balancer = new WorkBalancer(new BlobLocks(fastContainer(connectionString, container)), "feeds", shards, async (context) => {
    const { shard, epoch, signal } = context;
    await claimWhileHeld(`shard ${shard}`, epoch, () => context.assertHeld(), (claim) => appendFileSync(log, `${JSON.stringify({ ...claim, pid: process.pid })}\n`), async () => {
      await pause(10);
      return signal.aborted;
    });
  }, { durationInSeconds: 15 });
  // The network is disturbed.
  balancer.on("error", () => undefined);
  await balancer.start();
  parent.send("ready");
  await parent.receive();
  await balancer.stop();
  return balancer.ownedShards;
});
