/* Settings that every instance follows while it runs: one writer, many watchers, no restart. */
import { setTimeout as pause } from "node:timers/promises";
import { optimisticUpdate, watch } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Settings {
  greeting: string;
  isOpen: boolean;
}

const builtIn: Settings = { greeting: "Hello", isOpen: true };

export const liveConfiguration: Sample = {
  name: "live-configuration",
  title: "Settings that change while services run",
  helper: "watch",
  section: "docs/reads.md#watching-a-value",
  plan: "Two instances of a shop follow their settings. There are none at first; then the greeting changes, then the shop closes.",
  lesson: "Nobody has to restart, and nobody reads what has not changed: as long as the settings stay the same, a look costs one empty answer (304).",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("settings.json");

    /** One instance: goes on with the built-in settings as long as there are no others. */
    const follow = async (name: string): Promise<string> => {
      let last = "";
      for await (const { value: settings = builtIn } of watch<Settings>(blob, { pollIntervalInMs: 100 })) {
        last = settings.isOpen ? `says ${JSON.stringify(settings.greeting)}` : "closes";
        say.step(`${name} ${last}`);
        if (!settings.isOpen) break; // which ends the watch
      }
      return last;
    };
    const instances = Promise.all(["the first instance ", "the second instance"].map(follow));

    await pause(400);
    await optimisticUpdate<Settings>(blob, (settings) => void (settings.greeting = "Good morning"), { initial: builtIn });
    await pause(400);
    await optimisticUpdate<Settings>(blob, (settings) => void (settings.isOpen = false));
    check((await instances).every((last) => last === "closes"), "each instance comes to the newest settings");
    return "both instances followed, without a restart";
  },
};

await runIfStarted(liveConfiguration, import.meta.url);
