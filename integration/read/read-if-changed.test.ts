import type { BlockBlobClient } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { blobHttpHeaders, blobMetadata, blobTags, CommitUnknownError, OperationTimeoutError, jsonBlob, overwrite, readIfChanged, readTarget, type Target, tryReadTarget } from "../../src/index.js";
import { type FaultProxy, hang, isRead, isWrite, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";
import { type Doc, kinds, subjectOf } from "../update/subjects.js";

describe("readIfChanged", () => {
  let proxy: FaultProxy;
  let truth: BlockBlobClient;
  let blob: BlockBlobClient;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    truth = containerClient(containerName).getBlockBlobClient("doc");
    await truth.upload('{"n":1}', 7);
    blob = containerClient(containerName, { through: proxy }).getBlockBlobClient("doc");
  });

  afterEach(() => proxy.stop());

  const targets: [string, number, (blob: BlockBlobClient) => Target<unknown>, (blob: BlockBlobClient) => Promise<unknown>][] = [
    ["the content", 304, (b) => jsonBlob(b), (b) => b.upload('{"n":2}', 7)],
    ["metadata", 304, blobMetadata as (blob: BlockBlobClient) => Target<unknown>, (b) => b.setMetadata({ a: "1" })],
    ["headers", 304, blobHttpHeaders as (blob: BlockBlobClient) => Target<unknown>, (b) => b.setHTTPHeaders({ blobCacheControl: "no-store" })],
    ["tags", 200, blobTags as (blob: BlockBlobClient) => Target<unknown>, (b) => b.setTags({ a: "1" })],
  ];

  it.each(targets)("is one request for %s that did not change, and the new value if it did", async (_name, status, targetOf, change) => {
    const { value, etag } = await readTarget(targetOf(blob));
    proxy.reset();
    expect(await readIfChanged(targetOf(blob), etag)).toEqual({ changed: false, etag });
    expect(proxy.log.map((request) => request.status)).toEqual([status]);
    await change(truth);
    const changed = await readIfChanged(targetOf(blob), etag);
    if (!changed.changed) throw new Error("it was changed");
    expect(changed.value).not.toEqual(value);
    expect(changed).toEqual({ changed: true, ...(await readTarget(targetOf(truth))) });
    expect(proxy.requests).toBe(2);
  });
});

describe.each(kinds)("tryReadTarget of a %s", (kind) => {
  it("is undefined until it exists", async () => {
    const subject = await subjectOf(kind);
    try {
      expect(await tryReadTarget(subject.client())).toBeUndefined();
      await subject.store(1);
      expect(await tryReadTarget<Doc>(subject.client())).toMatchObject({ value: { n: 1 } });
    } finally {
      await subject.proxy.stop();
    }
  });
});

describe.each(kinds)("the time of one request for a %s", (kind) => {
  it("is over though the network swallows everything", async () => {
    const subject = await subjectOf(kind);
    try {
      await subject.store(1);
      subject.proxy.rules = [hang({ when: isRead }), hang({ when: isWrite, at: "response" })];
      await expect(readTarget<Doc>(subject.client(), { timeoutInMs: 100 })).rejects.toThrow(OperationTimeoutError);
      // The storage may need a moment to carry it out, so that it is certain to have it when the time is over.
      const written = expect(overwrite(subject.client(), subject.initial(2), { timeoutInMs: 2_000 })).rejects.toThrow(CommitUnknownError);
      await subject.proxy.waitFor(({ storageStatus }) => storageStatus !== undefined && storageStatus < 300);
      expect(await subject.stored()).toBe(2);
      await written;
    } finally {
      await subject.proxy.stop();
    }
  });
});
