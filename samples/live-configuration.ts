/* Every instance follows the settings while it runs: one writer, several watchers, no restart. */
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
  plan: "Two instances of a shop watch their settings. The blob does not exist at first; then the greeting changes, then the shop closes.",
  lesson: "No instance has to restart. While the settings do not change, a poll costs one response without content (304).",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("settings.json");

    /** One instance: uses the built-in settings while the blob does not exist. */
    const follow = async (name: string): Promise<string> => {
      let last = "";
      for await (const { value: settings = builtIn } of watch<Settings>(blob, { pollIntervalInMs: 100 })) {
        last = settings.isOpen ? `says ${JSON.stringify(settings.greeting)}` : "closes";
        say.step(`${name} ${last}`);
        if (!settings.isOpen) break; // ends the watch
      }
      return last;
    };
    const instances = Promise.all(["the first instance ", "the second instance"].map(follow));

    await pause(400);
    await optimisticUpdate<Settings>(blob, (settings) => void (settings.greeting = "Good morning"), { initial: builtIn });
    await pause(400);
    await optimisticUpdate<Settings>(blob, (settings) => void (settings.isOpen = false));
    check((await instances).every((last) => last === "closes"), "each instance gets the newest settings");
    return "both instances applied every change without a restart";
  },
};

await runIfStarted(liveConfiguration, import.meta.url);
