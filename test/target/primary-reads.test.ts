import { describe, expect, it } from "vitest";
import {
  appendExactlyOnce,
  blobHttpHeaders,
  blobMetadata,
  blobTags,
  claimPages,
  containerAccessPolicy,
  containerMetadata,
  createIfNotExists,
  jsonBlob,
  optimisticUpdate,
  queueMetadata,
  readTarget,
} from "../../src/index.js";
import type { ContainerLike, QueueLike } from "../../src/clients.js";
import { SecondaryReadError } from "../../src/core/request.js";
import { adapterOf } from "../../src/target/target.js";
import type { RequestContext } from "../../src/target/target.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakePageBlob } from "../fakes/fake-page-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { hang, loseAnswerForGood } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

const secondaryUrl = "https://account-secondary.blob.core.windows.net/docs/doc.json";

/** With `retryOptions.secondaryHost`: the SDK read from the secondary, which still shows this. */
const outdated =
  (shown: object): Fault =>
  async (exchange) => ({ ...(await exchange.send()), ...shown, _response: { request: { url: secondaryUrl } } });

const tags = (): ReturnType<typeof counterBlob> => {
  const fake = counterBlob();
  fake.blob.put({ n: 0 }, { tags: { state: "done" } });
  return fake;
};

describe("a read that decides what is written", () => {
  it.each(["download", "getTags", "getProperties"])("comes from the primary: the content of a blob (%s)", async (operation) => {
    const { service, blob } = tags();
    service.next(operation, outdated({}));
    await inFakeTime(optimisticUpdate(jsonBlob<Counter>(blob, { keepTier: true }), increment));
    expect(service.count(operation)).toBeGreaterThanOrEqual(2);
    expect(service.operations.lastIndexOf(operation)).toBeLessThan(service.operations.lastIndexOf("upload"));
    expect([blob.json, blob.stored?.tags]).toEqual([{ n: 1 }, { state: "done" }]);
  });

  it("comes from the primary: tags that the secondary does not show yet are kept", async () => {
    const { service, blob } = tags();
    service.next("getTags", outdated({ tags: {} }));
    await inFakeTime(optimisticUpdate<Counter>(blob, increment));
    expect([blob.json, blob.stored?.tags]).toEqual([{ n: 1 }, { state: "done" }]);
  });

  it("comes from the primary: a tier that the secondary does not show yet is kept", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { tier: "Cool" });
    service.next("getProperties", outdated({ accessTier: "Hot", accessTierInferred: false }));
    await inFakeTime(optimisticUpdate(jsonBlob<Counter>(blob, { keepTier: true }), increment));
    expect([blob.json, blob.stored?.tier]).toEqual([{ n: 1 }, "Cool"]);
  });

  it("comes from the primary: metadata, headers and tags", async () => {
    const { service, blob } = tags();
    blob.put({ n: 0 }, { metadata: { n: "1" }, headers: { blobCacheControl: "no-store" }, tags: { state: "done" } });
    service.next("getProperties", outdated({ metadata: {} }));
    await inFakeTime(optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["m"] = "2")));
    service.next("getProperties", outdated({ cacheControl: undefined }));
    await inFakeTime(optimisticUpdate(blobHttpHeaders(blob), (headers) => void (headers.contentLanguage = "en")));
    service.next("getTags", outdated({ tags: {} }));
    await inFakeTime(optimisticUpdate(blobTags(blob), (now) => void (now["more"] = "1")));
    expect(blob.metadata).toMatchObject({ n: "1", m: "2" });
    expect(blob.stored?.headers).toMatchObject({ blobCacheControl: "no-store", blobContentLanguage: "en" });
    expect(blob.stored?.tags).toEqual({ state: "done", more: "1" });
  });

  it("comes from the primary: that nothing is found at the secondary does not count", async () => {
    const { service, blob } = counterBlob();
    service.next("download", (exchange) => Promise.reject(Object.assign(exchange.error(404, "BlobNotFound"), { request: { url: secondaryUrl } })));
    expect((await inFakeTime(optimisticUpdate<Counter>(blob, increment, { initial: { n: 100 } }))).value).toEqual({ n: 1 });
    service.next("download", outdated({}));
    expect(await inFakeTime(createIfNotExists<Counter>(blob, { n: 5 }))).toMatchObject({ outcome: "unchanged", value: { n: 1 } });
    expect(service.count("download")).toBe(4);
  });

  it("comes from the primary: whether a record was appended", async () => {
    const service = new FakeService();
    const blob = new FakeAppendBlob(service);
    blob.put("head\n");
    const { etag, metadata } = blob.stored!;
    // The response to the block is lost. The secondary shows the blob without it, and without its claim.
    service.next("appendBlock", loseAnswerForGood);
    service.next("getProperties", (exchange) => exchange.send(), outdated({ etag, metadata, contentLength: 5, blobCommittedBlockCount: 1 }));
    await inFakeTime(appendExactlyOnce(blob, "one\n"));
    expect(blob.text).toBe("head\none\n");
    expect(service.count("getProperties")).toBe(3);
  });

  it("comes from the primary: which bytes are where a record should be", async () => {
    const service = new FakeService();
    const blob = new FakeAppendBlob(service);
    blob.put("head\n");
    service.next("appendBlock", loseAnswerForGood);
    service.next("download", outdated({ readableStreamBody: [Buffer.from("two\n")] }));
    await inFakeTime(appendExactlyOnce(blob, "one\n"));
    expect(blob.text).toBe("head\none\n");
    expect(service.count("download")).toBe(2);
  });

  it("comes from the primary: the sequence number of a page blob", async () => {
    const service = new FakeService();
    const blob = new FakePageBlob(service);
    const writer = await claimPages(blob);
    service.next("uploadPages", hang);
    service.next("getProperties", outdated({ blobSequenceNumber: 99 }));
    await inFakeTime(writer.write(0, new Uint8Array(512).fill(1), { tryTimeoutInMs: 20 }));
    expect(blob.pages[0]).toBe(1);
    expect(service.count("getProperties")).toBe(2);
  });

  const answered = () => Promise.resolve({ etag: '"1"', metadata: {}, signedIdentifiers: [], _response: { request: { url: secondaryUrl } } });
  const url = "https://account.blob.core.windows.net/docs";
  const container = { url, getProperties: answered, getAccessPolicy: answered, setAccessPolicy: answered } as unknown as ContainerLike;
  const queue = { url, getProperties: answered, sendMessage: answered } as unknown as QueueLike;
  it.each([containerMetadata(container), containerAccessPolicy(container), queueMetadata(queue)])("comes from the primary: $kind", async (target) => {
    const context: RequestContext = {
      abortSignal: new AbortController().signal,
      tryLimit: { timeoutInMs: () => 1_000 },
      tracingOptions: undefined,
      leaseId: undefined,
      journalName: "j",
    };
    const adapter = adapterOf(target)!;
    expect(await rejection(adapter.read({ ...context, primaryOnly: true }))).toBeInstanceOf(SecondaryReadError);
    expect(await adapter.read(context)).toBeDefined();
  });
});

it("a read that decides nothing may come from the secondary", async () => {
  const { service, blob } = counterBlob();
  service.next("download", outdated({}));
  expect((await readTarget<Counter>(blob)).value).toEqual({ n: 0 });
  expect(service.count()).toBe(1);
});
