import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import { expect, it, onTestFinished } from "vitest";
import { appendExactlyOnce, optimisticUpdate, readIfChanged, readTarget, watch } from "../../src/index.js";
import { dropResponse, isRead, isWrite, respondWith, rewriteResponse, startFaultProxy } from "../../src/testing.js";
import type { FaultRequest, FaultResponse, FaultRule } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer } from "../support/clients.js";

interface Doc {
  n: number;
}
const add = (doc: Doc): void => {
  doc.n++;
};

/** Requests of the SDK to the secondary: only the name of the host differs. */
const toSecondary = ({ headers }: FaultRequest): boolean => headers["host"]?.startsWith("localhost") ?? false;
const toPrimary = (request: FaultRequest): boolean => !toSecondary(request);

async function scene(): Promise<{ container: ReturnType<BlobServiceClient["getContainerClient"]>; direct: ReturnType<typeof containerClient>; rules: (rules: FaultRule[]) => void; secondaryReads: () => number }> {
  const proxy = await startFaultProxy(azurite().blobUrl);
  onTestFinished(() => proxy.stop());
  const { containerName } = await freshContainer();
  const [, name = ""] = /AccountName=([^;]+)/.exec(connectionString()) ?? [];
  const [, key = ""] = /AccountKey=([^;]+)/.exec(connectionString()) ?? [];
  const service = new BlobServiceClient(proxy.url, new StorageSharedKeyCredential(name, key), {
    retryOptions: { secondaryHost: "localhost", retryDelayInMs: 1, maxRetryDelayInMs: 1, maxTries: 3 },
  });
  return {
    container: service.getContainerClient(containerName),
    direct: containerClient(containerName),
    rules: (rules) => proxy.setRules(rules),
    secondaryReads: () => proxy.count((request) => toSecondary(request) && isRead(request)),
  };
}

/** The secondary shows what it was told first, for ever. */
function lagging(): FaultRule {
  let old: FaultResponse | undefined;
  return rewriteResponse((response) => (old ??= response), { when: toSecondary });
}

it("an update whose response is lost is applied once, although the secondary shows the state before it", async () => {
  const { container, direct, rules, secondaryReads } = await scene();
  const blob = container.getBlockBlobClient("doc");
  await direct.getBlockBlobClient("doc").upload('{"n":0}', 7);
  await optimisticUpdate<Doc>(blob, add);
  const secondary = lagging();
  // The secondary gets to know the state of now.
  rules([secondary, respondWith(503, { when: (request) => isRead(request) && toPrimary(request), times: 1 })]);
  expect((await readTarget<Doc>(blob)).value).toEqual({ n: 1 });
  expect(secondaryReads()).toBe(1);
  for (let i = 0; i < 5; i++) {
    // The responses to the write are lost, and the first read of the primary after that fails.
    let written = false;
    const afterWrite = (request: FaultRequest): boolean => {
      written ||= isWrite(request);
      return written && isRead(request) && toPrimary(request);
    };
    rules([secondary, respondWith(503, { when: afterWrite, times: 1 }), dropResponse({ when: isWrite, times: 2 })]);
    await optimisticUpdate<Doc>(blob, add);
  }
  expect(JSON.parse((await direct.getBlockBlobClient("doc").downloadToBuffer()).toString())).toEqual({ n: 6 });
  expect(secondaryReads()).toBeGreaterThan(1);
});

it("a record is appended once", async () => {
  const { container, direct, rules, secondaryReads } = await scene();
  const blob = container.getAppendBlobClient("log");
  await appendExactlyOnce(blob, "first\n", { createIfNotExists: true });
  const secondary = lagging();
  for (let i = 0; i < 5; i++) {
    const unavailable = respondWith(503, { when: (request) => isRead(request) && toPrimary(request), times: 1 });
    rules([secondary, dropResponse({ when: isWrite, times: 2 }), unavailable]);
    await appendExactlyOnce(container.getAppendBlobClient("log"), `record ${i}\n`);
  }
  const stored = (await direct.getAppendBlobClient("log").downloadToBuffer()).toString();
  expect(stored).toBe(`first\n${[0, 1, 2, 3, 4].map((i) => `record ${i}\n`).join("")}`);
  expect(secondaryReads()).toBeGreaterThan(0);
});

it("a watch does not go back in time, and readIfChanged does not call an outdated state unchanged", async () => {
  const { container, direct, rules, secondaryReads } = await scene();
  const blob = container.getBlockBlobClient("doc");
  const put = (n: number): Promise<unknown> => direct.getBlockBlobClient("doc").upload(`{"n":${n}}`, 7);
  await put(1);
  // The secondary gets to know the first state, and does not get further.
  const secondary = lagging();
  const unavailable = (times?: number): FaultRule => respondWith(503, { when: (request) => isRead(request) && toPrimary(request), ...(times !== undefined && { times }) });
  rules([secondary, unavailable(1)]);
  const { etag } = await readTarget<Doc>(blob);
  await put(2);
  const seen: number[] = [];
  const errors: unknown[] = [];
  const states = watch<Doc>(blob, { pollIntervalInMs: 1, tryTimeoutInMs: 500, onError: (error) => errors.push(error) });
  rules([secondary]);
  seen.push((await states.next()).value?.value?.n ?? -1);
  const [before, failures] = [secondaryReads(), errors.length];
  // The primary does not respond for longer than a poll takes: the poll fails.
  rules([secondary, unavailable()]);
  const next = states.next();
  await expect.poll(() => errors.length, { timeout: 10_000 }).toBeGreaterThan(failures);
  await expect.poll(() => secondaryReads()).toBeGreaterThan(before);
  await put(3);
  rules([secondary]);
  seen.push((await next).value?.value?.n ?? -1);
  await states.return();
  expect(seen).toEqual([2, 3]);

  rules([secondary, unavailable(1)]);
  expect(await readIfChanged<Doc>(blob, etag)).toMatchObject({ changed: true, value: { n: 3 } });
  rules([secondary, unavailable()]);
  await expect(readIfChanged<Doc>(blob, etag, { timeoutInMs: 1_000 })).rejects.toMatchObject({ code: "OPERATION_TIMEOUT" });
});
