/** One of several processes that take one lock in a loop: `lock-contenders.ts <connection string> <container>`. */
import { setTimeout as pause } from "node:timers/promises";

import { ContainerClient } from "@azure/storage-blob";
import { BlobLocks } from "azure-storage-concurrency";

import type { Contended, ContendTask, LockKind } from "../benches/lock-processes.js";
import { acquireBaseline } from "../lock-baseline.js";
import { requestsSent } from "../requests.js";

const [connectionString = "", containerName = ""] = process.argv.slice(2);
const container = new ContainerClient(connectionString, containerName);
const holder = String(process.pid);
const locks = { default: new BlobLocks(container, { holder }), fair: new BlobLocks(container, { holder, fair: true }) };

const withLock: Readonly<Record<LockKind, (name: string, section: () => Promise<void>) => Promise<void>>> = {
  default: (name, section) => locks.default.withLock(name, section),
  fair: (name, section) => locks.fair.withLock(name, section),
  baseline: async (name, section) => {
    const lease = await acquireBaseline(container.getBlockBlobClient(name), 500, 1_500);
    await section();
    await lease.releaseLease();
  },
};

process.on("message", (task: ContendTask) => void contend(task).then((contended) => process.send!(contended)));
// The parent has gone, however it ended: no process is left to work for.
process.on("disconnect", () => process.exit());
process.send!("ready");

async function contend({ kind, lock, sectionInMs, warmUpInMs, measureInMs }: ContendTask): Promise<Contended> {
  const waitsInMs: number[] = [];
  const begin = performance.now() + warmUpInMs;
  const end = begin + measureInMs;
  let before: number | undefined;
  while (performance.now() < end) {
    const since = performance.now();
    await withLock[kind](lock, async () => {
      const now = performance.now();
      if (now >= begin && now < end) waitsInMs.push(now - since);
      await pause(sectionInMs);
    });
    if (before === undefined && performance.now() >= begin) before = requestsSent();
  }
  return { waitsInMs, requests: requestsSent() - (before ?? requestsSent()) };
}
