import type { AppendBlobClient } from "@azure/storage-blob";
import { describe, expect, it, onTestFinished } from "vitest";

import { appendExactlyOnce, blobMetadata, optimisticUpdate, overwrite, type AppendResult } from "../../src/index.js";
import { dropResponse, hang, isWrite, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer } from "../support/clients.js";
import { startWorker } from "../support/workers.js";
import type { RepeaterConfig } from "./workers/repeater.js";

describe("appends with an operationId", () => {
  it("are stored once although their processes are killed and repeat them", async () => {
    const proxy = await startFaultProxy(azurite().blobUrl, [dropResponse({ when: isWrite, probability: 0.1 })]);
    onTestFinished(() => proxy.stop());
    const container = await freshContainer();
    const ids = Array.from({ length: 60 }, (_, n) => `order-${n}`);
    const offsets = new Map<string, number>();
    const config: RepeaterConfig = { connectionString: connectionString({ blobUrl: proxy.url }), container: container.containerName, ids };
    const run = async (killAfter: number): Promise<void> => {
      const worker = startWorker<null>(new URL("./workers/repeater.ts", import.meta.url), config);
      try {
        for (let received = 0; received < killAfter; received++) {
          const { id, offset } = await worker.receive<{ id: string; offset: number }>();
          // A repeat gets the offset that an earlier process was told.
          expect(offsets.get(id) ?? offset).toBe(offset);
          offsets.set(id, offset);
        }
        if (killAfter === ids.length) await worker.result;
      } finally {
        await worker.stop();
      }
    };
    for (const killAfter of [3, 17, 38, ids.length]) await run(killAfter);

    const text = (await container.getAppendBlobClient("log").downloadToBuffer()).toString();
    expect(text.match(/<order-\d+>/g)?.sort()).toEqual(ids.map((id) => `<${id}>`).sort());
    for (const [id, offset] of offsets) expect(text.slice(offset, offset + id.length + 2)).toBe(`<${id}>`);
    expect(proxy.faultCount("drop-response")).toBeGreaterThan(0);
  });
});

describe("a repeat of an append after an update of the metadata", () => {
  it.each([
    ["optimisticUpdate", (blob: AppendBlobClient) => optimisticUpdate(blobMetadata(blob), () => ({ owner: "billing" }))],
    ["overwrite", (blob: AppendBlobClient) => overwrite(blobMetadata(blob), { owner: "billing" })],
  ])("is recognised: %s", async (_name, write) => {
    const log = (await freshContainer()).getAppendBlobClient("log");
    const first = await appendExactlyOnce(log, "<1>", { operationId: "order-1", createIfNotExists: true });
    await write(log);
    const repeat = await appendExactlyOnce(log, "<1>", { operationId: "order-1" });
    expect(repeat).toMatchObject({ offset: first.offset, attempts: 0 });
    expect((await log.downloadToBuffer()).toString()).toBe("<1>");
    expect((await log.getProperties()).metadata).toMatchObject({ owner: "billing" });
  });
});

describe("a request of an append that the network swallows", () => {
  it.each(["HEAD", "PUT"])("does not stop the calls that come after it: %s", async (method) => {
    const proxy = await startFaultProxy(azurite().blobUrl);
    onTestFinished(() => proxy.stop());
    const { containerName } = await freshContainer();
    const truth = containerClient(containerName).getAppendBlobClient("log");
    await truth.create();
    const blob = containerClient(containerName, { through: proxy }).getAppendBlobClient("log");
    proxy.rules = [hang({ when: (request) => request.method === method, times: 1 })];
    const calls: Promise<AppendResult>[] = [];
    for (let n = 0; n < 30; n++) {
      calls.push(appendExactlyOnce(blob, `<${n}>`, { timeoutInMs: 4_000 }));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(30);
    const text = (await truth.downloadToBuffer()).toString();
    expect(text.match(/<\d+>/g)?.length).toBe(30);
    expect(proxy.faultCount("hang")).toBe(1);
  });
});
