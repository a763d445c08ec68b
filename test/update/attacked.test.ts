import { describe, expect, it, vi } from "vitest";
import { ConcurrentBlob, DELETE, deleteIfUnchanged, optimisticUpdate, overwrite, resolveOutcome } from "../../src/index.js";
import type { CommitUnknownError } from "../../src/index.js";
import { before, hang, hangAfterCommit, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

/** An update that ends in a CommitUnknownError; `fault` says what happens to its write. */
async function unknown(own: ReturnType<typeof counterBlob>, fault: typeof hang, options: object = {}): Promise<string> {
  own.service.next("upload", fault);
  own.service.next("download", pass);
  own.service.each("download", hang);
  const error = rejection(optimisticUpdate<Counter>(own.blob, increment, { timeoutInMs: 100, ...options }));
  await vi.advanceTimersByTimeAsync(100);
  own.service.heal();
  return ((await error) as unknown as CommitUnknownError).operationId;
}

describe("the operationId of a CommitUnknownError", () => {
  it("can be repeated several times: applied once, and the ids of other operations stay in the journal", async () => {
    const own = counterBlob();
    await optimisticUpdate<Counter>(own.blob, increment, { operationId: "order-1" });
    const token = await unknown(own, loseRequest);
    expect(await unknown(own, loseAnswerForGood, { operationId: token })).toBe(token);
    expect(await resolveOutcome(own.blob, token)).toBe("committed");
    await inFakeTime(optimisticUpdate<Counter>(own.blob, increment, { operationId: token }));
    await inFakeTime(optimisticUpdate<Counter>(own.blob, increment, { operationId: "order-1" }));
    expect(own.blob.json).toEqual({ n: 2 });
  });

  it("is not applied a second time when it has left the journal, unless the caller accepts that", async () => {
    for (const fault of [loseAnswerForGood, loseRequest]) {
      const own = counterBlob();
      await optimisticUpdate<Counter>(own.blob, increment);
      const token = await unknown(own, fault);
      for (let i = 0; i < 40; i++) await optimisticUpdate<Counter>(own.blob, increment);
      const { n } = own.blob.json as Counter;
      expect(await resolveOutcome(own.blob, token)).toBe("unknown");
      expect(await inFakeTime(rejection(optimisticUpdate<Counter>(own.blob, increment, { operationId: token })))).toMatchObject({ code: "COMMIT_UNKNOWN", operationId: token });
      expect(own.blob.json).toEqual({ n });
      await optimisticUpdate<Counter>(own.blob, increment, { operationId: token, onUnknown: "retry" });
      expect(own.blob.json).toEqual({ n: n + 1 });
    }
  });

  it.each<[string, (own: ReturnType<typeof counterBlob>) => unknown]>([
    ["rewritten without its journal", ({ blob }) => blob.put({ n: 7 })],
    ["rewritten without its journal, and updated", async ({ blob }) => {
      blob.put({ n: 6 });
      await optimisticUpdate<Counter>(blob, increment);
    }],
    ["deleted and created again", async ({ blob }) => {
      blob.drop();
      await optimisticUpdate<Counter>(blob, increment, { initial: { n: 6 } });
    }],
    ["deleted", ({ blob }) => blob.drop()],
  ])("is not applied a second time when the target was %s, unless the caller accepts that", async (what, interfere) => {
    for (const journaled of [true, false]) {
      for (const fault of [loseAnswerForGood, loseRequest]) {
        const own = counterBlob();
        if (journaled) await optimisticUpdate<Counter>(own.blob, increment);
        const token = await unknown(own, fault);
        await interfere(own);
        const repeat = (options: object = {}): Promise<unknown> => optimisticUpdate<Counter>(own.blob, increment, { operationId: token, initial: { n: 7 }, ...options });
        expect(await resolveOutcome(own.blob, token)).toBe("unknown");
        expect(await inFakeTime(rejection(repeat()))).toMatchObject({ code: "COMMIT_UNKNOWN", operationId: token });
        expect(own.blob.stored && own.blob.json).toEqual(what === "deleted" ? undefined : { n: 7 });
        await repeat({ onUnknown: "retry" });
        expect(own.blob.json).toEqual({ n: 8 });
      }
    }
  });

  it("of a delete does not say that nothing was deleted when the target is gone", async () => {
    const own = counterBlob();
    own.service.next("delete", loseAnswerForGood);
    own.service.next("download", pass);
    own.service.each("download", hang);
    const error = rejection(optimisticUpdate<Counter>(own.blob, () => DELETE, { timeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(100);
    own.service.heal();
    const { operationId } = (await error) as unknown as CommitUnknownError;
    expect(own.blob.stored).toBeUndefined();
    expect(await inFakeTime(rejection(optimisticUpdate<Counter>(own.blob, () => DELETE, { operationId })))).toMatchObject({ committed: "unknown", operationId });
  });

  it("of a create is applied if the target does not exist, and not if another one is in its place", async () => {
    for (const exists of [false, true]) {
      const own = counterBlob();
      own.blob.drop();
      const token = await unknown(own, loseRequest, { initial: { n: 0 } });
      if (exists) own.blob.put({ n: 1 });
      const repeated = await inFakeTime(optimisticUpdate<Counter>(own.blob, increment, { operationId: token, initial: { n: 0 } }).catch((error: unknown) => error));
      expect(repeated).toMatchObject(exists ? { code: "COMMIT_UNKNOWN" } : { outcome: "created" });
      expect(own.blob.json).toEqual({ n: 1 });
    }
  });

  it("of a create or an overwrite is found under any number of later writes", async () => {
    const created = counterBlob();
    created.blob.drop();
    const token = await unknown(created, loseAnswerForGood, { initial: { n: 0 } });
    const { service, blob } = counterBlob();
    service.next("upload", hangAfterCommit);
    service.each("download", hang);
    const error = rejection(overwrite<Counter>(blob, { n: 10 }, { timeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(100);
    service.heal();
    for (let i = 0; i < 40; i++) for (const each of [created.blob, blob]) await optimisticUpdate<Counter>(each, increment);
    const { operationId } = (await error) as unknown as CommitUnknownError;
    for (const [each, id] of [[created.blob, token], [blob, operationId]] as const) expect(await resolveOutcome(each, id)).toBe("committed");
    await optimisticUpdate<Counter>(created.blob, increment, { operationId: token });
    await overwrite<Counter>(blob, { n: 10 }, { operationId });
    expect(created.blob.json).toEqual({ n: 41 });
    expect(blob.json).toEqual({ n: 50 });
  });

  it("is found although other callers of the same write know that it was committed", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", hangAfterCommit);
    const left = rejection(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 100, tryTimeoutInMs: 1_000 }));
    const stays = optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 60_000, tryTimeoutInMs: 1_000 });
    await vi.advanceTimersByTimeAsync(100);
    const { operationId } = (await left) as unknown as CommitUnknownError;
    await inFakeTime(stays);
    for (let i = 0; i < 3; i++) await optimisticUpdate<Counter>(blob, increment);
    expect(await resolveOutcome(blob, operationId)).toBe("committed");
    await optimisticUpdate<Counter>(blob, increment, { operationId });
    expect(blob.json).toEqual({ n: 5 });
  });

  it("of an overwrite is found under a later update of the same process, and a repetition does not erase that update", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", hangAfterCommit);
    service.each("download", hang);
    const error = rejection(overwrite<Counter>(blob, { n: 10 }, { timeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(100);
    const { operationId } = (await error) as unknown as CommitUnknownError;
    service.heal();
    await optimisticUpdate<Counter>(blob, increment);
    expect(await resolveOutcome(blob, operationId)).toBe("committed");
    await overwrite<Counter>(blob, { n: 10 }, { operationId });
    expect(blob.json).toEqual({ n: 11 });
  });
});

it("an overwrite with an operationId whose response never arrives is of unknown outcome", async () => {
  for (const exists of [true, false]) {
    const { service, blob } = counterBlob();
    if (!exists) blob.drop();
    service.next("upload", hangAfterCommit);
    service.next("download", pass);
    service.each("download", hang);
    const error = rejection(overwrite<Counter>(blob, { n: 10 }, { operationId: "set-1", timeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(100);
    expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown", operationId: "set-1" });
  }
});

it("an abortSignal that is not a signal is a TypeError, and leaves no timer that throws later", async () => {
  const { blob } = counterBlob();
  const abortSignal = new AbortController() as never;
  const error = await rejection(optimisticUpdate<Counter>(blob, increment, { abortSignal, timeoutInMs: 10 }));
  expect(error).toBeInstanceOf(TypeError);
  expect(error.message).toContain("Pass the signal of an AbortController");
  await vi.advanceTimersByTimeAsync(100);
});

describe("with onUnknown: retry, after a write that may be stored", () => {
  it.each<[string, (own: ReturnType<typeof counterBlob>) => void, (doc: Counter, attempt: number) => void]>([
    ["a lease of another client", ({ service, blob }) => service.next("upload", before(() => void (blob.stored!.leaseId = "theirs"))), () => undefined],
    ["an error of the mutator", () => undefined, (_, attempt) => {
      if (attempt > 1) throw new Error("not again");
    }],
    ["a delete by another client", ({ service, blob }) => service.next("download", before(() => blob.drop())), () => undefined],
  ])("%s is a CommitUnknownError", async (_, interfere, mutate) => {
    const own = counterBlob();
    // Another client drops the journal, so that the outcome of the first write cannot be determined.
    own.service.next("upload", async (exchange) => {
      await exchange.send();
      own.blob.put({ n: 1 });
      throw Object.assign(new Error("socket hang up"), { name: "RestError", code: "ECONNRESET" });
    });
    own.service.next("download", pass, pass);
    interfere(own);
    const updating = optimisticUpdate<Counter>(own.blob, (doc, { attempt }) => {
      mutate(doc, attempt);
      doc.n++;
    }, { onUnknown: "retry" });
    const outcome = await inFakeTime(updating.then(() => "resolved", (error: unknown) => error));
    if (_ !== "a delete by another client") expect(outcome).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown" });
    else expect(["resolved", "COMMIT_UNKNOWN"]).toContain((outcome as { code?: string }).code ?? outcome);
  });
});

it.each(["*", " * ", "* ", " "])("an ETag of %j is not that of a version", async (etag) => {
  const { service, blob } = counterBlob();
  expect(await rejection(deleteIfUnchanged(blob, etag))).toBeInstanceOf(TypeError);
  expect(await rejection(overwrite<Counter>(blob, { n: 1 }, { ifMatch: etag }))).toBeInstanceOf(TypeError);
  expect(await rejection(optimisticUpdate<Counter>(blob, increment, { ifMatch: etag }))).toBeInstanceOf(TypeError);
  expect(service.count()).toBe(0);
});

it.each(["operationId", "ifMatch", "startFrom"])("a facade has no default %s", (name) => {
  const { blob } = counterBlob();
  expect(() => new ConcurrentBlob(blob, { defaults: { [name]: "x" } })).toThrow(TypeError);
});
