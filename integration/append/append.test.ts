import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";

import { appendExactlyOnce } from "../../src/index.js";
import { dropResponse, isWrite, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshContainer } from "../support/clients.js";
import { startWorkers, type Worker } from "../support/workers.js";
import type { Appended, AppendJob } from "./workers/job.js";

let workers: Worker<never>[] = [];

beforeAll(async () => {
  const url = new URL("./workers/appender.ts", import.meta.url);
  workers = startWorkers<never>(url, Array<null>(4).fill(null), { timeoutInMs: 300_000 });
  await Promise.all(workers.map((worker) => worker.receive()));
});

afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
});

interface Scene {
  readonly appended: readonly (Appended & { readonly process: number })[];
  readonly text: string;
  readonly requests: number;
  readonly dropped: number;
}

/** Each of the 4 processes appends its lists to one blob, and a fifth of the answers to writes is lost. */
async function appendTogether(listsOf: (process: number) => string[][], rest: Pick<AppendJob, "uniqueRecords" | "coalesce">): Promise<Scene> {
  const proxy = await startFaultProxy(azurite().blobUrl, [dropResponse({ when: isWrite, probability: 0.2 })], { logLimit: 100_000 });
  onTestFinished(() => proxy.stop());
  const container = await freshContainer();
  const job = { connectionString: connectionString({ blobUrl: proxy.url }), container: container.containerName, blob: "log", ...rest };
  const reports = workers.map(async (worker, process) => {
    worker.send({ ...job, lists: listsOf(process) } satisfies AppendJob);
    return (await worker.receive<Appended[]>()).map((appended) => ({ ...appended, process }));
  });
  const appended = (await Promise.all(reports)).flat();
  const text = (await container.getAppendBlobClient("log").downloadToBuffer()).toString();
  return { appended, text, requests: proxy.requests, dropped: proxy.faultCount("drop-response") };
}

/** All that was told to be there is, each at a place of its own, and nothing else is but what nobody could know of. */
function expectEachOnce({ appended, text }: Scene): void {
  const known = appended.filter((one) => one.offset !== null).sort((a, b) => a.offset! - b.offset!);
  let end = 0;
  let unclaimed = 0;
  for (const { record, offset } of known) {
    expect(offset).toBeGreaterThanOrEqual(end);
    unclaimed += offset! - end;
    expect(text.slice(offset!, offset! + record.length)).toBe(record);
    end = offset! + record.length;
  }
  unclaimed += text.length - end;
  const unknown = appended.filter((one) => one.offset === null);
  // A process that stood still while the others appended 64 blocks cannot know; on a busy machine that happens, but rarely.
  expect(unknown.length).toBeLessThanOrEqual(appended.length / 20);
  expect(unclaimed).toBeLessThanOrEqual(unknown.reduce((sum, { record }) => sum + record.length, 0));
}

const lists = (process: number): string[][] =>
  Array.from({ length: 5 }, (_, list) => Array.from({ length: 50 }, (_, n) => `${process}/${list}/${n}\n`));

describe("4 processes, and a fifth of the answers to writes lost", () => {
  it.each([{ uniqueRecords: false }, { uniqueRecords: true }])("append 1,000 records, each once and in order ($uniqueRecords)", async ({ uniqueRecords }) => {
    const scene = await appendTogether(lists, { uniqueRecords, coalesce: true });
    expect(scene.appended).toHaveLength(1_000);
    expectEachOnce(scene);
    const lines = scene.text.trimEnd().split("\n");
    expect(new Set(lines).size).toBe(lines.length);
    if (uniqueRecords) expect(lines).toHaveLength(1_000);
    for (let process = 0; process < 4; process++) {
      for (let list = 0; list < 5; list++) {
        const own = lines.filter((line) => line.startsWith(`${process}/${list}/`)).map((line) => Number(line.split("/")[2]));
        expect(own).toEqual([...own].sort((a, b) => a - b));
      }
    }
    console.log(`1,000 records, uniqueRecords ${uniqueRecords}: ${scene.requests} requests, ${scene.dropped} answers lost`);
    expect(scene.dropped).toBeGreaterThan(10);
  }, 240_000);

  it("append 200 records that are all the same", async () => {
    const same = (): string[][] => Array.from({ length: 2 }, () => Array<string>(25).fill("tick\n"));
    const scene = await appendTogether(same, { uniqueRecords: false, coalesce: true });
    expect(scene.appended).toHaveLength(200);
    expectEachOnce(scene);
  });

  it("append 60 records that are all the same without sharing blocks", async () => {
    const same = (): string[][] => Array.from({ length: 3 }, () => Array<string>(5).fill("tick\n"));
    const scene = await appendTogether(same, { uniqueRecords: false, coalesce: false });
    expect(scene.appended).toHaveLength(60);
    expectEachOnce(scene);
  });
});

describe("one process on a network that works", () => {
  it("appends 1,000 records at once with a handful of requests", async () => {
    const proxy = await startFaultProxy(azurite().blobUrl);
    onTestFinished(() => proxy.stop());
    const container = await freshContainer({ through: proxy });
    const blob = container.getAppendBlobClient("log");
    const records = Array.from({ length: 1_000 }, (_, n) => `${n}\n`);
    const results = await Promise.all(records.map((record) => appendExactlyOnce(blob, record, { createIfNotExists: { contentType: "text/plain" } })));
    // A look, the making, a claim and a block.
    expect(proxy.requests).toBe(4);
    const properties = await blob.getProperties();
    expect(properties).toMatchObject({ contentType: "text/plain", blobCommittedBlockCount: 1 });
    expect((await blob.downloadToBuffer()).toString()).toBe(records.join(""));
    expect(results.at(-1)?.offset).toBe(records.slice(0, -1).join("").length);
  });

  it("knows the limits of a record and the type of a blob", async () => {
    const container = await freshContainer();
    await container.getBlockBlobClient("block").upload("x", 1);
    await expect(appendExactlyOnce(container.getAppendBlobClient("block"), "a")).rejects.toThrow("is a BlockBlob, not an append blob");
    const five = await appendExactlyOnce(container.getAppendBlobClient("large"), new Uint8Array(5 * 1024 * 1024), { createIfNotExists: true });
    expect(five).toMatchObject({ offset: 0, committedBlockCount: 1 });
    await expect(appendExactlyOnce(container.getAppendBlobClient("none"), "a")).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });
});
