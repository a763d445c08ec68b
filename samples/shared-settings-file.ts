/* Two services edit one settings file on a share. Files have no If-Match: a lease keeps the two apart. */
import { BlobLocks, ConcurrentFile } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Settings {
  theme: string;
  features: string[];
}

export const sharedSettingsFile: Sample = {
  title: "A settings file that two services edit",
  async run(storage) {
    const share = await storage.share();
    const file = share.rootDirectoryClient.getFileClient("settings.json");
    // The lease of a file never expires. The locks do: with them, the next one can go on if a service dies.
    const crashGuard = new BlobLocks(await storage.container());
    const serviceA = new ConcurrentFile<Settings>(file, { crashGuard });
    const serviceB = new ConcurrentFile<Settings>(file, { crashGuard });

    await serviceA.createIfAbsent({ theme: "light", features: [] });
    say.step("the file is there, and both services change it at the same time");
    await Promise.all([
      serviceA.update((settings) => {
        settings.theme = "dark";
      }),
      ...["search", "export", "import"].map((feature) =>
        serviceB.update((settings) => {
          settings.features.push(feature);
        }),
      ),
    ]);

    const unchanged = await serviceA.update((settings) => {
      settings.theme = "dark";
    });
    say.step(`the theme is set once more: ${unchanged.outcome}, so nothing is written`);
    try {
      await serviceB.withLease(() => file.setMetadata({ by: "somebody without the lease" }));
    } catch (error) {
      say.warn(`somebody without the lease tries to write: ${(error as { statusCode?: number }).statusCode} ${(error as { code?: string }).code}`);
    }
    const { value } = await serviceB.read();
    say.result(`theme ${value.theme}, features ${value.features.toSorted().join(", ")}: every change is there`);
  },
};

await runIfStarted(sharedSettingsFile, import.meta.url);
