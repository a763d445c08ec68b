import { describe, expect, it, vi } from "vitest";

import { appendExactlyOnce, type AppendExactlyOnceOptions, type AppendResult } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { after, answer, before, failAfterCommit, gate, ghost, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

function emptyLog(text = ""): { service: FakeService; blob: FakeAppendBlob } {
  const service = new FakeService();
  const blob = new FakeAppendBlob(service);
  blob.put(text);
  return { service, blob };
}

const append = (blob: FakeAppendBlob, data: string | Uint8Array, options?: AppendExactlyOnceOptions): Promise<AppendResult> =>
  inFakeTime(appendExactlyOnce(blob, data, options));

describe("an append", () => {
  it("tells where the record stands and how many blocks there are", async () => {
    const { blob } = emptyLog("head\n");
    expect(await append(blob, "one\n")).toEqual({ offset: 5, committedBlockCount: 2, attempts: 1 });
    expect(blob.text).toBe("head\none\n");
  });

  it("takes bytes as they are, and a copy of them", async () => {
    const { service, blob } = emptyLog();
    const data = new Uint8Array([1, 2, 3]);
    const held = gate();
    service.next("appendBlock", held.fault);
    const appended = appendExactlyOnce(blob, data);
    await held.reached;
    data.fill(9);
    held.open();
    await appended;
    expect([...(blob.stored?.content ?? [])]).toEqual([1, 2, 3]);
  });

  it("costs a look, a claim and a block; the next one through the same client no look", async () => {
    const { service, blob } = emptyLog();
    await append(blob, "a");
    expect(service.operations).toEqual(["getProperties", "setMetadata", "appendBlock"]);
    await append(blob, "b");
    expect(service.operations.slice(3)).toEqual(["setMetadata", "appendBlock"]);
  });

  it("costs one request when records are unique and the end is known", async () => {
    const { service, blob } = emptyLog();
    await append(blob, "a", { uniqueRecords: true });
    await append(blob, "b", { uniqueRecords: true });
    expect(service.operations).toEqual(["getProperties", "appendBlock", "appendBlock"]);
  });

  it("keeps the metadata of the blob", async () => {
    const { blob } = emptyLog();
    blob.putMetadata({ owner: "me" });
    await append(blob, "a");
    expect(blob.stored?.metadata).toMatchObject({ owner: "me" });
  });

  it("goes where the end is when others appended since the last one", async () => {
    const { blob } = emptyLog();
    await append(blob, "a");
    blob.appendForeign("xx");
    // What was only remembered is no attempt.
    expect(await append(blob, "b", { maxAttempts: 1 })).toMatchObject({ offset: 3, attempts: 1 });
    expect(blob.text).toBe("axxb");
  });

  it("tries again when others append between its claim and its block", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", before(() => blob.appendForeign("x")));
    expect(await append(blob, "a")).toMatchObject({ offset: 1, attempts: 2 });
    expect(blob.text).toBe("xa");
  });

  it("gives up after maxAttempts with a ConflictError, and has appended nothing", async () => {
    const { service, blob } = emptyLog();
    for (let i = 0; i < 3; i++) service.next("appendBlock", before(() => blob.appendForeign("x")));
    const error = await rejection(append(blob, "a", { maxAttempts: 3 }));
    expect(error).toMatchObject({ name: "ConflictError", attempts: 3 });
    expect(blob.text).toBe("xxx");
  });

  it("counts claims that were lost as attempts", async () => {
    const { service, blob } = emptyLog();
    for (let i = 0; i < 3; i++) service.next("setMetadata", before(() => blob.putMetadata({ i: String(i) })));
    expect(await rejection(append(blob, "a", { maxAttempts: 3 }))).toMatchObject({ name: "ConflictError", attempts: 3 });
    expect(service.count("setMetadata")).toBe(3);
  });
});

