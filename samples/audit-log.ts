/* Several processes append to one audit log, on a network that loses every fifth response. */
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
/** All lines are identical, so a duplicate cannot be recognised by its text. */
const line = "login alice\n";

/** The loop with the bare SDK: append at the end, and try again on 412. */
async function appendWithSdk(blob: AppendBlobClient): Promise<void> {
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
  title: "A log without gaps or duplicates",
  helper: "appendExactlyOnce",
  section: "docs/appends.md#append-logs",
  plan: `${records} logins are appended to a log, and one in five responses to a write is lost: first with a loop on the bare SDK, then by two processes with the library.`,
  lesson: "After a lost response, the caller cannot know whether its append was committed: all lines are identical. The library records a claim for each append, and finds it again: each line is appended exactly once.",
  async run(storage) {
    // Always on an emulator: the faults are injected by a proxy in front of it.
    const azurite = await storage.emulator();
    await using proxy = await startFaultProxy(azurite.blobUrl, [dropResponse({ when: isWrite, probability: 0.2 })]);
    const direct = new ContainerClient(azurite.connectionString, "audit-log");
    await direct.create();
    await direct.getAppendBlobClient("bare-sdk.log").create();
    // Separate clients share no requests, as if they belonged to separate processes.
    const open = (name: string): AppendBlobClient =>
      new ContainerClient(replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url }), "audit-log", {
        retryOptions: { retryDelayInMs: 10, maxRetryDelayInMs: 50 },
      }).getAppendBlobClient(name);
    const linesOf = async (name: string): Promise<number> =>
      (await direct.getAppendBlobClient(name).downloadToBuffer()).toString().split("\n").length - 1;

    const bareSdk = open("bare-sdk.log");
    await repeat(records, "logins with the bare SDK", () => appendWithSdk(bareSdk));
    const linesWithSdk = await linesOf("bare-sdk.log");
    say.trouble(`with the bare SDK, the log of ${records} logins has ${linesWithSdk} lines`);

    const [one, other] = [open("library.log"), open("library.log")];
    await Promise.all(
      Array.from({ length: records }, (_, n) => appendExactlyOnce(n % 2 === 0 ? one : other, line, { createIfNotExists: { contentType: "text/plain" } })),
    );
    const lines = await linesOf("library.log");
    check(linesWithSdk > records, "lost responses make a loop with the bare SDK append twice");
    check(lines === records, "each line is appended exactly once");
    return `with appendExactlyOnce, the log of ${records} logins has ${lines} lines`;
  },
};

await runIfStarted(auditLog, import.meta.url);
