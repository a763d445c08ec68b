import { describe, expect, it, vi } from "vitest";
import { ConflictError, deleteIfUnchanged, optimisticUpdate, overwrite, readIfChanged, readTarget, TargetNotFoundError } from "../../src/index.js";
import { before, loseAnswer, loseRequest } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("optimisticUpdate with ifMatch", () => {
  it("updates exactly that version", async () => {
    const { service, blob } = counterBlob();
    const { etag } = blob.stored!;
    const updated = await optimisticUpdate<Counter>(blob, increment, { ifMatch: etag });
    expect(updated).toMatchObject({ value: { n: 1 }, attempts: 1 });
    expect(service.operations).toEqual(["download", "upload"]);
    const mutator = vi.fn(increment);
    expect(await rejection(optimisticUpdate<Counter>(blob, mutator, { ifMatch: etag }))).toMatchObject({
      name: "ConflictError",
      committed: false,
      currentETag: updated.etag,
    });
    expect(mutator).not.toHaveBeenCalled();
    expect(service.operations).toEqual(["download", "upload", "download"]);
  });

  it("accepts an ETag as a listing returns it, without quotes", async () => {
    const { blob } = counterBlob();
    const listed = blob.stored!.etag.slice(1, -1);
    expect(`"${listed}"`).toBe(blob.stored!.etag);
    expect((await optimisticUpdate<Counter>(blob, increment, { ifMatch: listed })).value).toEqual({ n: 1 });
    expect(await rejection(optimisticUpdate<Counter>(blob, increment, { ifMatch: listed }))).toBeInstanceOf(ConflictError);
  });

  it("makes one attempt: another client that writes in between is a conflict with its ETag", async () => {
    const { service, blob } = counterBlob();
    const { etag } = blob.stored!;
    service.next("upload", before(() => blob.putKeeping({ n: 5 })));
    const error = await rejection(inFakeTime(optimisticUpdate<Counter>(blob, increment, { ifMatch: etag })));
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({ attempts: 1, currentETag: blob.stored!.etag });
    expect(blob.json).toEqual({ n: 5 });
  });

  it("is not coalesced: of two calls for one version, one succeeds", async () => {
    const { blob } = counterBlob();
    const { etag } = await readTarget<Counter>(blob);
    const results = await inFakeTime(Promise.allSettled([1, 2, 3].map(() => optimisticUpdate<Counter>(blob, increment, { ifMatch: etag }))));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(blob.json).toEqual({ n: 1 });
  });

  it("is applied once if responses or requests are lost", async () => {
    const { service, blob } = counterBlob();
    for (const fault of [loseAnswer, loseRequest]) {
      service.next("upload", fault);
      await inFakeTime(optimisticUpdate<Counter>(blob, increment, { ifMatch: blob.stored!.etag }));
    }
    expect(blob.json).toEqual({ n: 2 });
  });

  it("is a TargetNotFoundError if the target does not exist, even with initial", async () => {
    const { blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.drop();
    expect(await rejection(optimisticUpdate<Counter>(blob, increment, { ifMatch: etag, initial: { n: 0 } }))).toBeInstanceOf(TargetNotFoundError);
    expect(blob.stored).toBeUndefined();
  });

  it("excludes startFrom, and what is not an ETag of a version", async () => {
    const { service, blob } = counterBlob();
    const startFrom = await readTarget<Counter>(blob);
    service.requests.length = 0;
    for (const options of [{ ifMatch: "*" }, { ifMatch: "" }, { ifMatch: 5 as never }, { ifMatch: startFrom.etag, startFrom }]) {
      expect(await rejection(optimisticUpdate<Counter>(blob, increment, options))).toBeInstanceOf(TypeError);
    }
    expect(service.count()).toBe(0);
  });
});

it.each(["", " ", "*", ' "*" ', '"*"', 'W/"*"', "W/*", '""', 'W/""', "W/"])("an ETag that matches any version is rejected before any request: %s", async (etag) => {
  const { service, blob } = counterBlob();
  for (const call of [
    () => optimisticUpdate<Counter>(blob, increment, { ifMatch: etag }),
    () => overwrite<Counter>(blob, { n: 9 }, { ifMatch: etag }),
    () => deleteIfUnchanged(blob, etag),
    () => readIfChanged(blob, etag),
  ]) expect(["TypeError", "RangeError"]).toContain((await rejection(call())).name);
  expect(service.count()).toBe(0);
});