describe("a group of appends", () => {
  it("makes one block of the records that wait, in order, and each caller learns its own offset", async () => {
    const { service, blob } = emptyLog();
    const results = await inFakeTime(Promise.all(Array.from({ length: 1_000 }, (_, i) => appendExactlyOnce(blob, `${i}\n`))));
    expect(blob.text).toBe(Array.from({ length: 1_000 }, (_, i) => `${i}\n`).join(""));
    for (const [i, { offset }] of results.entries()) expect(blob.text.slice(offset).split("\n", 1)).toEqual([String(i)]);
    expect(service.requests).toHaveLength(3);
  });

  it("begins a new block at maxBatchSizeInBytes; a larger record is a block of its own", async () => {
    const { blob } = emptyLog();
    const records = ["aa", "bb", "ccccccc", "d"];
    const results = await inFakeTime(Promise.all(records.map((r) => appendExactlyOnce(blob, r, { maxBatchSizeInBytes: 4 }))));
    expect(results.map((r) => [r.offset, r.committedBlockCount])).toEqual([[0, 1], [2, 1], [4, 2], [11, 3]]);
  });

  it("leaves out a record whose caller has gone before it was sent", async () => {
    const { service, blob } = emptyLog();
    const held = gate();
    service.next("setMetadata", held.fault);
    const leaving = countingController();
    const gone = appendExactlyOnce(blob, "gone", { abortSignal: leaving.signal });
    const stays = appendExactlyOnce(blob, "stays");
    await held.reached;
    leaving.abort("left");
    held.open();
    await stays;
    await expect(gone).rejects.toBe("left");
    expect(blob.text).toBe("stays");
    expect(leaving.listeners()).toBe(0);
  });

  it("is not shared with coalesce: false, nor with other rights", async () => {
    const { service, blob } = emptyLog();
    const others = new FakeAppendBlob(service, { pipeline: {} });
    await inFakeTime(Promise.all([appendExactlyOnce(blob, "a"), appendExactlyOnce(blob, "b", { coalesce: false }), appendExactlyOnce(others, "c")]));
    expect(Array.from(blob.text).sort()).toEqual(["a", "b", "c"]);
    expect(blob.stored?.blocks).toBe(3);
  });

  it("lets others have their turn after 16 blocks", async () => {
    const { service, blob } = emptyLog();
    const appends = Promise.all(Array.from({ length: 40 }, (_, i) => appendExactlyOnce(blob, `${i}\n`, { maxBatchSizeInBytes: 1 })));
    await vi.advanceTimersByTimeAsync(5);
    expect(service.count("appendBlock")).toBe(16);
    await inFakeTime(appends);
    expect(service.count("appendBlock")).toBe(40);
  });
});

describe.each([
  { mode: "with claims", options: {} },
  { mode: "with unique records", options: { uniqueRecords: true } },
])("when the network fails, $mode,", ({ options }) => {
  it.each([
    { what: "the answer is lost and the SDK sends again", fault: loseAnswer },
    { what: "the answer is lost for good", fault: loseAnswerForGood },
    { what: "the request is lost", fault: loseRequest },
    { what: "the service commits and answers 500", fault: failAfterCommit },
  ])("a record is appended once: $what", async ({ fault }) => {
    const { service, blob } = emptyLog("-");
    service.next("appendBlock", fault);
    expect(await append(blob, "a", options)).toMatchObject({ offset: 1, attempts: 1 });
    expect(blob.text).toBe("-a");
  });

  it("a record is found under those that others appended on top", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", after(() => blob.appendForeign("xyz"), loseAnswer));
    expect(await append(blob, "a", options)).toMatchObject({ offset: 0, attempts: 1 });
    expect(blob.text).toBe("axyz");
  });

  it("somebody else's record at the position is not taken for it", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", before(() => blob.appendForeign("x")));
    service.next("appendBlock", loseAnswer);
    service.next("appendBlock", before(() => blob.appendForeign("yy")));
    expect(await append(blob, "a", options)).toMatchObject({ offset: 1 });
    expect(blob.text).toBe("xa");
  });

  it("a lost race whose answer was lost too is a lost race", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", (exchange) => {
      blob.appendForeign("x");
      return loseAnswer(exchange);
    });
    expect(await append(blob, "a", options)).toMatchObject({ offset: 1, attempts: 2 });
    expect(blob.text).toBe("xa");
  });

  it("a first try that arrives late does not append again", async () => {
    const { service, blob } = emptyLog();
    const late = ghost();
    service.next("appendBlock", late.fault);
    await append(blob, "a", options);
    late.arrive();
    expect(blob.text).toBe("a");
  });

  it("is a CommitUnknownError if the blob is made anew meanwhile", async () => {
    const { service, blob } = emptyLog("long head");
    service.next("appendBlock", after(() => blob.put(""), loseAnswerForGood));
    expect(await rejection(append(blob, "a", options))).toMatchObject({ name: "CommitUnknownError" });
  });

  it("appends again if it was told to do so when nobody can know", async () => {
    const { service, blob } = emptyLog("long head");
    service.next("appendBlock", after(() => blob.put("anew"), loseAnswerForGood));
    await append(blob, "a", { ...options, onUnknown: "retry" });
    expect(blob.text).toBe("anewa");
  });

  it("reads back again when that fails as well", async () => {
    const { service, blob } = emptyLog();
    service.next("getProperties", (e) => e.send(), loseRequest, loseRequest);
    service.next("appendBlock", loseAnswerForGood);
    await append(blob, "a", options);
    expect(blob.text).toBe("a");
  });

  it("a deadline while the block is on its way is a CommitUnknownError", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", hangAfterCommit);
    expect(await rejection(append(blob, "a", { ...options, timeoutInMs: 100, tryTimeoutInMs: 1_000 }))).toMatchObject({ name: "CommitUnknownError" });
  });

  it("a deadline before that says that nothing was appended", async () => {
    const { service, blob } = emptyLog();
    service.next("getProperties", hang);
    expect(await rejection(append(blob, "a", { ...options, timeoutInMs: 100, tryTimeoutInMs: 1_000 }))).toMatchObject({ name: "OperationTimeoutError" });
    expect(blob.text).toBe("");
  });
});

