import { describe, expect, it, vi } from "vitest";
import { blobTags, CommitUnknownError, ConflictError, OperationTimeoutError, LeaseUnavailableError, optimisticUpdate, readTarget, DELETE, tableEntity, TargetNotFoundError, textBlob } from "../../src/index.js";
import type { Mutator } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { after, answer, before, busy, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

function missingBlob(): { service: FakeService; blob: FakeBlockBlob } {
  const { service, blob } = counterBlob();
  blob.drop();
  return { service, blob };
}

describe("the mutator", () => {
  it("changes its copy in place", async () => {
    const { service, blob } = counterBlob();
    const result = await optimisticUpdate<Counter>(blob, increment);
    expect(result).toEqual({ value: { n: 1 }, etag: blob.stored?.etag, outcome: "updated", attempts: 1, operationId: expect.any(String) as string });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  it("returns a new value", async () => {
    const { blob } = counterBlob();
    expect((await optimisticUpdate<Counter>(blob, ({ n }) => ({ n: n + 2 }))).value).toEqual({ n: 2 });
    expect(blob.json).toEqual({ n: 2 });
  });

  it("is async", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, async (doc) => {
      await Promise.resolve();
      doc.n = 3;
    });
    await optimisticUpdate<Counter>(blob, async ({ n }) => ({ n: n + 1 }));
    expect(blob.json).toEqual({ n: 4 });
  });

  it("may be a thenable of any make", async () => {
    const { blob } = counterBlob();
    const thenable = { then: (resolve: (value: Counter) => void) => resolve({ n: 7 }) };
    await optimisticUpdate<Counter>(blob, () => thenable as unknown as Promise<Counter>);
    expect(blob.json).toEqual({ n: 7 });
  });

  it("deletes by returning DELETE, conditionally", async () => {
    const { service, blob } = counterBlob();
    expect(await optimisticUpdate<Counter>(blob, () => DELETE)).toStrictEqual({ value: { n: 0 }, outcome: "deleted", attempts: 1, operationId: expect.any(String) as string });
    expect(blob.stored).toBeUndefined();
    expect(service.operations).toEqual(["download", "delete"]);
  });

  it("looks again at what somebody changed before the delete", async () => {
    const { service, blob } = counterBlob();
    service.next("delete", before(() => blob.putKeeping({ n: 5 })));
    const result = await inFakeTime(optimisticUpdate<Counter>(blob, (doc) => (doc.n === 0 ? DELETE : undefined)));
    expect(result).toMatchObject({ outcome: "unchanged", value: { n: 5 } });
    expect(blob.json).toEqual({ n: 5 });
  });

  it("writes nothing if the value is deep-equal, whatever the order of its keys", async () => {
    const { service, blob } = counterBlob();
    blob.put({ a: 1, b: { c: [1, 2], d: null } });
    const result = await optimisticUpdate(blob, () => ({ b: { d: null, c: [1, 2] }, a: 1 }));
    expect(result).toMatchObject({ outcome: "unchanged", etag: blob.stored?.etag });
    expect(service.operations).toEqual(["download"]);
  });

  it("gets the number of its attempt", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", before(() => blob.putKeeping({ n: 5 })));
    const mutator = vi.fn<Mutator<Counter>>(increment);
    await inFakeTime(optimisticUpdate<Counter>(blob, mutator));
    expect(mutator.mock.calls.map(([, { attempt }]) => attempt)).toEqual([1, 2]);
  });

  it("sends nothing after it threw", async () => {
    const { service, blob } = counterBlob();
    const error = new Error("no");
    await expect(
      optimisticUpdate(blob, () => {
        throw error;
      }),
    ).rejects.toBe(error);
    expect(service.operations).toEqual(["download"]);
  });

  it("gets a private copy: what it keeps and changes later is not stored", async () => {
    const { blob } = counterBlob();
    let kept: Counter | undefined;
    const { value } = await optimisticUpdate<Counter>(blob, (doc) => {
      doc.n++;
      kept = doc;
    });
    kept!.n = 99;
    expect(value).toEqual({ n: 1 });
    expect((await optimisticUpdate<Counter>(blob, increment)).value).toEqual({ n: 2 });
  });
});

