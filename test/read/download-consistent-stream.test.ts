import { describe, expect, it, vi } from "vitest";
import { ContentChangedError, ContentTooLargeError, OperationTimeoutError, downloadConsistentStream, TargetNotFoundError } from "../../src/index.js";
import type { DownloadProgress } from "../../src/index.js";
import { answer, before, gate, hang, pass } from "../fakes/faults.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { brokenAfter, contentBlob, tornBlob, version } from "./fake-content.js";

useFakeTimers();

const small = { blockSizeInBytes: 10, concurrency: 3 };

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return new Uint8Array(Buffer.concat(parts));
}

/** Everything that can go on without time passing has gone on. */
const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

describe("downloadConsistentStream", () => {
  it.each([0, 1, 9, 10, 11, 100, 105])("hands out %i bytes in order, with what belongs to them", async (length) => {
    const { blob } = contentBlob();
    const content = Uint8Array.from({ length }, (_, i) => i % 251);
    blob.put(content, { metadata: { a: "1" } });
    const { content: stream, ...facts } = await downloadConsistentStream(blob, small);
    expect(facts).toMatchObject({ etag: blob.stored?.etag, sizeInBytes: length, metadata: { a: "1" } });
    expect(await collect(stream)).toEqual(content);
  });

  it("fetches only as far ahead as it is told, however slow the reader is", async () => {
    const { service, blob } = contentBlob();
    const reader = (await downloadConsistentStream(blob, small)).content.getReader();
    await settle();
    expect(service.count()).toBe(3);
    await settle();
    expect(service.count()).toBe(3);
    await reader.read();
    await settle();
    expect(service.count()).toBe(4);
    await reader.cancel();
  });

  it("hands out in order what arrives out of order", async () => {
    const { service, blob } = contentBlob();
    const content = Uint8Array.from({ length: 40 }, (_, i) => i);
    blob.put(content);
    const held = gate();
    service.next("download", pass, held.fault);
    const { content: stream } = await downloadConsistentStream(blob, small);
    const all = collect(stream);
    await settle();
    held.open();
    expect(await all).toEqual(content);
  });

  it("fails if the blob is rewritten before its end, after what was of the old version", async () => {
    const { service, blob } = contentBlob();
    const { etag } = blob.stored!;
    service.next("download", pass, pass, pass, before(() => blob.put(version(2))));
    const reader = (await downloadConsistentStream(blob, small)).content.getReader();
    expect((await reader.read()).value).toEqual(version(1, 10));
    const error = await rejection(collectRest(reader));
    expect(error).toBeInstanceOf(ContentChangedError);
    expect(error).toMatchObject({ etag });
  });

  it("fetches again what broke off", async () => {
    const blob = tornBlob();
    blob.body = (download) => (download === 2 ? { readableStreamBody: brokenAfter(4, new Error("reset")) } : undefined);
    const { content } = await downloadConsistentStream(blob, small);
    expect(await inFakeTime(collect(content))).toEqual(version(1));
    expect(blob.asked).toHaveLength(11);
  });

  it("passes on what the service refuses, and stops the rest", async () => {
    const { service, blob } = contentBlob();
    service.next("download", pass, hang, answer(403, "AuthorizationFailure"));
    const { content } = await downloadConsistentStream(blob, small);
    expect(await rejection(collect(content))).toMatchObject({ statusCode: 403 });
    expect(service.count()).toBe(3);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("rejects at once if there is nothing, too much, or no answer", async () => {
    const { service, blob } = contentBlob();
    expect(await rejection(downloadConsistentStream(blob, { maxSizeInBytes: 99 }))).toBeInstanceOf(ContentTooLargeError);
    service.next("download", hang, hang, hang, hang, hang);
    const late = rejection(downloadConsistentStream(blob, { tryTimeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(500);
    expect(await late).toBeInstanceOf(OperationTimeoutError);
    blob.drop();
    expect(await rejection(downloadConsistentStream(blob))).toBeInstanceOf(TargetNotFoundError);
    expect(await rejection(downloadConsistentStream(blob, { concurrency: 0 }))).toBeInstanceOf(RangeError);
  });

  it("tells how far it is, and fails with what the teller throws", async () => {
    const { blob } = contentBlob();
    const progress: DownloadProgress[] = [];
    await collect((await downloadConsistentStream(blob, { ...small, onProgress: (p) => progress.push(p) })).content);
    expect(progress.at(-1)).toEqual({ loadedBytes: 100, totalBytes: 100, restarts: 0 });
    const throwing = downloadConsistentStream(blob, {
      ...small,
      onProgress() {
        throw new Error("mine");
      },
    });
    expect((await rejection(collect((await throwing).content))).message).toBe("mine");
  });

  it("leaves nothing when it is cancelled", async () => {
    const { service, blob } = contentBlob();
    const controller = countingController();
    service.next("download", pass, hang, hang);
    const { content } = await downloadConsistentStream(blob, { ...small, abortSignal: controller.signal });
    await settle();
    expect(vi.getTimerCount()).toBe(2);
    await content.cancel("enough");
    expect(vi.getTimerCount()).toBe(0);
    expect(controller.listeners()).toBe(0);
    expect(service.count()).toBe(3);
  });

  it("leaves nothing when it is dropped without a word", async () => {
    const { blob } = contentBlob();
    const controller = countingController();
    await downloadConsistentStream(blob, { ...small, abortSignal: controller.signal });
    await settle();
    expect(controller.listeners()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each(["while the reader waits", "while it does not"])("fails with the caller's reason when it is aborted %s", async (when) => {
    const { service, blob } = contentBlob();
    const controller = countingController();
    service.next("download", pass, hang, hang);
    const { content } = await downloadConsistentStream(blob, { ...small, abortSignal: controller.signal });
    const reader = content.getReader();
    await reader.read();
    const early = when === "while the reader waits" ? rejection(reader.read()) : undefined;
    await settle();
    controller.abort(new Error("enough"));
    await settle();
    expect((await (early ?? rejection(reader.read()))).message).toBe("enough");
    expect(controller.listeners()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});

async function collectRest(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}