describe("a request that the network swallows", () => {
  it.each([
    { what: "the look", operation: "getProperties", fault: hang },
    { what: "the claim", operation: "setMetadata", fault: hang },
    { what: "the claim, after it was written", operation: "setMetadata", fault: hangAfterCommit },
    { what: "the block", operation: "appendBlock", fault: hang },
    { what: "the block, after it was appended", operation: "appendBlock", fault: hangAfterCommit },
  ])("does not stop the calls that come after it: $what", async ({ operation, fault }) => {
    const { service, blob } = emptyLog();
    service.next(operation, fault);
    const calls: Promise<AppendResult>[] = [];
    // A new caller every 100 ms, each with a second: the shared request is never without a caller that waits for it.
    for (let n = 0; n < 80; n++) {
      calls.push(appendExactlyOnce(blob, `<${n}>`, { timeoutInMs: 1_000 }));
      await vi.advanceTimersByTimeAsync(100);
    }
    const outcomes = await inFakeTime(Promise.allSettled(calls));
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(80);
    expect(blob.text.match(/<\d+>/g)).toHaveLength(80);
    expect(new Set(blob.text.match(/<\d+>/g)).size).toBe(80);
  });

  it("takes the time of tryTimeoutInMs", async () => {
    const { service, blob } = emptyLog();
    service.next("getProperties", hang);
    const started = performance.now();
    await append(blob, "a", { tryTimeoutInMs: 500 });
    expect(performance.now() - started).toBeGreaterThanOrEqual(500);
    expect(performance.now() - started).toBeLessThan(700);
  });
});

it("rejects text that is not well-formed: other characters would be stored", async () => {
  const { blob } = emptyLog();
  expect(await rejection(append(blob, "a\ud800b"))).toBeInstanceOf(RangeError);
  expect(blob.text).toBe("");
});

it("is of unknown outcome if the blob is deleted and created again, even if it is longer by then", async () => {
  const { service, blob } = emptyLog();
  blob.put("old ", { createdOn: new Date(1_000) });
  const recreate = (): void => {
    blob.drop();
    blob.put("another log of the same name", { createdOn: new Date(2_000) });
  };
  service.next("appendBlock", after(recreate, loseAnswerForGood));
  expect(await rejection(append(blob, "tick"))).toMatchObject({ name: "CommitUnknownError" });
  expect(blob.text).toBe("another log of the same name");
});

