/* Three services take turns on one blob: only the holder of the lease can write. */
import { setTimeout as pause } from "node:timers/promises";
import { optimisticUpdate, textBlob, withLease } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";
import { Timeline } from "./support/timeline.js";

const services = ["billing", "shipping", "support"];

export const blobPessimistic: Sample = {
  name: "blob-pessimistic",
  title: "Taking turns on a blob",
  helper: "withLease",
  section: "docs/leases.md#quick-example",
  plan: "Three services want the same report for half a second each. An intruder writes without the lease.",
  lesson: "The service rejects every write without the lease. The lease is renewed while the function runs and released when it ends; if the lease is lost, lease.signal aborts.",
  async run(storage) {
    const container = await storage.container();
    const report = container.getBlockBlobClient("report.txt");
    await report.upload("written by", 10);
    const timeline = new Timeline([...services, "intruder"], {
      legend: { holds: "holds the lease", waits: "waits for it" },
      expectedInMs: 2_500,
    });

    /** Writes without the lease. Returns the code with which the service rejects it. */
    const intrude = async (): Promise<string> => {
      timeline.mark("intruder", "x");
      return report.upload("scribble", 8).then(
        () => "accepted",
        (error: unknown) => (error as { code: string }).code,
      );
    };
    const refusals = new Set<string>();
    const work = async (service: string): Promise<void> => {
      const blob = (await storage.container(container.containerName)).getBlockBlobClient("report.txt");
      timeline.set(service, "waits");
      await withLease(blob, async (lease) => {
        timeline.set(service, "holds");
        await pause(250, undefined, { signal: lease.signal });
        refusals.add(await intrude());
        await pause(250, undefined, { signal: lease.signal });
        await optimisticUpdate(textBlob(blob), (text) => `${text} ${service}`, { conditions: lease.conditions });
        timeline.set(service, "gone");
      });
    };
    await Promise.all(services.map(work));
    timeline.finish();
    say.trouble(`the service rejected each write of the intruder (x): ${[...refusals].join(", ")}`);

    const text = (await report.downloadToBuffer()).toString();
    check([...refusals].join() === "LeaseIdMissing", "a write without the lease is rejected");
    check(text.split(" ").slice(2).sort().join() === services.join(), "each service had its turn");
    return `the report contains "${text}"`;
  },
};

await runIfStarted(blobPessimistic, import.meta.url);