describe("a target that does not exist", () => {
  it("is an error without an initial value", async () => {
    const { service, blob } = missingBlob();
    const error = await rejection(optimisticUpdate<Counter>(blob, increment));
    expect(error).toBeInstanceOf(TargetNotFoundError);
    expect(error).toMatchObject({ code: "TARGET_NOT_FOUND", url: blob.url });
    expect(service.operations).toEqual(["download"]);
  });

  it("is another error if its container is what is missing", async () => {
    const { service, blob } = missingBlob();
    service.next("download", answer(404, "ContainerNotFound"));
    const error = await rejection(optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } }));
    expect(error).toMatchObject({ name: "TargetNotFoundError", message: expect.stringContaining("create it first") as unknown });
  });

  it("is created from an initial value, which stays the caller's", async () => {
    const { service, blob } = missingBlob();
    const initial = { n: 10 };
    expect(await optimisticUpdate<Counter>(blob, increment, { initial })).toMatchObject({ outcome: "created", value: { n: 11 }, etag: blob.stored?.etag });
    expect(initial).toEqual({ n: 10 });
    expect(service.operations).toEqual(["download", "upload"]);
    expect(blob.stored?.headers.blobContentType).toBe("application/json");
  });

  it("is created from what a function returns, which is not called if the target exists", async () => {
    const { blob } = missingBlob();
    const initial = vi.fn(() => ({ n: 20 }));
    await optimisticUpdate<Counter>(blob, () => undefined, { initial });
    expect(blob.json).toEqual({ n: 20 });
    await optimisticUpdate<Counter>(blob, increment, { initial });
    expect(initial).toHaveBeenCalledTimes(1);
  });

  it("is read again if somebody else's create was first", async () => {
    const { service, blob } = missingBlob();
    service.next("upload", before(() => blob.put({ n: 5 })));
    const result = await inFakeTime(optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } }));
    expect(result).toMatchObject({ outcome: "updated", value: { n: 6 }, attempts: 2 });
    expect(service.operations).toEqual(["download", "upload", "download", "upload"]);
  });

  it("stays away if the mutator removes the initial value", async () => {
    const { service, blob } = missingBlob();
    expect(await optimisticUpdate<Counter>(blob, () => DELETE, { initial: { n: 0 } })).toMatchObject({ outcome: "unchanged", value: { n: 0 } });
    expect(blob.stored).toBeUndefined();
    expect(service.operations).toEqual(["download"]);
  });

  it("is made anew if it was deleted during the update", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", before(() => blob.drop()));
    const result = await inFakeTime(optimisticUpdate<Counter>(blob, increment, { initial: { n: 100 } }));
    expect(result).toMatchObject({ outcome: "created", value: { n: 101 } });
  });
});

describe("startFrom", () => {
  it("saves the read: one request", async () => {
    const { service, blob } = counterBlob();
    const startFrom = await readTarget<Counter>(blob);
    service.requests.length = 0;
    expect(await optimisticUpdate<Counter>(blob, increment, { startFrom })).toMatchObject({ value: { n: 1 }, attempts: 1 });
    expect(service.operations).toEqual(["upload"]);
  });

  it("costs an attempt if it is outdated, and nothing else", async () => {
    const { blob } = counterBlob();
    const startFrom = await readTarget<Counter>(blob);
    blob.putKeeping({ n: 5 });
    expect(await inFakeTime(optimisticUpdate<Counter>(blob, increment, { startFrom }))).toMatchObject({ value: { n: 6 }, attempts: 2 });
  });

  it("is not what a caller that changes nothing is answered from", async () => {
    const { service, blob } = counterBlob();
    const startFrom = await readTarget<Counter>(blob);
    blob.putKeeping({ n: 5 });
    service.requests.length = 0;
    expect(await optimisticUpdate<Counter>(blob, () => undefined, { startFrom })).toMatchObject({ value: { n: 5 }, etag: blob.stored?.etag });
    expect(service.operations).toEqual(["download"]);
  });

  it("is not what a mutator's objection is judged by", async () => {
    const { blob } = counterBlob();
    const startFrom = await readTarget<Counter>(blob);
    blob.putKeeping({ n: 5 });
    const spend = (doc: Counter): void => {
      if (doc.n < 1) throw new Error("nothing left");
      doc.n--;
    };
    expect((await optimisticUpdate<Counter>(blob, spend, { startFrom })).value).toEqual({ n: 4 });
  });

  it("is not disturbed by changes of its value", async () => {
    const { blob } = counterBlob();
    const startFrom = await readTarget<Counter>(blob);
    startFrom.value.n = 1_000;
    expect((await optimisticUpdate<Counter>(blob, increment, { startFrom })).value).toEqual({ n: 1 });
  });

  it("must be of the same target", async () => {
    const { service, blob } = counterBlob();
    const other = new FakeBlockBlob(service, { url: `${blob.url}2` });
    const startFrom = await readTarget<Counter>(blob);
    service.requests.length = 0;
    await expect(optimisticUpdate<Counter>(other, increment, { startFrom })).rejects.toBeInstanceOf(TypeError);
    await expect(optimisticUpdate<Counter>(blob, increment, { startFrom: { value: { n: 0 }, etag: '"1"' } })).rejects.toBeInstanceOf(TypeError);
    await expect(optimisticUpdate(textBlob(blob), () => "", { startFrom: startFrom as never })).rejects.toBeInstanceOf(TypeError);
    expect(service.count()).toBe(0);
  });
});

