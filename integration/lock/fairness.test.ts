/** How processes share a lock. Real time, bounded: what a loaded machine makes slower does not change the shares. */
import type { ContainerClient } from "@azure/storage-blob";
import { describe, expect, it, type TestContext } from "vitest";

import { BlobLocks } from "../../src/index.js";
import { connectionString, containerClient, freshContainer } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorkers, type Worker } from "../support/workers.js";
import type { ContenderConfig, Turn } from "./workers/contender.js";

type Contender = Worker<Turn[]>;

async function startContenders(
  container: ContainerClient,
  { onTestFinished }: TestContext,
  processes: number,
  options: Pick<ContenderConfig, "callers" | "holdInMs" | "fair">,
): Promise<Contender[]> {
  const config: ContenderConfig = { connectionString: connectionString(), container: container.containerName, ...options };
  const file = new URL("./workers/contender.ts", import.meta.url);
  const contenders = startWorkers<Turn[]>(file, Array.from({ length: processes }, () => config), { timeoutInMs: 120_000 });
  onTestFinished(async () => {
    await Promise.all(contenders.map((worker) => worker.stop()));
  });
  await Promise.all(contenders.map((worker) => worker.receive()));
  return contenders;
}

function begin(contenders: readonly Contender[]): void {
  for (const worker of contenders) worker.send("begin");
}

/** The turns of each process. The epochs of all of them grow in the order of time. */
async function end(contenders: readonly Contender[]): Promise<Turn[][]> {
  for (const worker of contenders) worker.send("end");
  const turns = await Promise.all(contenders.map((worker) => worker.result));
  const epochs = turns.flat().sort((a, b) => a.at - b.at || a.epoch - b.epoch).map(({ epoch }) => epoch);
  expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
  return turns;
}

/**
 * Until so many processes have held the lock so often, which each of them hands over within itself for a second. On a machine with other
 * work, that takes longer: with a fixed time, the shares of a few turns would be left to chance.
 */
async function untilHeldBy(container: ContainerClient, processes: number, times: number): Promise<void> {
  const locks = new BlobLocks(container);
  const held = new Map<string, number>();
  let last: string | undefined;
  const until = Date.now() + 60_000;
  while (Date.now() < until && [...held.values()].filter((count) => count >= times).length < processes) {
    const { holder } = await locks.inspect("busy");
    if (holder !== undefined && holder !== last) held.set(holder, (held.get(holder) ?? 0) + 1);
    last = holder;
    await pause(100);
  }
}

const counts = (turns: readonly Turn[][]): number[] => turns.map(({ length }) => length);

describe("processes that compete for a lock", () => {
  it("of 8 callers with sections of 1 ms each have about the same share", { timeout: 120_000 }, async (test) => {
    const container = await freshContainer();
    const contenders = await startContenders(container, test, 4, { callers: 8, holdInMs: 1 });
    begin(contenders);
    await untilHeldBy(container, 4, 4);
    const turns = await end(contenders);
    const shares = counts(turns);
    const total = shares.reduce((sum, count) => sum + count);
    expect(Math.min(...shares), shares.join()).toBeGreaterThan(total / 4 / 3);
    expect(Math.max(...turns.flat().map(({ askedAt, at }) => at - askedAt))).toBeLessThan(20_000);
  });

  it("with one caller each and sections of a second take turns", { timeout: 120_000 }, async (test) => {
    const contenders = await startContenders(await freshContainer(), test, 2, { callers: 1, holdInMs: 1_000 });
    begin(contenders.slice(0, 1));
    await pause(5_000);
    begin(contenders.slice(1));
    await contenders[1]!.receive();
    await pause(15_000);
    const [first = [], second = []] = await end(contenders);
    // It waited for one section, or two, and not for the end of the loop.
    expect(second[0]!.at - second[0]!.askedAt).toBeLessThan(5_000);
    const since = first.filter(({ at }) => at > second[0]!.at);
    expect(Math.min(since.length, second.length), `${since.length}, ${second.length}`).toBeGreaterThan(Math.max(since.length, second.length) / 2);
  });

  it("are served in the order in which they came, if the lock is fair", { timeout: 60_000 }, async () => {
    const container = await freshContainer();
    const { containerName } = container;
    const tickets = container.getAppendBlobClient("locks/busy.tickets");
    // Clients of their own share nothing, as those of several processes.
    const processes = Array.from({ length: 4 }, () => new BlobLocks(containerClient(containerName), { fair: true }));
    const holder = await processes[0]!.acquire("busy");
    const order: number[] = [];
    const all: Promise<void>[] = [];
    for (let i = 0; i < 20; i++) {
      all.push(processes[i % 4]!.withLock("busy", () => void order.push(i)));
      // Until it has drawn its ticket; the holder has the first.
      while ((await tickets.getProperties()).blobCommittedBlockCount! < i + 2) await pause(10);
    }
    await holder.release();
    await Promise.all(all);
    expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  it("of a fair lock have the same share", { timeout: 120_000 }, async (test) => {
    const contenders = await startContenders(await freshContainer(), test, 4, { callers: 2, holdInMs: 5, fair: true });
    begin(contenders);
    await Promise.all(contenders.map((worker) => worker.receive()));
    await pause(15_000);
    const shares = counts(await end(contenders));
    expect(Math.max(...shares) / Math.min(...shares), shares.join()).toBeLessThan(1.5);
  });
});

describe.each([false, true])("a process that is killed, fair: %s", (fair) => {
  const leaseInMs = 15_000;

  it("while it waits costs the others a few seconds", { timeout: 60_000 }, async (test) => {
    const container = await freshContainer();
    const locks = new BlobLocks(container, { fair });
    const holder = await locks.acquire("busy");
    const victims = await startContenders(container, test, 3, { callers: 1, holdInMs: 1, fair });
    begin(victims);
    await pause(2_000);
    const waiting = new BlobLocks(containerClient(container.containerName), { fair }).acquire("busy");
    await pause(1_000);
    await Promise.all(victims.map((worker) => worker.stop()));
    const releasedAt = performance.now();
    await holder.release();
    const next = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(15_000);
    expect(next.epoch).toBeGreaterThan(holder.epoch);
    await next.release();
  });

  it("while it holds the lock costs its lease and a few seconds, with several waiters", { timeout: 60_000 }, async (test) => {
    const container = await freshContainer();
    const [victim] = await startContenders(container, test, 1, { callers: 4, holdInMs: 600_000, fair });
    begin([victim!]);
    const { epoch } = await victim!.receive<Turn>();
    const waiting = Array.from({ length: 3 }, () => new BlobLocks(containerClient(container.containerName), { fair }).withLock("busy", (lock) => lock.epoch));
    await pause(1_000);
    await victim!.stop();
    const killedAt = performance.now();
    const epochs = await Promise.all(waiting);
    expect(performance.now() - killedAt).toBeLessThan(leaseInMs + 8_000);
    expect(Math.min(...epochs)).toBeGreaterThan(epoch);
    expect(new Set(epochs).size).toBe(3);
  });
});
