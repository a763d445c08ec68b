import type { PageBlobClient } from "@azure/storage-blob";
import { describe, expect, it, onTestFinished } from "vitest";

import { claimPages } from "../../src/index.js";
import { dropResponse, startFaultProxy } from "../../src/testing.js";
import { azurite, freshContainer } from "../support/clients.js";
import { fastContainer } from "../support/fast-clients.js";
import { connectionString } from "../support/clients.js";

async function freshDisk(): Promise<PageBlobClient> {
  const blob = (await freshContainer()).getPageBlobClient("disk");
  await blob.create(16 * 1024, { blobHTTPHeaders: { blobContentType: "application/x-disk" } });
  return blob;
}

const page = (value: number, count = 1): Uint8Array => new Uint8Array(count * 512).fill(value);

const firstBytes = async (blob: PageBlobClient, pages: number): Promise<number[]> => {
  const content = await blob.downloadToBuffer();
  return Array.from({ length: pages }, (_, n) => content[n * 512] ?? -1);
};

describe("page writes under a sequence number", () => {
  it("are refused once somebody else has claimed the blob", async () => {
    const blob = await freshDisk();
    const old = await claimPages(blob);
    await old.write(0, page(1, 2));
    const successor = await claimPages(blob);
    await expect(old.write(0, page(9))).rejects.toMatchObject({ name: "FencedError", epoch: 1, fencedBy: 2 });
    await expect(old.clear(0, 512)).rejects.toMatchObject({ name: "FencedError" });
    await successor.write(512, page(2));
    expect(await firstBytes(blob, 3)).toEqual([1, 2, 0]);
    expect((await blob.getProperties()).contentType).toBe("application/x-disk");
  });

  it("of one of many that claim at the same time get through, and only of that one", async () => {
    const blob = await freshDisk();
    const writers = await Promise.all(Array.from({ length: 12 }, () => claimPages(blob)));
    expect(new Set(writers.map((writer) => writer.sequenceNumber)).size).toBe(12);
    const outcomes = await Promise.allSettled(writers.map((writer, n) => writer.write(0, page(n + 1))));
    const last = writers.findIndex((writer) => writer.sequenceNumber === 12);
    expect(outcomes.map((outcome) => outcome.status === "fulfilled")).toEqual(writers.map((_, n) => n === last));
    expect(await firstBytes(blob, 1)).toEqual([last + 1]);
  });

  it("go on after lost answers, under a number that shuts out what is still on its way", async () => {
    const blob = await freshDisk();
    const proxy = await startFaultProxy(azurite().blobUrl, [dropResponse({ when: ({ method }) => method === "PUT", probability: 0.3 })]);
    onTestFinished(() => proxy.stop());
    const through = fastContainer(connectionString({ blobUrl: proxy.url }), blob.containerName).getPageBlobClient("disk");
    const writer = await claimPages(through);
    for (let n = 1; n <= 40; n++) await writer.write(((n - 1) % 8) * 512, page(n));
    expect(proxy.faultCount()).toBeGreaterThan(3);
    expect(await firstBytes(blob, 8)).toEqual([33, 34, 35, 36, 37, 38, 39, 40]);
    expect((await blob.getProperties()).blobSequenceNumber).toBe(writer.sequenceNumber);
    await claimPages(blob);
    await expect(writer.write(0, page(99))).rejects.toMatchObject({ name: "FencedError" });
  });

  it("larger than 4 MiB are several requests", async () => {
    const blob = (await freshContainer()).getPageBlobClient("large");
    await blob.create(8 * 1024 * 1024);
    const writer = await claimPages(blob);
    await writer.write(512, new Uint8Array(5 * 1024 * 1024).fill(3));
    const content = await blob.downloadToBuffer();
    expect([content[511], content[512], content[512 + 5 * 1024 * 1024 - 1], content[512 + 5 * 1024 * 1024]]).toEqual([0, 3, 3, 0]);
  });
});