describe("never an unconditional write", () => {
  it("refuses a blob that is answered without an ETag, and sends nothing more", async () => {
    const { service, blob } = counterBlob();
    blob.withETag = false;
    await expect(optimisticUpdate<Counter>(blob, increment)).rejects.toThrow(/no ETag/);
    expect(service.operations).toEqual(["download"]);
  });

  it("refuses an entity that is answered without an ETag, and sends nothing more", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const getEntity = table.getEntity.bind(table);
    vi.spyOn(table, "getEntity").mockImplementation(async (...args) => ({ ...(await getEntity(...args)), etag: undefined }));
    await expect(optimisticUpdate(tableEntity<Counter>(table, "p", "r"), increment)).rejects.toThrow(/no ETag/);
    expect(service.operations).toEqual(["getEntity"]);
  });

  it("sends the ETag that was read with every write, or a condition that there is none", async () => {
    const { service, blob } = counterBlob();
    const upload = vi.spyOn(blob, "upload");
    const { etag } = blob.stored!;
    await optimisticUpdate<Counter>(blob, increment);
    expect(upload.mock.calls[0]![2]?.conditions).toEqual({ ifMatch: etag });
    blob.drop();
    await optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } });
    expect(upload.mock.calls[1]![2]?.conditions).toEqual({ ifNoneMatch: "*" });
    const table = new FakeTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const stored = table.row()!.etag;
    const update = vi.spyOn(table, "updateEntity");
    await optimisticUpdate(tableEntity<Counter>(table, "p", "r"), increment);
    expect(update.mock.calls[0]![2]?.etag).toBe(stored);
  });
});

