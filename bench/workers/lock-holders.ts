/** One of two processes between which locks go back and forth: `lock-holders.ts <connection string> <container>`. */
import { setTimeout as pause } from "node:timers/promises";

import { ContainerClient } from "@azure/storage-blob";
import { BlobLocks } from "azure-storage-concurrency";

import type { Handed, HoldTask } from "../benches/lock-handover.js";
import type { Side } from "../harness.js";
import { acquireBaseline } from "../lock-baseline.js";
import { requestsSent } from "../requests.js";

const [connectionString = "", containerName = ""] = process.argv.slice(2);
const container = new ContainerClient(connectionString, containerName);
const locks = new BlobLocks(container);

/** Resolves when the lock is held, with what releases it. */
const acquire: Readonly<Record<Side, (channel: string) => Promise<() => Promise<unknown>>>> = {
  ours: async (channel) => {
    const lock = await locks.acquire(channel);
    return () => lock.release();
  },
  baseline: async (channel) => {
    const lease = await acquireBaseline(container.getBlockBlobClient(channel), 250, 1_000);
    return () => lease.releaseLease();
  },
};

process.on("message", (task: HoldTask) => void hold(task));
// The parent has gone, however it ended: no process is left to work for.
process.on("disconnect", () => process.exit());
process.send!("ready");

async function hold({ side, channel, claimDurationInMs }: HoldTask): Promise<void> {
  const tell = (event: Handed["event"]): void => {
    process.send!({ channel, event, at: Date.now(), requests: requestsSent() } satisfies Handed);
  };
  const release = await acquire[side](channel);
  tell("acquired");
  await pause(claimDurationInMs);
  tell("releasing");
  await release();
}
