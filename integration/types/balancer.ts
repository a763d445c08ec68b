import * as asc from "azure-storage-concurrency";
import type { LockStatus, ShardContext } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { container, table } from "./storage.js";

export async function balance(): Promise<void> {
  const locks = new asc.BlobLocks(container);
  const balancer = new asc.WorkBalancer(locks, "feeds", 32, async (context) => void typeOf(context).is<ShardContext>(), { maxShards: 4, rebalanceIntervalInMs: 1_000, data: "x" });
  const services: asc.BackgroundService[] = [balancer];
  balancer.on("acquired", ({ shard, epoch }) => [shard, epoch]).once("released", ({ reason }) => typeOf(reason).is<"rebalanced" | "shed" | "lost" | "stopped" | "failed" | "abandoned">());
  await Promise.all(services.map((service) => service.start()));
  typeOf(balancer.ownedShards).is<readonly number[]>();
  typeOf(await balancer.shed(1)).is<readonly number[]>();
  typeOf((await balancer.inspect())[0]?.owner).is<LockStatus | undefined>();
  await balancer.stop({ drainTimeoutInMs: 1 });
  // @ts-expect-error Locks, not a table.
  new asc.WorkBalancer(table, "feeds", 32, () => undefined);
  // @ts-expect-error A shard that fails has a cooldown of its own.
  new asc.WorkBalancer(locks, "feeds", 32, () => undefined, { cooldownInMs: 1 });
}
