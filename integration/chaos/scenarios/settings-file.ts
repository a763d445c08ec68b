import { lockFailures, updateFailures } from "../expected-errors.js";
import type { Scenario } from "../scenario.js";
import { compare, count, countOn } from "./counter.js";
import type { Counts } from "./counter.js";

/** The lease of a file never expires, so that every holder that is killed would block the others for ever. */
export const settingsFile: Scenario = {
  name: "settings file",
  invariant: "every update is applied exactly once, none is seen half written, dead holders are taken over (leasedUpdate, crashGuard)",
  tasks: 1,
  expects: [...updateFailures, ...lockFailures],
  takesOver: true,
  prepare: async ({ share }) => {
    const text = JSON.stringify({ total: 0, tasks: "{}" });
    const file = share.rootDirectoryClient.getFileClient("settings.json");
    await file.create(text.length);
    await file.uploadRange(text, 0, text.length);
  },
  work: (task) => {
    const { BlobLocks, jsonFile, leasedUpdate } = task.library;
    const crashGuard = new BlobLocks(task.storage.container, { prefix: "guards/", defaults: { durationInSeconds: 15 } });
    const target = jsonFile<Counts>(task.storage.share.rootDirectoryClient.getFileClient("settings.json"));
    return countOn(task, () =>
      leasedUpdate(
        target,
        (draft) =>
          task.holding("file", async () => {
            count(draft, task.id);
            await task.mayFaint();
          }),
        { crashGuard, waitInMs: 4_000, timeoutInMs: 30_000 },
      ),
    );
  },
  check: async ({ share }, operationLog) => {
    const text = (await share.rootDirectoryClient.getFileClient("settings.json").downloadToBuffer()).toString();
    return compare("settings file", operationLog, JSON.parse(text) as Counts);
  },
};
