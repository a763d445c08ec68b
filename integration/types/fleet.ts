import * as asc from "azure-storage-concurrency";
import { container, queue, table } from "./storage.js";

interface Account {
  balance: number;
}

/** A service with all of its background work, as an application writes it: what runs for a whole fleet takes the same clients. */
export async function serveFleet(abortSignal: AbortSignal): Promise<void> {
  const locks = new asc.BlobLocks(container, { fair: true });
  const outbox = new asc.Outbox(table, locks, { queues: [queue] });
  const balancer = new asc.WorkBalancer(locks, "feeds", 32, async ({ shard, epoch, signal }) => {
    while (!signal.aborted) await poll(shard, epoch);
  });
  const schedule = new asc.Schedule(table, locks, { billing: { cron: "0 3 * * *", timeZone: "Europe/Berlin", missed: "latest", run: async ({ commit }) => commit("p", []) }, sweep: { everyInMs: 60_000, run: () => {} } });
  const run: asc.BackgroundService[] = [outbox, balancer, schedule, new asc.LeaderElection(locks, "x", async (term) => term.assertHeld()), new asc.WorkBalancer(locks, "tenants", 32, async ({ shard, epoch, signal }) => void [shard, epoch, signal]), new asc.Outbox(table, locks, { queues: [queue] }), new asc.Outbox(table, locks, { queues: (name) => (void name, queue), pollIntervalInMs: 1_000, drainTimeoutInMs: 1_000 })];
  await Promise.all(run.map((service) => service.start()));
  await asc.runTransaction(table, "p", (tx) => {
    tx.upsert({ rowKey: "x" });
    outbox.add(tx, queue, { id: 1 });
  });
  await asc.runTransaction(table, "p", async (tx: asc.Transaction<Account>) => {
    const account = await tx.get("a");
    tx.upsert({ rowKey: "a", balance: (account?.balance ?? 0) + 1 });
    outbox.add(tx, queue, { account: "a" }, { idempotencyKey: "a-1", delayInMs: 5_000 });
  });
  outbox.on("sent", ({ queue: name, idempotencyKey, relayed }) => [name satisfies string, idempotencyKey satisfies string, relayed satisfies boolean]);
  for await (const { addedOn } of outbox.list({ abortSignal })) addedOn.getTime();
  const [shed] = await balancer.shed(1);
  for (const { shard, owner } of await balancer.inspect({ abortSignal })) if (shard === shed) owner?.holder?.length;
  balancer.on("released", ({ shard, epoch, reason }) => [shard, epoch, reason === "shed"]);
  const { sent, failed } = await outbox.flush();
  await Promise.all(run.map((service) => service.stop({ drainTimeoutInMs: sent + failed })));
}

declare function poll(shard: number, fencingToken: number): Promise<void>;
