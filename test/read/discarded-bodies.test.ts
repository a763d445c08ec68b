import { once } from "node:events";
import { Readable } from "node:stream";
import { describe, expect, it, vi } from "vitest";
import type { BlobCallOptions, BlobDownloadLike } from "../../src/clients.js";
import { downloadConsistent, downloadConsistentStream } from "../../src/index.js";
import { Deadline } from "../../src/core/deadline.js";
import { checkDownloadOptions } from "../../src/read/download-options.js";
import { requestRange } from "../../src/read/range-source.js";
import { FakeService } from "../fakes/fake-service.js";
import { useFakeTimers } from "../support/timers.js";
import { tornBlob, TornBlob, version } from "./fake-content.js";

useFakeTimers();

/** A body that goes on for ever, and breaks with an error when its request is aborted, as the SDK's do. */
function bodyOf({ abortSignal }: BlobCallOptions): Readable {
  const body = new Readable({ read: () => undefined });
  abortSignal?.addEventListener("abort", () => body.destroy(new Error("The operation was aborted.")));
  return body;
}

const small = { blockSizeInBytes: 10, concurrency: 1, tryTimeoutInMs: 1_000 };

/** Whether the body of a download is one that is not to be read, and how its response looks. */
type Case = [what: string, spoil: (download: number, blob: TornBlob) => Partial<BlobDownloadLike> | undefined, options: object];

const cases: Case[] = [
  ["is larger than maxSizeInBytes", () => ({}), { maxSizeInBytes: 99 }],
  ["has no size", () => ({ contentRange: undefined }), {}],
  ["has no ETag", () => ({ etag: undefined }), {}],
  ["is of another version", (download) => (download === 2 ? { etag: '"0xOTHER"' } : undefined), {}],
  ["is of another range", (download) => (download === 2 ? { contentRange: "bytes 0-9/100" } : undefined), {}],
];

const downloads: [string, (blob: TornBlob, options: object) => Promise<void>][] = [
  ["downloadConsistent", async (blob, options) => {
    await downloadConsistent(blob, { ...options, maxRestarts: 0 });
  }],
  ["downloadConsistentStream", async (blob, options) => {
    const { content } = await downloadConsistentStream(blob, options);
    for await (const part of content) expect(part).toEqual(version(1, 10));
  }],
];

describe.each(downloads)("%s", (_name, download) => {
  it.each(cases)("closes the body of a response that %s, and nothing ends the process", async (_what, spoil, options) => {
    const blob = tornBlob();
    const bodies: Readable[] = [];
    blob.body = (number, _answer, request) => {
      const headers = spoil(number, blob);
      if (!headers) return undefined;
      const body = bodyOf(request);
      bodies.push(body);
      return { ...headers, readableStreamBody: body };
    };
    const done = download(blob, { ...small, ...options }).catch(() => undefined);
    await vi.runAllTimersAsync();
    await done;
    expect(bodies.map(({ destroyed, errored }) => [destroyed, errored])).toEqual(bodies.map(() => [true, null]));
    expect(bodies.length).toBeGreaterThan(0);
  });

  it("closes the body of a blob that was filled after it was found empty", async () => {
    const blob = tornBlob(0);
    const bodies: Readable[] = [];
    blob.body = (_number, { contentLength = 0 }, request) => {
      if (contentLength === 0) return undefined;
      const body = bodyOf(request);
      bodies.push(body);
      return { readableStreamBody: body };
    };
    const empty = blob.download.bind(blob);
    blob.download = (offset, count, request) => {
      blob.put(count === undefined ? version(1) : new Uint8Array());
      return empty(offset, count, request);
    };
    const done = download(blob, small).catch(() => undefined);
    await vi.runAllTimersAsync();
    await done;
    expect(bodies.length).toBeGreaterThan(0);
    expect(bodies.map(({ destroyed, errored }) => [destroyed, errored])).toEqual(bodies.map(() => [true, null]));
  });

  it("takes no harm from a late response whose body has broken with the request", async () => {
    const broken: Readable[] = [];
    class LateBlob extends TornBlob {
      override async download(offset?: number, count?: number, request: BlobCallOptions = {}): Promise<BlobDownloadLike> {
        if (broken.length > 0) return super.download(offset, count, request);
        // Takes no notice of its signal, but the connection is closed.
        const body = new Readable({ read: () => undefined });
        broken.push(body);
        const answer = await super.download(offset, count, {});
        await new Promise((resolve) => setTimeout(resolve, small.tryTimeoutInMs + 10));
        body.destroy(new Error("The operation was aborted."));
        return { ...answer, readableStreamBody: body };
      }
    }
    const blob = new LateBlob(new FakeService());
    blob.put(version(1));
    const done = download(blob, small);
    await vi.runAllTimersAsync();
    await done;
    expect(broken.map((body) => body.listenerCount("error"))).toEqual([1]);
  });
});

it("a body that breaks before it is read does not end the process", async () => {
  const blob = tornBlob();
  const body = new Readable({ read: () => undefined });
  blob.body = () => ({ readableStreamBody: body });
  const source = { blob, url: blob.url, settings: checkDownloadOptions("downloadConsistent", {}), tracingOptions: undefined, stop: new AbortController() };
  const deadline = new Deadline(1_000, () => new Error("late"));
  await requestRange(source, deadline, 0, 10);
  deadline.dispose();
  expect(body.listenerCount("error")).toBe(1);
  body.destroy(new Error("cut"));
  await once(body, "close").catch(() => undefined);
});
