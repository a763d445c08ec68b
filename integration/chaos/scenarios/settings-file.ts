import type { Scenario } from "../scenario.js";
import { compare, count, countOn } from "./counter.js";
import type { Counts } from "./counter.js";

/** The lease of a file never expires, so that every holder that is killed would block the others for ever. */
export const settingsFile: Scenario = {
  name: "settings file",
  invariant: "every update is applied exactly once, none is seen half written, dead holders are taken over (leasedUpdate, crashGuard)",
  lanes: 1,
  prepare: async ({ share }) => {
    const text = JSON.stringify({ total: 0, lanes: "{}" });
    const file = share.rootDirectoryClient.getFileClient("settings.json");
    await file.create(text.length);
    await file.uploadRange(text, 0, text.length);
  },
  work: (lane) => {
    const { BlobLocks, jsonFile, leasedUpdate } = lane.library;
    const crashGuard = new BlobLocks(lane.storage.container, { prefix: "guards/", defaults: { durationInSeconds: 15 } });
    const target = jsonFile<Counts>(lane.storage.share.rootDirectoryClient.getFileClient("settings.json"));
    return countOn(lane, () =>
      leasedUpdate(
        target,
        async (draft) => {
          count(draft, lane.id);
          await lane.mayFaint();
        },
        { crashGuard, waitInMs: 4_000, timeoutInMs: 30_000 },
      ),
    );
  },
  check: async ({ share }, ledger) => {
    const text = (await share.rootDirectoryClient.getFileClient("settings.json").downloadToBuffer()).toString();
    return compare("settings file", ledger, JSON.parse(text) as Counts);
  },
};
