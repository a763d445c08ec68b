import { describe, expect, it } from "vitest";
import { CommitUnknownError, containerMetadata, fileHttpHeaders, fileMetadata, LeaseUnavailableError, overwrite, queueMetadata, shareMetadata } from "../../src/index.js";
import type { ContainerLike, FileLike, QueueLike, ShareLike, Target } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { after, answer, copyBelowSdk, failAfterCommit, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { blobError } from "../fakes/rest-errors.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

type Values = Record<string, string>;

/** The metadata or headers of something that exists, without conditions: what containers, queues, shares and files have in common. */
class FakeProperties {
  readonly url = "https://account.example.net/it";
  readonly name = "it";
  readonly path = "it";
  readonly service = new FakeService();
  readonly pipeline = this.service.pipeline;
  stored: Values = { owner: "before" };

  setMetadata(values: Values = {}, options: { abortSignal?: unknown } = {}): Promise<{ etag: string }> {
    return this.service.request({ operation: "set", kind: "write", resource: this.url }, options.abortSignal as AbortSignal, blobError, () => this.put(values));
  }

  setHttpHeaders(headers: { fileContentType?: string | undefined } = {}, options: { abortSignal?: unknown } = {}): Promise<{ etag: string }> {
    return this.setMetadata({ ...(headers.fileContentType !== undefined && { contentType: headers.fileContentType }) }, options);
  }

  getProperties(options: { abortSignal?: unknown } = {}): Promise<Values & { metadata: Values; etag: string }> {
    return this.service.request({ operation: "get", kind: "read", resource: this.url }, options.abortSignal as AbortSignal, blobError, () => {
      const { stored } = this;
      return { ...(stored["contentType"] !== undefined && { contentType: stored["contentType"] }), metadata: { ...stored }, etag: '"1"' } as never;
    });
  }

  /** Any client stores something else. */
  put(values: Values): { etag: string } {
    this.stored = values;
    return { etag: `"${this.service.newETag()}"` };
  }

  // What tells the kinds of clients apart.
  readonly setAccessPolicy = notNeeded;
  readonly sendMessage = notNeeded;
  readonly getDirectoryClient = notNeeded;
  readonly uploadRange = notNeeded;
  readonly rename = notNeeded;
}

function notNeeded(): never {
  throw new Error("not needed");
}

const kinds: Readonly<Record<string, { open: (fake: FakeProperties) => Target<Values>; value: Values }>> = {
  containerMetadata: { open: (fake) => containerMetadata(fake as unknown as ContainerLike), value: { owner: "me" } },
  queueMetadata: { open: (fake) => queueMetadata(fake as unknown as QueueLike), value: { owner: "me" } },
  shareMetadata: { open: (fake) => shareMetadata(fake as unknown as ShareLike), value: { owner: "me" } },
  fileMetadata: { open: (fake) => fileMetadata(fake as unknown as FileLike), value: { owner: "me" } },
  fileHttpHeaders: { open: (fake) => fileHttpHeaders(fake as unknown as FileLike) as unknown as Target<Values>, value: { contentType: "a/b" } },
};

describe.each(Object.entries(kinds))("overwrite of %s", (_, { open, value }) => {
  it("costs one request", async () => {
    const fake = new FakeProperties();
    await overwrite(open(fake), value);
    expect(fake.stored).toEqual(value);
    expect(fake.service.operations).toEqual(["set"]);
  });

  it.each<[string, Fault]>([
    ["a lost answer, by a client without retries", loseAnswerForGood],
    ["a lost answer", loseAnswer],
    ["an error after it was carried out", failAfterCommit],
    ["no answer", hangAfterCommit],
  ])("finds its value after %s", async (_fault, fault) => {
    const fake = new FakeProperties();
    fake.service.next("set", fault);
    await inFakeTime(overwrite(open(fake), value));
    expect(fake.stored).toEqual(value);
    expect(fake.service.operations).toEqual(["set", "get"]);
  });

  it("is not sent a second time, which could erase the value that another client has stored meanwhile", async () => {
    const fake = new FakeProperties();
    fake.service.next("set", after(() => fake.put({ owner: "another" }), loseAnswer));
    expect(await rejection(inFakeTime(overwrite(open(fake), value)))).toBeInstanceOf(CommitUnknownError);
    expect(fake.stored).toEqual({ owner: "another" });
    expect(fake.service.requests[0]).toMatchObject({ operation: "set", served: 1 });
  });

  it("says that it does not know, if its request is lost, and sends it again only on request", async () => {
    const fake = new FakeProperties();
    fake.service.next("set", loseRequest);
    const error = await rejection(inFakeTime(overwrite(open(fake), value)));
    expect(error).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown", operationId: expect.any(String) as string });
    expect(fake.stored).toEqual({ owner: "before" });
    fake.service.next("set", loseRequest);
    await inFakeTime(overwrite(open(fake), value, { onUnknown: "retry" }));
    expect(fake.stored).toEqual(value);
  });

  it("says that it does not know, if nothing can be read after a lost answer", async () => {
    const fake = new FakeProperties();
    fake.service.next("set", loseAnswerForGood);
    fake.service.each("get", loseRequest);
    expect(await rejection(inFakeTime(overwrite(open(fake), value)))).toBeInstanceOf(CommitUnknownError);
  });

  it("passes on what the service rejects", async () => {
    const fake = new FakeProperties();
    fake.service.next("set", answer(403, "AuthorizationFailure"));
    expect(await rejection(overwrite(open(fake), value))).toMatchObject({ statusCode: 403 });
    fake.service.next("set", answer(412, "LeaseIdMissing"));
    expect(await rejection(overwrite(open(fake), value))).toBeInstanceOf(LeaseUnavailableError);
    expect(fake.stored).toEqual({ owner: "before" });
  });

  it("is not affected by a copy of its request that was made below the SDK", async () => {
    const fake = new FakeProperties();
    fake.service.next("set", copyBelowSdk);
    await overwrite(open(fake), value);
    expect(fake.stored).toEqual(value);
  });
});
