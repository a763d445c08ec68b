/* Services edit one settings file on a share. Files have no If-Match: a lease keeps them apart. */
import { BlobLocks, ConcurrentFile } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Settings {
  theme: string;
  features: string[];
}

const path = "settings.json";

export const sharedSettingsFile: Sample = {
  name: "shared-settings-file",
  title: "A settings file on a share",
  helper: "ConcurrentFile",
  section: "docs/files.md#quick-example",
  plan: "Two services edit one JSON file at the same time: one the theme, the other the features.",
  lesson: "Files have no ETag conditions, and the lease of a file never expires. So a lock that does expire says who may work, and the lease of the file makes the storage enforce it: if a service dies, the next one can go on.",
  async run(storage) {
    const [share, container] = [await storage.share(), await storage.container()];
    const open = async (): Promise<ConcurrentFile<Settings>> => {
      const file = (await storage.share(share.name)).rootDirectoryClient.getFileClient(path);
      return new ConcurrentFile<Settings>(file, { crashGuard: new BlobLocks(await storage.container(container.containerName)) });
    };
    const [design, product] = [await open(), await open()];
    await design.createIfNotExists({ theme: "light", features: [] });

    await Promise.all([
      design.update((settings) => {
        settings.theme = "dark";
      }),
      ...["search", "export", "import"].map((feature) =>
        product.update((settings) => {
          settings.features.push(feature);
        }),
      ),
    ]);

    const { value } = await product.read();
    say.step(`theme ${value.theme}; features ${value.features.join(", ")}`);
    const refusal = await design.withLease(() =>
      share.rootDirectoryClient.getFileClient(path).setMetadata({ by: "an intruder" }).then(
        () => "none",
        (error: unknown) => (error as { code: string }).code,
      ),
    );
    say.trouble(`an intruder who writes during the work of another is refused: ${refusal}`);
    check(refusal === "LeaseIdMissing", "nobody writes without the lease");
    check(value.theme === "dark" && value.features.toSorted().join() === "export,import,search", "every change is there");
    return "4 changes by two services, and every one is there";
  },
};

await runIfStarted(sharedSettingsFile, import.meta.url);
