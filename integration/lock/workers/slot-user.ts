import { BlobLocks, Semaphore } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { pause } from "../../support/pause.js";
import { runWorker } from "../../support/worker-process.js";

export interface SlotUserConfig {
  readonly connectionString: string;
  readonly container: string;
  readonly slots: number;
  readonly workers: number;
}

/** From when to when a slot was held, by the wall clock, which all processes of the machine share. */
export interface Stay {
  readonly from: number;
  readonly to: number;
}

/** "hold": keep a slot for ever, and say since when. "stop": end with all stays. */
export type SlotCommand = "hold" | "stop";

/** Uses the slots all the time until it is stopped. */
runWorker(async ({ connectionString, container, slots, workers }: SlotUserConfig, parent) => {
  const locks = new BlobLocks(fastContainer(connectionString, container), { defaults: { durationInSeconds: 15 } });
  const semaphore = new Semaphore(locks, "exports", slots);
  const stays: Stay[] = [];
  let stopped = false;
  const work = async (): Promise<void> => {
    while (!stopped) {
      await semaphore.withSlot(async () => {
        const from = Date.now();
        await pause(20 + Math.random() * 80);
        stays.push({ from, to: Date.now() });
      });
      // Those who wait elsewhere have to have a chance.
      await pause(Math.random() * 200);
    }
  };
  const working = Promise.all(Array.from({ length: workers }, work));
  if ((await parent.receive<SlotCommand>()) === "hold") {
    stopped = true;
    await working;
    await semaphore.acquire();
    parent.send({ stays, heldSince: Date.now() });
    await parent.receive<SlotCommand>();
  }
  stopped = true;
  await working;
  return stays;
});
