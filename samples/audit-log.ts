/* An audit log that several processes append to, on a network that loses every fifth answer. */
import { ContainerClient } from "@azure/storage-blob";
import type { AppendBlobClient } from "@azure/storage-blob";
import { appendExactlyOnce } from "azure-storage-concurrency";
import { dropResponse, isWrite, replaceEndpoints, startFaultProxy } from "azure-storage-concurrency/testing";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { repeat } from "./support/progress.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

const records = 100;
/** All of the same user, and so all the same: a line that is there twice cannot be told by its text. */
const line = "login alice\n";

/** What one would write by hand: append at the end, and again on 412. */
async function appendByHand(blob: AppendBlobClient): Promise<void> {
  for (;;) {
    const { contentLength } = await blob.getProperties();
    try {
      await blob.appendBlock(line, line.length, { conditions: { appendPosition: contentLength! } });
      return;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 412) throw error;
    }
  }
}

export const auditLog: Sample = {
  name: "audit-log",
  title: "A log without gaps and doubles",
  helper: "appendExactlyOnce",
  section: "docs/appends.md#append-logs",
  plan: `${records} logins are appended to a log, while one in five answers to a write gets lost: first by a loop, then by two processes with the library.`,
  lesson: "An append whose answer was lost cannot be told from one that never arrived, as all lines look alike. The library makes them tell: each line is there, and once.",
  async run(storage) {
    // Always on an emulator: nobody wants a real account behind a broken network.
    const azurite = await storage.emulator();
    await using proxy = await startFaultProxy(azurite.blobUrl, [dropResponse({ when: isWrite, probability: 0.2 })]);
    const direct = new ContainerClient(azurite.connectionString, "audit-log");
    await direct.create();
    await direct.getAppendBlobClient("by-hand.log").create();
    // Clients of their own share nothing, as those of several processes.
    const open = (name: string): AppendBlobClient =>
      new ContainerClient(replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url }), "audit-log", {
        retryOptions: { retryDelayInMs: 10, maxRetryDelayInMs: 50 },
      }).getAppendBlobClient(name);
    const linesOf = async (name: string): Promise<number> =>
      (await direct.getAppendBlobClient(name).downloadToBuffer()).toString().split("\n").length - 1;

    const byHand = open("by-hand.log");
    await repeat(records, "logins by hand", () => appendByHand(byHand));
    const linesByHand = await linesOf("by-hand.log");
    say.trouble(`appended by hand, the log of ${records} logins has ${linesByHand} lines`);

    const [one, other] = [open("ours.log"), open("ours.log")];
    await Promise.all(
      Array.from({ length: records }, (_, n) => appendExactlyOnce(n % 2 === 0 ? one : other, line, { createIfNotExists: { contentType: "text/plain" } })),
    );
    const lines = await linesOf("ours.log");
    check(linesByHand > records, "lost answers make a plain loop append twice");
    check(lines === records, "each line is appended exactly once");
    return `with appendExactlyOnce, ${records} logins are ${lines} lines`;
  },
};

await runIfStarted(auditLog, import.meta.url);