describe("identical records of two appenders", () => {
  it("are both there when one of them lost its answer and the other was first", async () => {
    const { service, blob } = emptyLog();
    const other = new FakeAppendBlob(service, { pipeline: {} });
    // The other appends the same bytes at the same position, between our claim and our block.
    service.next("appendBlock", async (exchange) => {
      await appendExactlyOnce(other, "tick");
      return loseAnswer(exchange);
    });
    expect(await append(blob, "tick")).toMatchObject({ offset: 4, attempts: 2 });
    expect(blob.text).toBe("ticktick");
  });

  it("are both there when one comes between the other's claim and its block", async () => {
    const { service, blob } = emptyLog();
    const other = new FakeAppendBlob(service, { pipeline: {} });
    const held = gate();
    service.next("appendBlock", held.fault);
    const first = appendExactlyOnce(blob, "tick");
    await held.reached;
    // The other takes the position over; before its block arrives, ours does, which must be refused then.
    service.next("appendBlock", async (exchange) => {
      held.open();
      await vi.advanceTimersByTimeAsync(1);
      return loseAnswer(exchange);
    });
    const results = await inFakeTime(Promise.all([first, appendExactlyOnce(other, "tick")]));
    expect(results.map(({ offset }) => offset).sort()).toEqual([0, 4]);
    expect(blob.text).toBe("ticktick");
  });

  it("cannot be told apart if old claims are written back over those of a record that was appended", async () => {
    const { service, blob } = emptyLog();
    const other = new FakeAppendBlob(service, { pipeline: {} });
    // The other has claimed the position, and is gone.
    service.next("appendBlock", hang);
    const gone = new AbortController();
    const claimed = rejection(appendExactlyOnce(other, "tock", { abortSignal: gone.signal }));
    await vi.advanceTimersByTimeAsync(10);
    gone.abort();
    await claimed;
    const old = { ...blob.stored!.metadata };
    service.next("appendBlock", after(() => blob.putMetadata(old), loseAnswerForGood));
    expect(await rejection(append(blob, "tick"))).toMatchObject({ name: "CommitUnknownError" });
    expect(blob.text).toBe("tick");
  });

  it("cannot be told apart if one is appended past the claims and the claims are dropped", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", after(() => blob.putMetadata({}), loseAnswer));
    expect(await rejection(append(blob, "tick"))).toMatchObject({ name: "CommitUnknownError" });
  });

  it("are told apart by their bytes where the claim is gone but the bytes differ", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", (exchange) => {
      blob.appendForeign("tock");
      blob.putMetadata({});
      return loseAnswer(exchange);
    });
    expect(await append(blob, "tick")).toMatchObject({ offset: 4 });
  });
});

describe("claims", () => {
  it("are written again when their answer is lost, and the record follows", async () => {
    const { service, blob } = emptyLog();
    service.next("setMetadata", loseAnswer);
    expect(await append(blob, "a")).toMatchObject({ offset: 0 });
    service.next("setMetadata", loseRequest);
    expect(await append(blob, "b")).toMatchObject({ offset: 1 });
    expect(blob.text).toBe("ab");
  });

  it("of somebody who is about to append are waited for, but not for ever", async () => {
    const { service, blob } = emptyLog();
    const dead = new FakeAppendBlob(service, { pipeline: {} });
    const held = gate();
    service.next("appendBlock", held.fault);
    const died = rejection(appendExactlyOnce(dead, "never", { timeoutInMs: 5, tryTimeoutInMs: 1_000 }));
    await held.reached;
    expect(await append(blob, "a")).toMatchObject({ offset: 0 });
    expect(service.operations.slice(3)).toEqual(["getProperties", "getProperties", "setMetadata", "appendBlock"]);
    expect(await died).toMatchObject({ name: "CommitUnknownError" });
    expect(blob.text).toBe("a");
  });

  it("stay within the limit of metadata however long the blob lives", async () => {
    const { blob } = emptyLog();
    for (let i = 0; i < 200; i++) await append(blob, `record ${i}`);
    expect(blob.stored?.metadata["asc_appends"]?.length).toBeLessThan(2_000);
  });
});

