/* An audit log that many processes append to, on a network that loses every fifth answer. */
import { ContainerClient } from "@azure/storage-blob";
import type { AppendBlobClient } from "@azure/storage-blob";
import { appendExactly } from "azure-storage-concurrency";
import { dropAnswer, isWrite, replaceEndpoints, startAzurite, startFaultProxy } from "azure-storage-concurrency/testing";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

const records = 100;

/** What one would write by hand: append at the end, and again on 412. */
async function appendByHand(blob: AppendBlobClient, line: string): Promise<void> {
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
  title: "An audit log",
  async run() {
    // Always on an emulator of its own: nobody wants a real account behind a broken network.
    await using azurite = await startAzurite();
    await using proxy = await startFaultProxy(azurite.blobUrl, [dropAnswer({ when: isWrite, probability: 0.2 })]);
    const direct = new ContainerClient(azurite.connectionString, "logs");
    await direct.create();
    await direct.getAppendBlobClient("by-hand.log").create();
    // Clients of their own share nothing, as those of several processes.
    const open = (): ContainerClient =>
      new ContainerClient(replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url }), "logs", {
        retryOptions: { retryDelayInMs: 10, maxRetryDelayInMs: 50 },
      });

    say.step(`${records} logins, all of the same user and so all the same line, while 20 % of the answers to writes get lost`);
    const line = "login alice\n";
    for (let i = 0; i < records; i++) await appendByHand(open().getAppendBlobClient("by-hand.log"), line);
    const [one, other] = [open().getAppendBlobClient("ours.log"), open().getAppendBlobClient("ours.log")];
    await Promise.all(
      Array.from({ length: records }, (_, i) => appendExactly(i % 2 === 0 ? one : other, line, { createIfMissing: { contentType: "text/plain" } })),
    );

    const linesOf = async (name: string): Promise<number> =>
      (await direct.getAppendBlobClient(name).downloadToBuffer()).toString().split("\n").length - 1;
    say.warn(`appended by hand, the log has ${await linesOf("by-hand.log")} lines`);
    say.result(`appended by appendExactly, it has ${await linesOf("ours.log")}`);
  },
};

await runIfStarted(auditLog, import.meta.url);
