import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

import { BlobLocks, WorkBalancer } from "../../src/index.js";
import { dropResponse, isWrite, respondWith, startFaultProxy } from "../../src/testing.js";
import { machineTime, overlapsOf, type Claim } from "../chaos/claims.js";
import { azurite, connectionString, containerClient, freshContainer } from "../support/clients.js";
import { startWorkers } from "../support/workers.js";
import type { ShardOwnerConfig } from "./workers/shard-owner.js";

const shards = 10;
const leaseInMs = 15_000;
const intervalInMs = leaseInMs / 3;

type LoggedClaim = Claim & { readonly pid: number };

function claimsIn(log: string): LoggedClaim[] {
  // A process that is killed may leave half a line.
  const lines = readFileSync(log, { flag: "a+", encoding: "utf8" }).split("\n");
  return lines.filter((line) => line.endsWith("}")).map((line) => JSON.parse(line) as LoggedClaim);
}

describe("WorkBalancer on Azurite", () => {
  it("owns all shards, shows its owners, rejects another number of shards, and is purged without a trace", async () => {
    const container = await freshContainer();
    const locks = new BlobLocks(container);
    const balancer = new WorkBalancer(locks, "feeds/ä", 3, () => undefined, { data: "rack 4", durationInSeconds: 15 });
    await balancer.start();
    await expect.poll(() => balancer.ownedShards).toEqual([0, 1, 2]);
    expect(await balancer.inspect()).toMatchObject([0, 1, 2].map((shard) => ({ shard, owner: { data: "rack 4", state: "leased" } })));
    await expect(new WorkBalancer(locks, "feeds/ä", 4, () => undefined).start()).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH", setting: "shards" });
    await balancer.stop();
    expect(await balancer.inspect()).toEqual([0, 1, 2].map((shard) => ({ shard, owner: undefined })));
    // The count is kept until a purge finds no lock that it counts.
    await locks.purge({ olderThanInMs: 0 });
    await locks.purge({ olderThanInMs: 0 });
    const left: string[] = [];
    for await (const { name } of container.listBlobsFlat()) if (name.includes("feeds")) left.push(name);
    expect(left).toEqual([]);
  });

  it("does not start without its container", async () => {
    const balancer = new WorkBalancer(new BlobLocks(containerClient("missing-container")), "feeds", 3, () => undefined);
    await expect(balancer.start()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    expect(balancer.isRunning).toBe(false);
  });

  it("of five processes with skewed clocks that are killed and suspended, and lose responses, never two own a shard, and the survivors own all", async () => {
    const container = await freshContainer();
    const directory = mkdtempSync(join(tmpdir(), "balancer-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const log = join(directory, "log");
    const proxy = await startFaultProxy(azurite().blobUrl, [dropResponse({ when: isWrite, probability: 0.1 }), respondWith(503, { probability: 0.03 })]);
    onTestFinished(() => proxy.stop());
    const config: Omit<ShardOwnerConfig, "skewInMs"> = { connectionString: connectionString({ blobUrl: proxy.url }), container: container.containerName, shards, log };
    const workers = startWorkers<number[]>(new URL("./workers/shard-owner.ts", import.meta.url), [0, 300_000, -240_000, 120_000, -600_000].map((skewInMs): ShardOwnerConfig => ({ ...config, skewInMs })), { timeoutInMs: 300_000 });
    onTestFinished(async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
    });
    await Promise.all(workers.map((worker) => worker.receive()));
    const observer = new WorkBalancer(new BlobLocks(container), "feeds", shards, () => undefined);
    const isBalancedOver = async (count: number): Promise<boolean> => {
      const owners = (await observer.inspect()).map(({ owner }) => owner?.holder ?? "");
      return !owners.includes("") && new Set(owners).size === count && owners.every((owner) => owners.filter((other) => other === owner).length <= Math.ceil(shards / count));
    };
    await expect.poll(() => isBalancedOver(5), { timeout: 90_000, interval: 500 }).toBe(true);

    const [killed, suspended, ...others] = workers;
    killed!.signal("SIGKILL");
    suspended!.signal("SIGSTOP");
    const at = machineTime();
    await expect.poll(() => isBalancedOver(3), { timeout: 90_000, interval: 500 }).toBe(true);
    const takenOverInMs = machineTime() - at;
    suspended!.signal("SIGCONT");
    await expect.poll(() => isBalancedOver(4), { timeout: 90_000, interval: 500 }).toBe(true);
    for (const worker of [suspended!, ...others]) worker.send("stop");
    expect(await Promise.all([suspended!, ...others].map((worker) => worker.result))).toEqual([[], [], [], []]);

    const claims = claimsIn(log);
    expect(overlapsOf(claims, 1)).toEqual([]);
    expect(new Set(claims.map(({ resource }) => resource)).size).toBe(shards);
    expect(new Set(claims.map(({ pid }) => pid)).size).toBe(5);
    // On a quiet machine, a lease and a few intervals. The requests of a busy one take longer: this only notices a take-over that waits for something else.
    expect(takenOverInMs).toBeLessThan(2 * leaseInMs + 4 * intervalInMs);
    expect((await observer.inspect()).every(({ owner }) => owner === undefined)).toBe(true);
  }, 400_000);
});