describe("the metadata of others", () => {
  const sizeOf = (metadata: Record<string, string>): number =>
    Object.entries(metadata).reduce((sum, [name, value]) => sum + name.length + new TextEncoder().encode(value).length, 0);

  it("leave the claims less room, which are then fewer", async () => {
    const { blob } = emptyLog();
    const others = { a: "x".repeat(7_000), B: "y".repeat(800) };
    await blob.setMetadata(others);
    for (let i = 0; i < 100; i++) await append(blob, `record ${i}`);
    expect(blob.stored?.metadata).toMatchObject(others);
    expect(sizeOf(blob.stored!.metadata)).toBeLessThanOrEqual(8_192);
    expect(sizeOf(blob.stored!.metadata)).toBeGreaterThan(8_192 - 40);
  });

  it("that leave no room at all are passed on as what the service says", async () => {
    const { service, blob } = emptyLog();
    await blob.setMetadata({ a: "x".repeat(8_180) });
    service.next("setMetadata", answer(400, "MetadataTooLarge"));
    expect(await rejection(append(blob, "record"))).toMatchObject({ code: "MetadataTooLarge" });
    expect(blob.text).toBe("");
  });
});

describe("a blob that is not there", () => {
  it("is a TargetNotFoundError", async () => {
    const { blob } = emptyLog();
    blob.drop();
    expect(await rejection(append(blob, "a"))).toMatchObject({ name: "TargetNotFoundError", url: blob.url });
  });

  it("is made with createIfNotExists, once, also if the answer is lost", async () => {
    const { service, blob } = emptyLog();
    blob.drop();
    service.next("create", loseAnswer);
    const createIfNotExists = { contentType: "application/jsonl", metadata: { kind: "audit" } };
    await append(blob, "a", { createIfNotExists });
    expect(blob.stored).toMatchObject({ contentType: "application/jsonl", metadata: { kind: "audit" } });
    expect(blob.text).toBe("a");
  });

  it.each(["ContainerBeingDeleted", "PendingCopyOperation"])("is created when the service has rejected that for a while: %s", async (code) => {
    const { service, blob } = emptyLog();
    blob.drop();
    service.next("create", answer(409, code), answer(409, code), answer(409, code));
    await append(blob, "a", { createIfNotExists: true });
    expect([service.count("create"), blob.text]).toEqual([4, "a"]);
  });

  it.each([409, 412])("is read after a %i with an unknown code: another client may have created it", async (status) => {
    const { service, blob } = emptyLog();
    blob.drop();
    service.next("create", before(() => blob.put("head")), answer(status, "SomethingNew"));
    await append(blob, "a", { createIfNotExists: true });
    expect(blob.text).toBe("heada");
    blob.drop();
    service.next("create", answer(status, "SomethingNew"));
    expect(await append(blob, "b", { createIfNotExists: true })).toMatchObject({ offset: 0 });
  });

  it("is the service's own error if it keeps rejecting the create with an unknown code", async () => {
    const { service, blob } = emptyLog();
    blob.drop();
    service.next("create", ...Array.from({ length: 20 }, () => answer(409, "SomethingNew")));
    expect(await rejection(append(blob, "a", { createIfNotExists: true }))).toMatchObject({ statusCode: 409, code: "SomethingNew" });
  });

  it("is not emptied when somebody else makes it at the same time, with or without a lease", async () => {
    const { service, blob } = emptyLog();
    blob.drop();
    service.next("create", before(() => blob.put("head", { leaseId: "mine" })));
    await append(blob, "a", { createIfNotExists: true, conditions: { leaseId: "mine" } });
    expect(blob.text).toBe("heada");
  });

  it("that is deleted after it was remembered is made again", async () => {
    const { blob } = emptyLog();
    await append(blob, "a");
    blob.drop();
    expect(await append(blob, "b", { createIfNotExists: true })).toMatchObject({ offset: 0 });
  });
});

