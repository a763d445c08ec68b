import { BlobLocks, ReaderWriterLock } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { pause } from "../../support/pause.js";
import { runWorker } from "../../support/worker-process.js";

export interface ReaderWriterConfig {
  readonly connectionString: string;
  readonly container: string;
}

/** From when to when the lock was held, by the wall clock, which all processes of the machine share. */
export interface Visit {
  readonly kind: "reads" | "writes";
  readonly from: number;
  readonly to: number;
  readonly epoch?: number;
}

/** "read" and "write": acquire the lock, and keep it for ever. "stop": end with all visits. */
export type ReaderWriterCommand = Visit["kind"] | "stop";

/** How many visits of each kind a worker has made when it says that it is at work. */
const visitsAtWork = 3;

/** Three readers and a writer, all the time until it is stopped. Says once that they are at work. */
runWorker(async ({ connectionString, container }: ReaderWriterConfig, parent) => {
  const locks = new BlobLocks(fastContainer(connectionString, container), { defaults: { durationInSeconds: 15 } });
  const lock = new ReaderWriterLock(locks, "orders");
  const visits: Visit[] = [];
  let stopped = false;
  let isAtWork = false;
  const visited = (visit: Visit): void => {
    visits.push(visit);
    if (isAtWork || (["reads", "writes"] as const).some((kind) => visits.filter((other) => other.kind === kind).length < visitsAtWork)) return;
    isAtWork = true;
    parent.send("at work");
  };
  const read = async (): Promise<void> => {
    while (!stopped) {
      await lock.withReadLock(async () => {
        const from = Date.now();
        await pause(10 + Math.random() * 60);
        visited({ kind: "reads", from, to: Date.now() });
      });
      await pause(Math.random() * 50);
    }
  };
  const write = async (): Promise<void> => {
    while (!stopped) {
      await pause(Math.random() * 500);
      await lock.withWriteLock(async ({ epoch }) => {
        const from = Date.now();
        await pause(10 + Math.random() * 40);
        visited({ kind: "writes", from, to: Date.now(), epoch });
      });
    }
  };
  const working = Promise.all([read(), read(), read(), write()]);
  const command = await parent.receive<ReaderWriterCommand>();
  stopped = true;
  await working;
  if (command !== "stop") {
    await (command === "reads" ? lock.acquireReadLock() : lock.acquireWriteLock());
    parent.send({ visits, heldSince: Date.now() });
    await parent.receive<ReaderWriterCommand>();
  }
  return visits;
});
