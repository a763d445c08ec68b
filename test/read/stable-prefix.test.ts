import { describe, expect, it } from "vitest";

import { ContentChangedError, downloadConsistent, downloadConsistentStream } from "../../src/index.js";
import type { BlobCallOptions, BlobDownloadLike } from "../../src/clients.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { blobError } from "../fakes/rest-errors.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { contentBlob } from "./fake-content.js";

useFakeTimers();

/** A log to which another client does something after each download request. */
class BusyLog extends FakeAppendBlob {
  onDownload: (number: number) => unknown = () => undefined;
  change: (number: number, response: BlobDownloadLike) => Partial<BlobDownloadLike> | undefined = () => undefined;
  readonly conditions: (string | undefined)[] = [];

  override async download(offset = 0, count?: number, options: BlobCallOptions = {}): Promise<BlobDownloadLike> {
    const number = this.conditions.push(options.conditions?.ifMatch);
    const response = await super.download(offset, count, options);
    this.onDownload(number);
    return { ...response, ...this.change(number, response) };
  }
}

const old = new Date("2026-01-01T00:00:00Z");
const created = new Date("2026-01-01T00:00:01Z");

function busyLog(text = "0123456789".repeat(5)): BusyLog {
  const blob = new BusyLog(new FakeService());
  blob.put(text, { createdOn: old, blocks: 5 });
  return blob;
}

const small = { blockSizeInBytes: 10, concurrency: 1, stablePrefix: true };
const textOf = (content: Uint8Array): string => Buffer.from(content).toString();

describe("stablePrefix", () => {
  it("downloads what an append blob has at the first response, although it grows all the time", async () => {
    const blob = busyLog();
    blob.onDownload = () => blob.appendForeign("more");
    // Without the option, each append is a change.
    expect(await rejection(downloadConsistent(blob, { ...small, stablePrefix: false, maxRestarts: 3 }))).toBeInstanceOf(ContentChangedError);
    blob.put("0123456789".repeat(5), { createdOn: old, blocks: 5 });
    blob.conditions.length = 0;
    const { etag } = blob.stored!;
    const { content, sizeInBytes, restarts, etag: found } = await downloadConsistent(blob, small);
    expect(textOf(content)).toBe("0123456789".repeat(5));
    expect({ sizeInBytes, restarts, etag: found }).toEqual({ sizeInBytes: 50, restarts: 0, etag });
    expect(blob.conditions).toEqual(Array(5).fill(undefined));
  });

  it("does the same for a stream", async () => {
    const blob = busyLog();
    blob.onDownload = () => blob.appendForeign("more");
    const { content } = await downloadConsistentStream(blob, small);
    expect(await new Response(content).text()).toBe("0123456789".repeat(5));
  });

  it("downloads an empty append blob, and one that is filled meanwhile", async () => {
    const blob = busyLog("");
    expect((await downloadConsistent(blob, small)).sizeInBytes).toBe(0);
    blob.conditions.length = 0;
    blob.change = (number) => {
      if (number === 1) blob.appendForeign("first");
      return undefined;
    };
    expect(["", "first"]).toContain(textOf((await downloadConsistent(blob, small)).content));
  });

  it.each([
    ["was deleted", (blob: BusyLog) => blob.drop(), undefined],
    ["was created again later", (blob: BusyLog) => blob.put("x".repeat(60), { createdOn: created, blocks: 9 }), "x".repeat(60)],
    ["was created again in the same second, with fewer blocks", (blob: BusyLog) => blob.put("x".repeat(60), { createdOn: old, blocks: 2 }), "x".repeat(60)],
    ["was created again in the same second, with fewer bytes", (blob: BusyLog) => blob.put("x".repeat(40), { createdOn: old, blocks: 9 }), "x".repeat(40)],
  ])("starts again with a blob that %s, and never mixes", async (_what, replace, expected) => {
    const blob = busyLog();
    blob.onDownload = (number) => {
      if (number === 2) replace(blob);
    };
    if (expected === undefined) {
      expect(await rejection(downloadConsistent(blob, small))).toMatchObject({ name: "TargetNotFoundError" });
    } else {
      const { content, restarts } = await downloadConsistent(blob, small);
      expect(textOf(content)).toBe(expected);
      expect(restarts).toBe(1);
    }
    const streamed = busyLog();
    streamed.onDownload = (number) => {
      if (number === 2) replace(streamed);
    };
    const stream = (await downloadConsistentStream(streamed, small)).content;
    expect(await rejection(new Response(stream).text())).toBeInstanceOf(ContentChangedError);
  });

  it("goes on if the SDK resumes a body by itself, and finds the blob longer", async () => {
    const blob = busyLog();
    async function* brokenBody(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("012");
      blob.appendForeign("more");
      throw blobError(412, "ConditionNotMet");
    }
    blob.change = (number) => (number === 3 ? { readableStreamBody: brokenBody() } : undefined);
    const { content, restarts } = await inFakeTime(downloadConsistent(blob, small));
    expect(textOf(content)).toBe("0123456789".repeat(5));
    expect(restarts).toBe(0);
  });

  it("refuses what is not an append blob, and what cannot be recognised", async () => {
    const blob = busyLog();
    blob.change = () => ({ blobType: "BlockBlob" });
    expect((await rejection(downloadConsistent(blob, small))).message).toContain("not an append blob");
    expect((await rejection(downloadConsistent(contentBlob().blob, small))).message).toContain("x-ms-creation-time");
    await expect(downloadConsistent(blob, { stablePrefix: "yes" as never })).rejects.toThrow(TypeError);
  });
});