describe("what does not fit", () => {
  it("is a LimitError if the blob has 50,000 blocks", async () => {
    const { service, blob } = emptyLog();
    blob.put("x", { blocks: 50_000 });
    expect(await rejection(append(blob, "a"))).toMatchObject({ code: "APPEND_LIMIT", limit: "blocks" });
    expect(service.count("write")).toBe(0);
  });

  it("is a LimitError if only the service knows that", async () => {
    const { service, blob } = emptyLog();
    service.next("appendBlock", answer(409, "BlockCountExceedsLimit"));
    expect(await rejection(append(blob, "a"))).toMatchObject({ code: "APPEND_LIMIT", limit: "blocks" });
  });

  it("is a LimitError beyond maxSizeInBytes, for that record alone", async () => {
    const { blob } = emptyLog("12345");
    const [large, small] = await inFakeTime(
      Promise.allSettled([appendExactlyOnce(blob, "678901", { maxSizeInBytes: 10 }), appendExactlyOnce(blob, "6789", { maxSizeInBytes: 10 })]),
    );
    expect(large).toMatchObject({ reason: { code: "APPEND_LIMIT", limit: "size" } });
    expect(small).toMatchObject({ value: { offset: 5 } });
    expect(await rejection(append(blob, "00", { maxSizeInBytes: 10 }))).toMatchObject({ limit: "size" });
    expect(blob.text).toBe("123456789");
  });

  it("fits again after the blob was made anew", async () => {
    const { blob } = emptyLog("12345");
    await append(blob, "6");
    blob.put("");
    expect(await append(blob, "1234", { maxSizeInBytes: 5 })).toMatchObject({ offset: 0 });
  });

  it("is a LimitError for a record of more than 100 MiB, before any request", async () => {
    const { service, blob } = emptyLog();
    expect(await rejection(append(blob, new Uint8Array(100 * 1024 * 1024 + 1)))).toMatchObject({ code: "APPEND_LIMIT", limit: "record" });
    expect(service.requests).toHaveLength(0);
  });
});

describe("leases", () => {
  it("of others are a LeaseUnavailableError at once", async () => {
    const { service, blob } = emptyLog();
    blob.put("", { leaseId: "theirs" });
    expect(await rejection(append(blob, "a"))).toMatchObject({ name: "LeaseUnavailableError" });
    expect(service.requests).toHaveLength(2);
    expect(await append(blob, "a", { conditions: { leaseId: "theirs" } })).toMatchObject({ offset: 0 });
  });
});

describe("bad input is refused before any request", () => {
  it.each([
    { what: "no append blob", args: [{}, "a"], error: TypeError },
    { what: "nothing", args: [undefined, "a"], error: TypeError },
    { what: "empty data", args: ["blob", ""], error: RangeError },
    { what: "data of another type", args: ["blob", { a: 1 }], error: TypeError },
    { what: "an ifMatch of the caller's", args: ["blob", "a", { conditions: { ifMatch: "x" } }], error: TypeError },
    { what: "a batch of nothing", args: ["blob", "a", { maxBatchSizeInBytes: 0 }], error: RangeError },
    { what: "a word for createIfNotExists", args: ["blob", "a", { createIfNotExists: "yes" }], error: TypeError },
    { what: "null for createIfNotExists", args: ["blob", "a", { createIfNotExists: null }], error: /createIfNotExists/ },
    { what: "a word for uniqueRecords", args: ["blob", "a", { uniqueRecords: "false" }], error: TypeError },
    { what: "metadata of the library's", args: ["blob", "a", { createIfNotExists: { metadata: { ASC_appends: "x" } } }], error: TypeError },
  ])("$what", async ({ args, error }) => {
    const { service, blob } = emptyLog();
    const [target, ...rest] = args;
    const call = appendExactlyOnce as (...args: unknown[]) => Promise<unknown>;
    await expect(call(target === "blob" ? blob : target, ...rest)).rejects.toThrow(error);
    expect(service.requests).toHaveLength(0);
  });

  it("a blob of another type", async () => {
    const service = new FakeService();
    const blob = new (class extends FakeAppendBlob {
      override readonly blobType = "BlockBlob";
    })(service);
    blob.put("");
    expect((await rejection(append(blob, "a"))).message).toContain("is a BlockBlob, not an append blob");
  });
});

describe("a caller that goes", () => {
  it("ends the request that nobody else waits for, and leaves nothing behind", async () => {
    const { service, blob } = emptyLog();
    service.next("getProperties", hang);
    const { abort, signal, listeners } = countingController();
    const gone = rejection(appendExactlyOnce(blob, "a", { abortSignal: signal }));
    await vi.advanceTimersByTimeAsync(10);
    abort(new Error("enough"));
    expect((await gone).message).toBe("enough");
    expect(listeners()).toBe(0);
    await append(blob, "b");
    expect(blob.text).toBe("b");
  });

  it("before it came asks for nothing", async () => {
    const { service, blob } = emptyLog();
    await expect(append(blob, "a", { abortSignal: AbortSignal.abort("no") })).rejects.toBe("no");
    expect(service.requests).toHaveLength(0);
  });
});
