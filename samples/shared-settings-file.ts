/* Two services change one settings file on a share. Files have no If-Match: the lease of the file excludes a second writer. */
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
  plan: "Two services change one JSON file at the same time: one the theme, the other the features.",
  lesson: "Files have no ETag conditions, and the lease of a file never expires. A lock that does expire (the crash guard) decides which service may write, and the lease of the file makes the service enforce it. If a holder crashes, the next one takes over its lease.",
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
        () => "accepted",
        (error: unknown) => (error as { code: string }).code,
      ),
    );
    say.trouble(`the service rejects a write of an intruder while another client holds the lease: ${refusal}`);
    check(refusal === "LeaseIdMissing", "a write without the lease is rejected");
    check(value.theme === "dark" && value.features.toSorted().join() === "export,import,search", "no change is lost");
    return "4 changes by two services, and none was lost";
  },
};

await runIfStarted(sharedSettingsFile, import.meta.url);
