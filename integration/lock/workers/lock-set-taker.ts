import { BlobLocks } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";
import { criticalSection, type MeetingPlace } from "./critical-section.js";

export interface LockSetConfig extends MeetingPlace {
  readonly connectionString: string;
  /** In the order in which this process names them. */
  readonly names: readonly string[];
  readonly sections: number;
}

/** Takes several locks at a time, two at a time. */
runWorker(async ({ connectionString, container: name, log, names, sections }: LockSetConfig) => {
  const container = fastContainer(connectionString, name);
  const locks = new BlobLocks(container);
  const work = async (worker: number): Promise<void> => {
    for (let section = 0; section < sections / 2; section++) {
      await locks.withLocks(names, (held) => {
        held.assertHeld();
        return criticalSection(container, log, `${held.get(names[0]!).epoch}:${process.pid}/${worker}/${section}`);
      });
    }
  };
  await Promise.all([work(0), work(1)]);
  return sections;
});
