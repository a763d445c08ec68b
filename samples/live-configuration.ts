/* Settings that every instance follows while it runs: one writer, many watchers, no restart. */
import { optimisticUpdate, watch } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Settings {
  greeting: string;
  isOpen: boolean;
}

const builtIn: Settings = { greeting: "Hello", isOpen: true };

export const liveConfiguration: Sample = {
  title: "Live configuration",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("settings.json");

    /** One instance of a service: goes on with the built-in settings as long as there are no others. */
    const instance = async (name: string): Promise<void> => {
      for await (const { value: settings = builtIn } of watch<Settings>(blob, { intervalInMs: 100 })) {
        say.step(`${name}: ${settings.isOpen ? `says ${JSON.stringify(settings.greeting)}` : "closes"}`);
        if (!settings.isOpen) return; // which ends the watch
      }
    };
    const instances = Promise.all(["first instance ", "second instance"].map(instance));

    const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 400));
    await pause();
    await optimisticUpdate<Settings>(blob, (settings) => void (settings.greeting = "Good morning"), { initial: builtIn });
    await pause();
    await optimisticUpdate<Settings>(blob, (settings) => void (settings.isOpen = false));
    await instances;
    say.result("both followed each change; as long as nothing changed, a look cost one empty answer (304)");
  },
};

await runIfStarted(liveConfiguration, import.meta.url);