describe("exactly once", () => {
  for (const [what, fault] of [["re-sent", loseAnswer], ["given up", loseAnswerForGood], ["lost on the way", loseRequest], ["503", busy]] as const) {
    it(`100 increments are 100, with every third write ${what}`, async () => {
      const { service, blob } = counterBlob();
      for (let i = 0; i < 100; i++) {
        if (i % 3 === 0) service.next("upload", fault);
        await inFakeTime(optimisticUpdate<Counter>(blob, increment));
      }
      expect(blob.json).toEqual({ n: 100 });
    });
  }

  it("waits for a service that is too busy to be read, however often the SDK gives up", async () => {
    const { service, blob } = counterBlob();
    service.next("download", busy, busy, busy, busy, busy);
    expect(await inFakeTime(optimisticUpdate<Counter>(blob, increment))).toMatchObject({ value: { n: 1 }, attempts: 1 });
    expect(blob.json).toEqual({ n: 1 });
  });

  it("gives an ETag that does not match if others wrote on top before the answer was recovered", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", after(() => blob.putKeeping({ n: 50 }), loseAnswer));
    const result = await optimisticUpdate<Counter>(blob, increment);
    expect(result).toMatchObject({ value: { n: 1 }, attempts: 1 });
    expect(result.etag).not.toBe(blob.stored?.etag);
  });

  it("is a CommitUnknownError if it cannot be known, and the mutator is not applied again", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", after(() => blob.put({ n: 50 }), loseAnswer));
    const mutator = vi.fn(increment);
    const error = await rejection(optimisticUpdate<Counter>(blob, mutator));
    expect(error).toBeInstanceOf(CommitUnknownError);
    expect(error).toMatchObject({ code: "COMMIT_UNKNOWN", attempts: 1 });
    expect(mutator).toHaveBeenCalledTimes(1);
    expect(blob.json).toEqual({ n: 50 });
  });

  it("applies again what cannot be known if the caller allows it", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", after(() => blob.put({ n: 50 }), loseAnswer));
    expect(await inFakeTime(optimisticUpdate<Counter>(blob, increment, { onUnknown: "retry" }))).toMatchObject({ value: { n: 51 }, attempts: 2 });
  });

  it("does not say that nothing was written when attempts run out on an unknown outcome", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", after(() => blob.put({ n: 50 }), loseAnswer));
    const error = await rejection(inFakeTime(optimisticUpdate<Counter>(blob, increment, { onUnknown: "retry", maxAttempts: 1 })));
    expect(error).toBeInstanceOf(CommitUnknownError);
  });

  it("does not apply a change of tags twice", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { tags: { count: "1" } });
    service.next("setTags", loseAnswer);
    await optimisticUpdate(blobTags(blob), (tags) => void (tags["count"] = String(Number(tags["count"]) + 1)));
    expect(blob.stored?.tags).toEqual({ count: "2" });
  });

  it("keeps the journal out of values, and writes it under the name that was asked for", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment, { journal: "myLog" });
    expect(Object.keys(blob.metadata)).toEqual(["mylog"]);
    await optimisticUpdate<Counter>(blob, increment, { journal: "myLog" });
    expect(blob.metadata["mylog"]).toMatch(/~2~/);
  });

  it("writes no journal if told so, but leaves that of the others", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment, { journal: false });
    expect(blob.metadata).toEqual({});
    await optimisticUpdate<Counter>(blob, increment);
    const journal = blob.metadata["asc_journal"];
    await optimisticUpdate<Counter>(blob, increment, { journal: false });
    expect(blob.metadata["asc_journal"]).toBe(journal);
  });
});

