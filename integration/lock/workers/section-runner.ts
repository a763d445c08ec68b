import { BlobLocks } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { pause } from "../../support/pause.js";
import { runWorker } from "../../support/worker-process.js";
import { criticalSection, type MeetingPlace } from "./critical-section.js";

export interface SectionConfig extends MeetingPlace {
  readonly connectionString: string;
  readonly workers: number;
  readonly sections: number;
}

/** Runs critical sections under a lock. */
runWorker(async ({ connectionString, container, log, workers, sections }: SectionConfig) => {
  const shared = fastContainer(connectionString, container);
  let done = 0;
  const work = async (worker: number): Promise<void> => {
    // Those with the same client hand the lock on to each other; one with a client of its own has to get it from the
    // storage each time, against all others, and pauses so that it is not the next one as well.
    const alone = worker % 4 === 0;
    const own = alone ? fastContainer(connectionString, container) : shared;
    const locks = new BlobLocks(own, { defaults: { durationInSeconds: 60 } });
    for (let section = worker; section < sections; section += workers) {
      await locks.withLock("counter", (lock) => criticalSection(own, log, `${lock.epoch}:${process.pid}/${worker}/${section}`));
      done++;
      if (alone) await pause(Math.random() * 100);
    }
  };
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
  return done;
});
