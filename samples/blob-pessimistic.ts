/* Three services take turns on one blob: who has the lease writes, and nobody else can. */
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
  plan: "Three services want the same report for half a second each. An intruder writes without asking.",
  lesson: "The storage itself refuses whoever does not have the lease. It is renewed while the work goes on and given back when it ends; if it is lost, lease.signal aborts.",
  async run(storage) {
    const container = await storage.container();
    const report = container.getBlockBlobClient("report.txt");
    await report.upload("written by", 10);
    const timeline = new Timeline([...services, "intruder"], {
      legend: { holds: "has the lease", waits: "waits for it" },
      expectedInMs: 2_500,
    });

    /** Writes without asking; gives back how that was refused. */
    const intrude = async (): Promise<string> => {
      timeline.mark("intruder", "x");
      return report.upload("scribble", 8).then(
        () => "not at all",
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
    say.trouble(`the intruder (x) was refused each time: ${[...refusals].join(", ")}`);

    const text = (await report.downloadToBuffer()).toString();
    check([...refusals].join() === "LeaseIdMissing", "nobody writes without the lease");
    check(text.split(" ").slice(2).sort().join() === services.join(), "each service had its turn");
    return `the report says "${text}"`;
  },
};

await runIfStarted(blobPessimistic, import.meta.url);
