/* A process holds a lock and does not release it. Inspect the holder, and break the lock of exactly that holder. */
import { BlobLocks, isConcurrencyError } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const breakLock: Sample = {
  name: "break-lock",
  title: "A lock that is not released",
  helper: "BlobLocks.break",
  section: "docs/locks.md#named-locks",
  plan: "A service took a lock without an end and hangs. Find out who it is, and take the lock away.",
  lesson: "A lock knows its holder and counts its holders. Only the lock of the holder that was inspected is broken: had another process acquired it in the meantime, nothing would have happened to the new holder.",
  async run(storage) {
    const container = await storage.container();
    const stuck = await new BlobLocks(container, { holder: "billing-7" }).acquire("invoices", { durationInSeconds: Infinity });

    const locks = new BlobLocks(await storage.container(container.containerName), { holder: "billing-8" });
    const holder = await locks.acquire("invoices", { waitInMs: 500 }).then(
      () => undefined,
      (error: unknown) => {
        if (!isConcurrencyError(error, "LEASE_UNAVAILABLE")) throw error;
        return error.holder;
      },
    );
    say.trouble(`billing-8 cannot acquire "invoices": ${holder} holds it`);

    const seen = await locks.inspect("invoices");
    const broken = await locks.break("invoices", { expectedEpoch: seen.epoch });
    say.step(`the lock of its holder number ${seen.epoch} is ${broken ? "broken" : "gone already"}`);
    const epoch = await locks.withLock("invoices", async (lock) => {
      const loss = await stuck.renew().then(
        () => undefined,
        (error: unknown) => error,
      );
      check(isConcurrencyError(loss, "LEASE_LOST"), "the old holder learns of its loss");
      say.step(`billing-7 wakes up, and learns that its lock is ${loss.reason}`);
      return lock.epoch;
    });

    check(holder === "billing-7" && broken, "the holder is known, and its lock can be broken");
    check(epoch > stuck.epoch, "each holder has a higher number than all before");
    return `billing-8 got the lock, as holder number ${epoch}`;
  },
};

await runIfStarted(breakLock, import.meta.url);
