/* Somebody holds a lock and does not let go. Look who it is, and take it away from exactly that holder. */
import { BlobLocks, isLeaseUnavailableError } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const forceUnlock: Sample = {
  title: "A stuck lock",
  async run(storage) {
    const container = await storage.container();
    const stuck = await new BlobLocks(container, { holder: "billing-7 on host B" }).acquire("invoices", { durationInSeconds: Infinity });
    say.step(`"billing-7 on host B" took the lock "invoices" without an end, and hangs`);

    const locks = new BlobLocks(container, { holder: "billing-8 on host C" });
    try {
      await locks.acquire("invoices", { waitInMs: 500 });
    } catch (error) {
      if (!isLeaseUnavailableError(error)) throw error;
      say.warn(`we waited in vain: ${error.holder} has it`);
    }

    const seen = await locks.inspect("invoices");
    const broken = await locks.forceUnlock("invoices", { expectedEpoch: seen.epoch });
    say.step(`the lock that we looked at (epoch ${seen.epoch}) was ${broken ? "broken" : "gone by then"}`);
    await locks.withLock("invoices", (lock) => say.result(`we have it now, as holder number ${lock.epoch}`));
    await stuck.renew().catch((error: unknown) => say.step(`and the other one learns: ${(error as Error).message}`));
  },
};

await runIfStarted(forceUnlock, import.meta.url);