describe("time and attempts", () => {
  it("is a OperationTimeoutError if the read hangs", async () => {
    const { service, blob } = counterBlob();
    service.each("download", hang);
    const error = rejection(optimisticUpdate<Counter>(blob, increment));
    await vi.advanceTimersByTimeAsync(29_999);
    expect(vi.getTimerCount()).toBe(2); // of the call, and of its third try
    expect(service.count()).toBe(3);
    await vi.advanceTimersByTimeAsync(1);
    expect(await error).toBeInstanceOf(OperationTimeoutError);
    expect(await error).toMatchObject({ code: "OPERATION_TIMEOUT", elapsedInMs: 30_000 });
  });

  for (const fault of [hang, hangAfterCommit]) {
    it(`is a CommitUnknownError if the write hangs (${fault === hang ? "before" : "after"} the service)`, async () => {
      const { service, blob } = counterBlob();
      service.each("upload", fault);
      service.next("download", pass);
      service.each("download", hang);
      const error = rejection(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 500 }));
      await vi.advanceTimersByTimeAsync(500);
      expect(await error).toBeInstanceOf(CommitUnknownError);
      expect(await error).toMatchObject({ cause: { name: "OperationTimeoutError" } });
    });
  }

  it("is a OperationTimeoutError while a later mutator of the same write runs: nothing was sent", async () => {
    const { blob } = counterBlob();
    const error = rejection(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 20 }));
    const other = optimisticUpdate<Counter>(blob, async (doc) => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      doc.n++;
    });
    await vi.advanceTimersByTimeAsync(200);
    expect(await error).toBeInstanceOf(OperationTimeoutError);
    expect((await other).value).toEqual({ n: 1 });
  });

  it("is a ConflictError if the time runs out over lost races", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", ...Array<Fault>(100).fill(before(() => blob.putKeeping({ n: 5 }))));
    vi.spyOn(Math, "random").mockReturnValue(0.999);
    const error = rejection(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 3_000, maxAttempts: 1_000 }));
    await vi.advanceTimersByTimeAsync(3_000);
    expect(await error).toBeInstanceOf(ConflictError);
    expect(await error).toMatchObject({ elapsedInMs: 3_000, cause: { name: "OperationTimeoutError" } });
    vi.mocked(Math.random).mockRestore();
    expect((await error)["attempts"]).toBe(9); // waits of 10, 20, ... 1000, 1000 ms
  });

  it("is unknown if the time runs out before it is read whether the race was lost to a copy of the write", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", before(() => blob.putKeeping({ n: 5 })));
    service.next("download", pass);
    service.each("download", hang);
    const error = rejection(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 500 }));
    await vi.advanceTimersByTimeAsync(500);
    expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown" });
  });

  it("does not claim that nothing was written if an earlier write may have landed", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", after(() => blob.put({ n: 7 }), loseAnswerForGood)); // a foreign writer drops the journal
    service.next("download", pass, pass);
    service.each("download", hang);
    service.next("upload", before(() => blob.put({ n: 8 })));
    const error = rejection(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 500, onUnknown: "retry" }));
    await vi.advanceTimersByTimeAsync(500);
    expect(await error).toBeInstanceOf(CommitUnknownError);
    expect(service.operations.slice(0, 5)).toEqual(["download", "upload", "download", "upload", "download"]);
    expect(service.count("upload")).toBe(2);
  });

  it("is a ConflictError if the attempts run out, with what happened", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", ...Array<Fault>(100).fill(before(() => blob.putKeeping({ n: 5 }))));
    const mutator = vi.fn(increment);
    const error = await rejection(inFakeTime(optimisticUpdate<Counter>(blob, mutator, { maxAttempts: 4 })));
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({ code: "CONFLICT", attempts: 4, currentETag: expect.any(String) as unknown, cause: { statusCode: 412 } });
    expect(mutator).toHaveBeenCalledTimes(4);
    // The last conflict is confirmed by a read, too: that nothing was written is certain only if the stored journal says so.
    expect(service.count()).toBe(9);
  });

  it("waits with full jitter over an exponential after each lost race, up to the maximum", async () => {
    const { service, blob } = counterBlob();
    const sentAt: number[] = [];
    const lose: Fault = (exchange) => {
      sentAt.push(performance.now());
      return before(() => blob.putKeeping({ n: 5 }))(exchange);
    };
    service.next("upload", ...Array<Fault>(6).fill(lose));
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    await rejection(inFakeTime(optimisticUpdate<Counter>(blob, increment, { retryDelayInMs: 100, maxRetryDelayInMs: 500, maxAttempts: 6 })));
    vi.mocked(Math.random).mockRestore();
    expect(sentAt.slice(1).map((at, i) => at - sentAt[i]!)).toEqual([50, 100, 200, 250, 250]);
  });

  it("has no deadline if the time is infinite", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment, { timeoutInMs: Number.POSITIVE_INFINITY });
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("errors of the service", () => {
  it("passes on what has nothing to do with concurrency, as it is", async () => {
    const { service, blob } = counterBlob();
    service.next("download", answer(403, "AuthorizationFailure"));
    expect(await rejection(optimisticUpdate<Counter>(blob, increment))).toMatchObject({ name: "RestError", statusCode: 403 });
    expect(service.count()).toBe(1);
  });

  it("says at once that somebody else has a lease, without spinning", async () => {
    const { service, blob } = counterBlob();
    blob.stored!.leaseId = "somebody";
    const error = await rejection(optimisticUpdate<Counter>(blob, increment));
    expect(error).toBeInstanceOf(LeaseUnavailableError);
    expect(error).toMatchObject({ url: blob.url, cause: { code: "LeaseIdMissing" } });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  it("works under the caller's own lease", async () => {
    const { blob } = counterBlob();
    blob.stored!.leaseId = "mine";
    expect((await optimisticUpdate<Counter>(blob, increment, { conditions: { leaseId: "mine" } })).value).toEqual({ n: 1 });
  });

  it("says at once that the lease is another", async () => {
    const { service, blob } = counterBlob();
    blob.stored!.leaseId = "mine";
    const error = await rejection(optimisticUpdate<Counter>(blob, increment, { conditions: { leaseId: "old" } }));
    expect(error).toBeInstanceOf(LeaseUnavailableError);
    expect(service.count()).toBe(1);
  });

  it("never shows the signature of a SAS", async () => {
    const service = new FakeService();
    const blob = new FakeBlockBlob(service, { url: "https://account.blob.core.windows.net/docs/doc?sig=SECRET" });
    const error = await rejection(optimisticUpdate<Counter>(blob, increment));
    expect(`${error.message} ${String(error["url"])}`).not.toContain("SECRET");
  });
});
