import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BlockBlobClient } from "@azure/storage-blob";

import { downloadConsistent, leasedUpdate, optimisticUpdate, readTarget } from "../../src/index.js";
import { cutBody, type FaultProxy, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";

interface Doc {
  n: number;
  filler: string;
}

/** The SDK reports a body that is cut as an `AbortError`, although no signal has aborted. */
describe("a network that cuts the bodies of responses", () => {
  let proxy: FaultProxy;
  let blob: BlockBlobClient;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    blob = containerClient(containerName, { through: proxy }).getBlockBlobClient("doc");
    await blob.uploadData(Buffer.from(JSON.stringify({ n: 1, filler: "x".repeat(100_000) })));
  });

  afterEach(() => proxy.stop());

  const get = ({ method }: { method: string }): boolean => method === "GET";
  const calls = {
    readTarget: async (options) => (await readTarget<Doc>(blob, options)).value.n,
    optimisticUpdate: async (options) => (await optimisticUpdate<Doc>(blob, (doc) => { doc.n++; }, options)).value.n,
    leasedUpdate: async (options) => (await leasedUpdate<Doc>(blob, (doc) => { doc.n++; }, options)).value.n,
    downloadConsistent: async ({ timeoutInMs }) =>
      (JSON.parse(Buffer.from((await downloadConsistent(blob, { tryTimeoutInMs: timeoutInMs })).content).toString()) as Doc).n,
  } satisfies Record<string, (options: { timeoutInMs?: number }) => Promise<number>>;

  it.each(Object.entries(calls))("is outlasted by %s", async (_name, call) => {
    proxy.rules = [cutBody(10, { when: get, times: 12 })];
    expect(await call({})).toBeLessThanOrEqual(2);
    expect(proxy.faultCount("cut-body")).toBe(12);
  });

  it.each(Object.entries(calls))("ends %s with a timeout, and not with an AbortError", async (_name, call) => {
    proxy.rules = [cutBody(0, { when: get })];
    const started = performance.now();
    await expect(call({ timeoutInMs: 1_500 })).rejects.toMatchObject({ name: "OperationTimeoutError" });
    expect(performance.now() - started).toBeGreaterThan(1_400);
  });
});
