import { setTimeout as pause } from "node:timers/promises";

import { BlobLocks } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface ContenderConfig {
  readonly connectionString: string;
  readonly container: string;
  readonly callers: number;
  readonly holdInMs: number;
  readonly fair?: boolean;
}

/** One turn: when it was asked for, when it began, both by the clock that all processes of a machine share. */
export interface Turn {
  readonly askedAt: number;
  readonly at: number;
  readonly epoch: number;
}

/** Says that it is ready, competes from the first message to the second, and returns its turns. */
runWorker(async ({ connectionString, container, callers, holdInMs, fair }: ContenderConfig, parent) => {
  const locks = new BlobLocks(fastContainer(connectionString, container), { fair, defaults: { durationInSeconds: 15 } });
  const turns: Turn[] = [];
  let stopped = false;
  parent.send("ready");
  await parent.receive();
  const work = async (): Promise<void> => {
    while (!stopped) {
      const askedAt = Date.now();
      await locks.withLock("busy", async ({ epoch }) => {
        const turn = { askedAt, at: Date.now(), epoch };
        turns.push(turn);
        if (turns.length === 1) parent.send(turn);
        await pause(holdInMs);
      });
    }
  };
  const all = Promise.all(Array.from({ length: callers }, work));
  void parent.receive().then(() => (stopped = true));
  await all;
  return turns;
});
