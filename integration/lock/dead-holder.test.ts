/** Holders that end, or stand still, without a word. The tests wait for the server's clock, all at the same time. */
import type { ContainerClient } from "@azure/storage-blob";
import { describe, expect, it, type TestContext } from "vitest";

import { acquireLease, BlobLocks } from "../../src/index.js";
import { connectionString, freshContainer } from "../support/clients.js";
import { startWorker, type Worker } from "../support/workers.js";
import type { Awakening, HolderConfig } from "./workers/holder.js";

const leaseInMs = 15_000;

async function startHolder(
  container: ContainerClient,
  { onTestFinished }: TestContext,
): Promise<{ holder: Worker<Awakening>; epoch: number }> {
  const config: HolderConfig = { connectionString: connectionString(), container: container.containerName };
  const holder = startWorker<Awakening>(new URL("./workers/holder.ts", import.meta.url), config, { timeoutInMs: 90_000 });
  onTestFinished(() => holder.stop());
  const { epoch } = await holder.receive<{ epoch: number }>();
  return { holder, epoch };
}

describe.concurrent("a holder", () => {
  it("that is killed is succeeded within the lease's duration and 2 s", async (test) => {
    const container = await freshContainer();
    const locks = new BlobLocks(container);
    const { holder, epoch } = await startHolder(container, test);
    const waiting = locks.acquire("crash");
    expect(await locks.inspect("crash")).toMatchObject({ state: "leased", holder: expect.stringContaining(`/${holder.pid}/`) as string });
    await holder.stop();
    const killedAt = performance.now();
    await using next = await waiting;
    expect(performance.now() - killedAt).toBeLessThan(leaseInMs + 2_000);
    expect(next.epoch).toBeGreaterThan(epoch);
  });

  it("that is stopped for longer than its lease knows of the loss as soon as it goes on, and is refused by the storage", async (test) => {
    const container = await freshContainer();
    const { holder } = await startHolder(container, test);
    holder.signal("SIGSTOP");
    // The service lets an expired lease go on if nobody has come since: so somebody has to.
    const successors = await Promise.all(["a", "b"].map((name) => acquireLease(container.getBlockBlobClient(name))));
    const resumedAt = Date.now();
    holder.signal("SIGCONT");
    const { at, reason, ...awakening } = await holder.result;
    expect(at).toBeGreaterThanOrEqual(resumedAt);
    expect(awakening).toEqual({ firstAssertHeld: "LeaseLostError", abortedInNextTurn: true, writes: [412, 412] });
    expect(["expired", "unreachable"]).toContain(reason); // the latter if it was stopped in the middle of a renewal
    for (const successor of successors) {
      successor.assertHeld();
      await successor.release();
    }
  });
});
