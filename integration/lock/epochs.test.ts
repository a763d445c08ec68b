import { expect, it, onTestFinished } from "vitest";

import { BlobLocks } from "../../src/index.js";
import { connectionString, freshContainer } from "../support/clients.js";
import { startWorker, type Worker } from "../support/workers.js";
import type { Command, EpochTakerConfig } from "./workers/epoch-taker.js";

const acquisitions = 200;

it("gives out strictly increasing epochs over 200 acquisitions by 4 processes that crash or have the lock taken away", async () => {
  const container = await freshContainer();
  const locks = new BlobLocks(container);
  const epochs: number[] = [];
  const count = { crashed: 0, broken: 0, missed: 0 };
  const config: EpochTakerConfig = { connectionString: connectionString(), container: container.containerName };
  const start = (): Worker<null> => {
    const worker = startWorker<null>(new URL("./workers/epoch-taker.ts", import.meta.url), config, { timeoutInMs: 100_000 });
    onTestFinished(() => worker.stop());
    return worker;
  };
  // As in a deployment the next ones are there before one of them crashes.
  const spare = [start(), start(), start()];

  /** Plays the part of whoever sees what the holder does. Whoever holds the lock waits for it. */
  const supervise = async (worker: Worker<null>): Promise<void> => {
    const answer = (command: Command): void => worker.send(command);
    answer("go");
    for (;;) {
      const epoch = await worker.receive<number>();
      epochs.push(epoch);
      const number = epochs.length;
      if (number >= acquisitions) {
        answer("stop");
        await worker.result;
        return;
      }
      if (number === 40 || number === 80 || number === 120) {
        await worker.stop();
        count.crashed++;
        // One of the crashed ones has its lease run out, the others are helped.
        if (number !== 80) expect(await locks.break("epochs", { expectedEpoch: epoch })).toBe(true);
        return supervise(spare.pop()!);
      }
      if (number % 15 === 0) {
        expect(await locks.break("epochs", { expectedEpoch: epoch })).toBe(true);
        count.broken++;
        answer("broken");
      } else {
        // Somebody looked at an earlier holder, and is too late. (One of the same reservation was in the same process.)
        if (number % 10 === 1 && number > 10) {
          const { epoch: first } = await locks.inspect("epochs");
          const former = epochs.findLast((earlier) => earlier < first!);
          if (former !== undefined) {
            expect(await locks.break("epochs", { expectedEpoch: former })).toBe(false);
            count.missed++;
          }
        }
        answer("release");
      }
    }
  };
  await Promise.all([start(), start(), start(), start()].map(supervise));

  expect(count).toMatchObject({ crashed: 3, broken: 12 });
  // At first, all holders may have been in one process.
  expect(count.missed).toBeGreaterThan(10);
  expect(epochs.length).toBeGreaterThanOrEqual(acquisitions);
  expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
  await using last = await locks.acquire("epochs");
  expect(last.epoch).toBeGreaterThan(epochs.at(-1)!);
});
