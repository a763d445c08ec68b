import { Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { ContentChangedError, ContentTooLargeError, OperationTimeoutError, downloadConsistent, LeaseUnavailableError, TargetNotFoundError } from "../../src/index.js";
import type { DownloadOptions, DownloadProgress } from "../../src/index.js";
import { answer, before, gate, hang, pass } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { blobError } from "../fakes/rest-errors.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { brokenAfter, contentBlob, tornBlob, version } from "./fake-content.js";

useFakeTimers();

const small = { blockSizeInBytes: 10 } satisfies DownloadOptions;

describe("downloadConsistent", () => {
  it("downloads a small blob with one request, with what belongs to it", async () => {
    const { service, blob } = contentBlob();
    blob.put(version(1), { metadata: { a: "1" }, headers: { blobContentType: "a/b" } });
    expect(await downloadConsistent(blob)).toEqual({
      content: version(1),
      etag: blob.stored?.etag,
      sizeInBytes: 100,
      contentType: "a/b",
      metadata: { a: "1" },
      restarts: 0,
    });
    expect(service.operations).toEqual(["download"]);
  });

  it.each([1, 9, 10, 11, 99, 100, 101, 250])("puts %i bytes together in order, one request per block", async (length) => {
    const { service, blob } = contentBlob();
    const content = Uint8Array.from({ length }, (_, i) => i % 251);
    blob.put(content);
    expect((await downloadConsistent(blob, small)).content).toEqual(content);
    expect(service.count()).toBe(Math.ceil(length / 10));
  });

  it("downloads nothing with two requests, as nothing has no range", async () => {
    const { service, blob } = contentBlob(0);
    expect(await downloadConsistent(blob)).toMatchObject({ content: new Uint8Array(0), sizeInBytes: 0, etag: blob.stored?.etag });
    expect(service.count()).toBe(2);
  });

  it("notices that an empty blob was filled between its two requests", async () => {
    const { service, blob } = contentBlob(0);
    service.next("download", answer(416, "InvalidRange"), before(() => blob.put(version(2))));
    expect((await downloadConsistent(blob, small)).content).toEqual(version(2));
  });

  it("pins every range but the first to the ETag of the first", async () => {
    const blob = tornBlob();
    await downloadConsistent(blob, { ...small, conditions: { leaseId: undefined } });
    const { etag } = blob.stored!;
    expect(blob.asked[0]).toEqual({ offset: 0, count: 10, ifMatch: undefined });
    expect(blob.asked.slice(1).map(({ ifMatch }) => ifMatch)).toEqual(Array(9).fill(etag));
    expect(blob.asked.map(({ offset }) => offset).sort((a, b) => a - b)).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
  });

  it("keeps as many requests under way as it is told, and not more", async () => {
    const { service, blob } = contentBlob();
    const gates = Array.from({ length: 9 }, () => gate());
    service.next("download", pass, ...gates.map(({ fault }) => fault));
    const done = downloadConsistent(blob, { ...small, concurrency: 3 });
    await vi.advanceTimersByTimeAsync(0);
    expect(service.count()).toBe(4); // the first is done, three wait
    for (const held of gates) held.open();
    expect((await done).content).toEqual(version(1));
  });

  it("starts again when the blob is rewritten meanwhile, and never mixes", async () => {
    const { service, blob } = contentBlob();
    service.next("download", pass, pass, before(() => blob.put(version(2, 130))));
    const progress: DownloadProgress[] = [];
    const { content, restarts, etag } = await downloadConsistent(blob, { ...small, onProgress: (p) => progress.push(p) });
    expect(content).toEqual(version(2, 130));
    expect(restarts).toBe(1);
    expect(etag).toBe(blob.stored?.etag);
    expect(progress.at(-1)).toEqual({ loadedBytes: 130, totalBytes: 130, restarts: 1 });
  });

  it("says so instead, if it is told to", async () => {
    const { service, blob } = contentBlob();
    const { etag } = blob.stored!;
    service.next("download", pass, before(() => blob.put(version(2))));
    const error = await rejection(downloadConsistent(blob, { ...small, onChange: "throw" }));
    expect(error).toBeInstanceOf(ContentChangedError);
    expect(error).toMatchObject({ etag, restarts: 0, cause: { statusCode: 412 } });
  });

  it("gives up on a blob that changes all the time", async () => {
    const { service, blob } = contentBlob();
    let n = 1;
    for (let i = 0; i < 20; i++) service.next("download", pass, before(() => blob.put(version(++n))));
    const error = await rejection(downloadConsistent(blob, { ...small, concurrency: 1, maxRestarts: 3 }));
    expect(error).toBeInstanceOf(ContentChangedError);
    expect(error).toMatchObject({ restarts: 3 });
    expect(service.count()).toBe(8);
  });

  it("takes a deleted blob for a changed one, and then for a missing one", async () => {
    const { service, blob } = contentBlob();
    service.next("download", pass, before(() => blob.drop()));
    expect(await rejection(downloadConsistent(blob, small))).toBeInstanceOf(TargetNotFoundError);
    blob.put(version(1));
    service.next("download", pass, before(() => blob.drop()));
    expect(await rejection(downloadConsistent(blob, { ...small, onChange: "throw" }))).toBeInstanceOf(ContentChangedError);
  });

  it("does not trust an answer that ignores the condition", async () => {
    const blob = tornBlob();
    blob.body = (download) => (download === 3 ? { etag: '"0x0"' } : undefined);
    expect(await downloadConsistent(blob, small)).toMatchObject({ content: version(1), restarts: 1 });
  });

  it.each([
    ["in the first range", 1],
    ["in another range", 4],
  ])("fetches again what broke off %s, from there and still pinned", async (_name, broken) => {
    const blob = tornBlob();
    blob.body = (download) => (download === broken ? { readableStreamBody: brokenAfter(6, new Error("reset")) } : undefined);
    const progress: DownloadProgress[] = [];
    const { content, restarts } = await inFakeTime(downloadConsistent(blob, { ...small, onProgress: (p) => progress.push(p) }));
    expect(content).toEqual(version(1));
    expect(restarts).toBe(0);
    expect(blob.asked).toHaveLength(11);
    expect(blob.asked.at(-1)).toEqual({ offset: (broken - 1) * 10 + 6, count: 4, ifMatch: blob.stored?.etag });
    expect(progress.at(-1)).toEqual({ loadedBytes: 100, totalBytes: 100, restarts: 0 });
  });

  it("starts again if the blob was rewritten when it fetches again what broke off", async () => {
    const blob = tornBlob();
    blob.body = (download) => {
      if (download !== 4) return undefined;
      blob.put(version(2));
      return { readableStreamBody: brokenAfter(6, new Error("reset")) };
    };
    expect(await inFakeTime(downloadConsistent(blob, { ...small, concurrency: 1 }))).toMatchObject({ content: version(2), restarts: 1 });
  });

  it("starts again if the SDK finds another version while it resumes a body", async () => {
    const blob = tornBlob();
    blob.body = (download) => {
      if (download !== 4) return undefined;
      blob.put(version(2));
      return { readableStreamBody: brokenAfter(6, blobError(412, "ConditionNotMet")) };
    };
    expect(await downloadConsistent(blob, { ...small, concurrency: 1 })).toMatchObject({ content: version(2), restarts: 1 });
  });

  it("gives up on bodies that bring nothing after tryTimeoutInMs, with the reason as the cause", async () => {
    const blob = tornBlob();
    // As the SDK reports it when a connection is cut: an AbortError, although no signal has aborted.
    const cut = Object.assign(new Error("The operation was aborted."), { name: "AbortError" });
    blob.body = (download) => (download > 1 ? { readableStreamBody: brokenAfter(0, cut) } : undefined);
    const started = performance.now();
    const error = await rejection(inFakeTime(downloadConsistent(blob, { ...small, concurrency: 1, tryTimeoutInMs: 5_000 })));
    expect(error).toBeInstanceOf(OperationTimeoutError);
    expect(error.cause).toBe(cut);
    expect(performance.now() - started).toBeGreaterThanOrEqual(5_000);
    expect(performance.now() - started).toBeLessThan(7_000);
    expect(blob.asked.length).toBeGreaterThan(6);
  });

  it.each([0, 3])("asks again if an error response is cut, which the SDK cannot parse then (after %i others)", async (others) => {
    const { service, blob } = contentBlob();
    const rewritten: Fault = (exchange) => {
      if (others > 0) blob.put(version(2));
      return answer(412, "PARSE_ERROR")(exchange);
    };
    service.next("download", ...Array.from({ length: others }, () => pass), rewritten);
    const { content, restarts } = await inFakeTime(downloadConsistent(blob, { ...small, concurrency: 1 }));
    expect([content, restarts]).toEqual(others > 0 ? [version(2), 1] : [version(1), 0]);
  });

  it("gives up on error responses that are always cut, with the last one as the cause", async () => {
    const { service, blob } = contentBlob();
    service.each("download", answer(500, "PARSE_ERROR"));
    expect(await rejection(inFakeTime(downloadConsistent(blob, small)))).toMatchObject({ code: "OPERATION_TIMEOUT", cause: { code: "PARSE_ERROR" } });
  });

  it("outlasts connections that are cut for seconds", async () => {
    const blob = tornBlob();
    const until = performance.now() + 20_000;
    blob.body = () => (performance.now() < until ? { readableStreamBody: brokenAfter(0, new Error("reset")) } : undefined);
    expect((await inFakeTime(downloadConsistent(blob, small))).content).toEqual(version(1));
  });

  it("goes on as long as each try brings something", async () => {
    const blob = tornBlob(20);
    blob.body = () => ({ readableStreamBody: brokenAfter(1, new Error("reset")) });
    expect((await inFakeTime(downloadConsistent(blob, small))).content).toEqual(version(1, 20));
    expect(blob.asked).toHaveLength(20);
  });

  it("does not take a body with too little for the range", async () => {
    const blob = tornBlob();
    blob.body = (download) => (download === 2 ? { readableStreamBody: [version(1, 5)] } : undefined);
    expect((await inFakeTime(downloadConsistent(blob, { ...small, concurrency: 1 }))).content).toEqual(version(1));
    expect(blob.asked).toHaveLength(11);
  });

  it.each([[[15]], [[5, 6]]])("does not take a body of %j bytes for 10", async (chunks) => {
    const blob = tornBlob();
    blob.body = (download) => (download === 2 ? { readableStreamBody: chunks.map((length) => version(7, length)) } : undefined);
    const error = await rejection(inFakeTime(downloadConsistent(blob, { ...small, concurrency: 1 })));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain("behind the end");
    expect(blob.asked).toHaveLength(2);
  });

  it.each([
    ["in Node", () => bodyWithoutEnd(10)],
    ["elsewhere", () => chunksWithoutEnd(10)],
  ])("does not wait for the end of a body that is all there, %s", async (_name, body) => {
    const blob = tornBlob();
    blob.body = () => ({ readableStreamBody: body() });
    expect((await downloadConsistent(blob, small)).content).toEqual(version(1));
    expect(blob.asked).toHaveLength(10);
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each([
    ["and says so", { contentRange: "bytes 0-99/100" }],
    ["without a word", { contentRange: undefined, contentLength: 100 }],
  ])("does not take another range, or all, for the one that was asked for: a cache may send it, %s", async (_name, headers) => {
    const content = Uint8Array.from({ length: 100 }, (_, i) => i);
    const blob = tornBlob();
    blob.put(content);
    const pieces = Array.from({ length: 20 }, (_, i) => content.subarray(5 * i, 5 * i + 5));
    blob.body = (download) => (download === 2 ? { ...headers, readableStreamBody: pieces } : undefined);
    const progress: number[] = [];
    const done = downloadConsistent(blob, { ...small, concurrency: 1, onProgress: ({ loadedBytes }) => progress.push(loadedBytes) });
    expect((await inFakeTime(done)).content).toEqual(content);
    expect(progress.at(-1)).toBe(100);
    blob.body = (download) => (download > 30 ? { ...headers, readableStreamBody: pieces } : undefined);
    blob.asked.length = 29;
    const error = await rejection(inFakeTime(downloadConsistent(blob, { ...small, concurrency: 1 })));
    expect(error).toBeInstanceOf(OperationTimeoutError);
    expect(error.cause).toMatchObject({ message: expect.stringContaining("another range") as string });
  });

  it("reads what browsers get", async () => {
    const blob = tornBlob();
    blob.body = (_download, { contentLength = 0 }) => ({ readableStreamBody: undefined, blobBody: Promise.resolve(new Blob([version(1, contentLength) as Uint8Array<ArrayBuffer>])) });
    expect((await downloadConsistent(blob, small)).content).toEqual(version(1));
  });

  it("asks again for what does not arrive in time", async () => {
    const { service, blob } = contentBlob();
    service.next("download", pass, hang);
    expect((await inFakeTime(downloadConsistent(blob, { ...small, tryTimeoutInMs: 100 }))).content).toEqual(version(1));
    expect(service.count()).toBe(11);
  });

  it("asks again for the first answer too", async () => {
    const { service, blob } = contentBlob();
    service.next("download", hang, hang);
    expect((await inFakeTime(downloadConsistent(blob))).content).toEqual(version(1));
    expect(service.count()).toBe(3);
  });

  it.each([["at all", 0], ["after the first answer", 1]])("gives up if nothing arrives %s", async (_name, answers) => {
    const { service, blob } = contentBlob();
    service.next("download", ...Array.from({ length: answers }, () => pass), hang, hang, hang, hang, hang);
    const error = await rejection(inFakeTime(downloadConsistent(blob, { ...small, concurrency: 1 })));
    expect(error).toBeInstanceOf(OperationTimeoutError);
    expect(error.message).toContain("5 requests in a row");
    expect(service.count()).toBe(answers + 5);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("does not repeat what the service refuses, and stops the rest", async () => {
    const { service, blob } = contentBlob();
    const held = gate();
    service.next("download", pass, held.fault, answer(403, "AuthorizationFailure"));
    expect(await rejection(downloadConsistent(blob, { ...small, concurrency: 2 }))).toMatchObject({ statusCode: 403 });
    expect(service.count()).toBe(3);
  });

  it("says what is missing or leased", async () => {
    const { service, blob } = contentBlob();
    service.next("download", answer(404, "ContainerNotFound"));
    expect(await rejection(downloadConsistent(blob))).toBeInstanceOf(TargetNotFoundError);
    expect(await rejection(downloadConsistent(blob, { conditions: { leaseId: "mine" } }))).toBeInstanceOf(LeaseUnavailableError);
    blob.drop();
    expect(await rejection(downloadConsistent(blob))).toBeInstanceOf(TargetNotFoundError);
  });

  it("refuses what is too large after its first answer", async () => {
    const { service, blob } = contentBlob();
    const error = await rejection(downloadConsistent(blob, { ...small, maxSizeInBytes: 99 }));
    expect(error).toBeInstanceOf(ContentTooLargeError);
    expect(error).toMatchObject({ sizeInBytes: 100, maxSizeInBytes: 99 });
    expect(service.count()).toBe(1);
    expect((await downloadConsistent(blob, { ...small, maxSizeInBytes: 100 })).content).toEqual(version(1));
  });

  it("does not guess a size that it is not told", async () => {
    const blob = tornBlob();
    blob.body = () => ({ contentRange: undefined });
    expect((await rejection(downloadConsistent(blob, small))).message).toContain("Content-Range");
    expect((await downloadConsistent(blob, { blockSizeInBytes: 101 })).content).toEqual(version(1));
    blob.withETag = false;
    expect(await rejection(downloadConsistent(blob))).toBeInstanceOf(TypeError);
  });

  it.each([1, 4])("is cancelled while request %i is under way, and leaves nothing", async (at) => {
    const { service, blob } = contentBlob();
    service.next("download", ...Array.from({ length: at - 1 }, () => pass), hang);
    const controller = countingController();
    const error = rejection(downloadConsistent(blob, { ...small, concurrency: 1, abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort(new Error("enough"));
    expect((await error).message).toBe("enough");
    expect(controller.listeners()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
    expect(service.count()).toBe(at);
    expect((await rejection(downloadConsistent(blob, { abortSignal: controller.signal }))).message).toBe("enough");
    expect(service.count()).toBe(at);
  });

  it("ends with what onProgress throws", async () => {
    const { service, blob } = contentBlob();
    const onProgress = ({ loadedBytes }: DownloadProgress): void => {
      if (loadedBytes > 30) throw new Error("mine");
    };
    expect((await rejection(downloadConsistent(blob, { ...small, concurrency: 1, onProgress }))).message).toBe("mine");
    expect(service.count()).toBe(4);
  });

  it("ends with what the promise of an async onProgress rejects with; if that comes too late, it has no effect", async () => {
    const { blob } = contentBlob();
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const onProgress = async ({ loadedBytes }: DownloadProgress): Promise<void> => {
      await Promise.resolve();
      if (loadedBytes > 30) throw new Error("mine");
    };
    // eslint-disable-next-line @typescript-eslint/no-misused-promises -- what a caller without the rule writes
    expect((await rejection(downloadConsistent(blob, { ...small, concurrency: 1, onProgress }))).message).toBe("mine");
    const late = async ({ loadedBytes }: DownloadProgress): Promise<void> => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      if (loadedBytes === 100) throw new Error("late");
    };
    // eslint-disable-next-line @typescript-eslint/no-misused-promises
    expect((await downloadConsistent(blob, { ...small, onProgress: late })).content).toHaveLength(100);
    await vi.advanceTimersByTimeAsync(100);
    await turn();
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it.each([
    [{ blockSizeInBytes: 0 }, RangeError],
    [{ blockSizeInBytes: 1.5 }, RangeError],
    [{ concurrency: 0 }, RangeError],
    [{ maxSizeInBytes: -1 }, RangeError],
    [{ maxRestarts: -1 }, RangeError],
    [{ tryTimeoutInMs: 0 }, RangeError],
    [{ onChange: "ignore" }, RangeError],
    [{ onProgress: 1 }, TypeError],
    [{ conditions: { ifMatch: "e" } }, TypeError],
  ])("refuses %j before it asks", async (options, error) => {
    const { service, blob } = contentBlob();
    expect(await rejection(downloadConsistent(blob, options as DownloadOptions))).toBeInstanceOf(error);
    expect(service.count()).toBe(0);
  });
});

function bodyWithoutEnd(length: number): Readable {
  const body = new Readable({ read: () => undefined });
  body.push(version(1, length));
  return body;
}

async function* chunksWithoutEnd(length: number): AsyncGenerator<Uint8Array> {
  yield version(1, length);
  await new Promise(() => undefined);
}
