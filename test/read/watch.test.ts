import { afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { blobMetadata, blobTags, OperationTimeoutError, jsonBlob, optimisticUpdate, SchemaError, tableEntity, TargetNotFoundError, watch, WatchFailedError } from "../../src/index.js";
import type { Watch, WatchOptions } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { answer, busy, gate, hang, loseRequest } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();
afterEach(() => vi.restoreAllMocks());

const interval = 1_000;

/** No jitter: a look every second. */
function steady(): void {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
}

function watched(options: WatchOptions = {}): ReturnType<typeof counterBlob> & { states: Watch<Counter> } {
  const subject = counterBlob();
  return { ...subject, states: watch<Counter>(subject.blob, { pollIntervalInMs: interval, ...options }) };
}

describe("watch", () => {
  it("gives the present state at once, and then each new one", async () => {
    steady();
    const { blob, states } = watched();
    expect(await states.next()).toEqual({ done: false, value: { exists: true, value: { n: 0 }, etag: blob.stored?.etag } });
    const next = states.next();
    await vi.advanceTimersByTimeAsync(3 * interval);
    blob.put({ n: 1 });
    await vi.advanceTimersByTimeAsync(interval);
    expect((await next).value).toEqual({ exists: true, value: { n: 1 }, etag: blob.stored?.etag });
    await states.return();
  });

  it("asks once per interval, on the condition of a change", async () => {
    steady();
    const { service, blob, states } = watched();
    await states.next();
    const download = vi.spyOn(blob, "download");
    void states.next();
    await vi.advanceTimersByTimeAsync(10 * interval + 1);
    expect(service.count()).toBe(11);
    expect(new Set(download.mock.calls.map(([, , options]) => options?.conditions?.ifNoneMatch))).toEqual(new Set([blob.stored?.etag]));
    await states.return();
  });

  it("does not beat: the time between two looks varies by a quarter", async () => {
    const { service, states } = watched();
    await states.next();
    void states.next();
    const times: number[] = [];
    for (let looks = 1; looks < 60; looks++) {
      const before = performance.now();
      while (service.count() === looks) await vi.advanceTimersByTimeAsync(10);
      times.push(performance.now() - before);
    }
    expect(Math.min(...times)).toBeGreaterThanOrEqual(0.75 * interval - 10);
    expect(Math.max(...times)).toBeLessThanOrEqual(1.25 * interval + 10);
    expect(Math.max(...times) - Math.min(...times)).toBeGreaterThan(interval / 4);
    await states.return();
  });

  it("asks nothing while nobody waits, and then gives the newest", async () => {
    const { service, blob, states } = watched();
    await states.next();
    for (let n = 1; n <= 5; n++) {
      blob.put({ n });
      await vi.advanceTimersByTimeAsync(10 * interval);
    }
    expect(service.count()).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
    // Without a wait, as the last look is long ago.
    expect((await states.next()).value).toMatchObject({ value: { n: 5 } });
  });

  it("does not ask more often than it should if the consumer is quick", async () => {
    steady();
    const { service, blob, states } = watched();
    await states.next();
    blob.put({ n: 1 });
    const next = states.next();
    await vi.advanceTimersByTimeAsync(interval - 1);
    expect(service.count()).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
  });

  it("gives each of two parallel calls a state of its own, in order", async () => {
    const { blob, states } = watched();
    const order: number[] = [];
    const calls = [1, 2, 3].map(async (call) => {
      const { value } = await states.next();
      order.push(call);
      return value?.value?.n;
    });
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect(order).toEqual([1]);
    blob.put({ n: 1 });
    await vi.advanceTimersByTimeAsync(2 * interval);
    blob.put({ n: 2 });
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect(await Promise.all(calls)).toEqual([0, 1, 2]);
    expect(order).toEqual([1, 2, 3]);
  });

  it("sees that it is deleted, once, and that it is there again", async () => {
    const { blob, states } = watched();
    await states.next();
    blob.drop();
    const gone = states.next();
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect((await gone).value).toEqual({ exists: false });
    const again = states.next();
    await vi.advanceTimersByTimeAsync(5 * interval);
    blob.put({ n: 0 });
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect((await again).value).toEqual({ exists: true, value: { n: 0 }, etag: blob.stored?.etag });
  });

  it("starts with what does not exist", async () => {
    const { blob, states } = watched();
    blob.drop();
    expect((await states.next()).value).toEqual({ exists: false });
  });

  it("does not take a rewrite of the same for a change, and asks for what comes after it", async () => {
    const { service, blob, states } = watched();
    await states.next();
    blob.put({ n: 0 });
    const download = vi.spyOn(blob, "download");
    const next = states.next();
    await vi.advanceTimersByTimeAsync(4 * interval);
    expect(service.count()).toBeGreaterThan(2);
    expect(download.mock.lastCall![2]?.conditions?.ifNoneMatch).toBe(blob.stored?.etag);
    blob.put({ n: 1 });
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
  });

  it("gives states that an update can start from", async () => {
    const { service, blob, states } = watched();
    const { value } = await states.next();
    if (!value?.exists) throw new Error("it exists");
    await optimisticUpdate<Counter>(blob, increment, { startFrom: value });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  it("watches metadata, tags and entities", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const { blob } = counterBlob();
    const metadata = watch(blobMetadata(blob), { pollIntervalInMs: interval });
    const tags = watch(blobTags(blob), { pollIntervalInMs: interval });
    const entity = watch(tableEntity<{ n: number }>(table, "p", "r"), { pollIntervalInMs: interval });
    const firsts = await Promise.all([metadata.next(), tags.next(), entity.next()]);
    expect(firsts.map(({ value }) => value?.value)).toEqual([{}, {}, { partitionKey: "p", rowKey: "r", n: 1 }]);
    const next = Promise.all([metadata.next(), tags.next(), entity.next()]);
    await blob.setMetadata({ a: "1" });
    await blob.setTags({ b: "2" });
    table.merge({ n: { type: "Int32", value: 2 } });
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect((await next).map(({ value }) => value?.value)).toEqual([{ a: "1" }, { b: "2" }, { partitionKey: "p", rowKey: "r", n: 2 }]);
  });
});

describe("a watch whose looks fail", () => {
  it("goes on after what passes, and backs off meanwhile", async () => {
    steady();
    const errors: unknown[] = [];
    const { service, blob, states } = watched({ maxPollIntervalInMs: 3 * interval, onError: (error) => errors.push(error) });
    await states.next();
    service.next("download", busy, answer(503, "InternalError"), answer(500, "InternalError"), answer(408, "RequestTimeout"));
    blob.put({ n: 1 });
    const next = states.next();
    const started = performance.now();
    const looks: number[] = [];
    for (let count = 1; count <= 5; count++) {
      while (service.count() === count) await vi.advanceTimersByTimeAsync(100);
      looks.push(Math.round((performance.now() - started) / interval));
    }
    expect(looks).toEqual([1, 2, 4, 7, 10]); // waits of 1, 1, 2, 3, 3
    expect((await next).value).toMatchObject({ value: { n: 1 } });
    expect(errors).toHaveLength(4);
  });

  it("repeats a request whose connection broke at once, if the SDK does not", async () => {
    steady();
    const { service, blob, states } = watched({});
    await states.next();
    service.next("download", loseRequest, loseRequest);
    blob.put({ n: 1 });
    const next = states.next();
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
    expect(service.count()).toBe(4);
  });

  it("gives up in time, and says for how long it tried", async () => {
    steady();
    const { service, states } = watched({ maxFailureTimeInMs: 10 * interval });
    await states.next();
    service.next("download", ...Array.from({ length: 20 }, () => busy));
    await vi.advanceTimersByTimeAsync(100 * interval); // an idle consumer's time does not count
    const error = rejection(states.next());
    await vi.advanceTimersByTimeAsync(11 * interval);
    expect(await error).toBeInstanceOf(WatchFailedError);
    expect(await error).toMatchObject({ failures: 5, elapsedInMs: 10 * interval, cause: { statusCode: 503 } });
    expect(await states.next()).toEqual({ done: true, value: undefined });
  });

  it("counts failures in a row only", async () => {
    steady();
    const { service, states } = watched({ maxFailureTimeInMs: 1.5 * interval });
    await states.next();
    for (let i = 0; i < 10; i++) service.next("download", busy, (exchange) => exchange.send());
    void states.next();
    await vi.advanceTimersByTimeAsync(25 * interval);
    expect(service.count()).toBeGreaterThan(20);
    await states.return();
  });

  it("takes a look without an answer for a failure, when its time is over", async () => {
    steady();
    const errors: unknown[] = [];
    const { service, blob, states } = watched({ tryTimeoutInMs: 200, onError: (error) => errors.push(error) });
    await states.next();
    service.next("download", hang, hang, hang);
    blob.put({ n: 1 });
    const next = states.next();
    await vi.advanceTimersByTimeAsync(2 * interval + 200);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
    expect(errors).toEqual([expect.any(OperationTimeoutError)]);
  });

  it("loses no state to a look whose answer comes too late", async () => {
    steady();
    const { service, blob, states } = watched({ tryTimeoutInMs: 200 });
    await states.next();
    blob.put({ n: 1 });
    const late = gate("after");
    // A client that takes no notice of its signal.
    service.next("download", (exchange) => late.fault({ ...exchange, signal: undefined }));
    const next = states.next();
    await vi.advanceTimersByTimeAsync(interval + 300);
    late.open();
    await vi.advanceTimersByTimeAsync(interval);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
  });

  it.each([
    ["403", answer(403, "AuthorizationFailure"), expect.objectContaining({ statusCode: 403 })],
    ["a container that is being deleted", answer(409, "ContainerBeingDeleted"), expect.objectContaining({ code: "TARGET_STATE", reason: "beingDeleted" })],
    ["a blob that is archived", answer(409, "BlobArchived"), expect.objectContaining({ code: "TARGET_STATE", reason: "archived" })],
    ["a container that is gone, and created again", answer(404, "ContainerNotFound"), expect.any(TargetNotFoundError)],
  ])("goes on after %s, and reports it", async (_name, fault, error) => {
    steady();
    const errors: unknown[] = [];
    const { service, blob, states } = watched({ onError: (failure) => errors.push(failure) });
    await states.next();
    service.next("download", fault, fault);
    blob.put({ n: 1 });
    const next = states.next();
    await vi.advanceTimersByTimeAsync(5 * interval);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
    expect(errors).toEqual([error, error]);
  });

  it.each([
    ["403", answer(403, "AuthorizationFailure"), { statusCode: 403 }],
    ["a container that is gone", answer(404, "ContainerNotFound"), { name: "TargetNotFoundError" }],
  ])("gives up after maxFailureTimeInMs of %s", async (_name, fault, cause) => {
    const { service, states } = watched({ maxFailureTimeInMs: 10 * interval });
    await states.next();
    service.next("download", ...Array.from({ length: 20 }, () => fault));
    const next = rejection(states.next());
    await vi.advanceTimersByTimeAsync(15 * interval);
    expect(await next).toMatchObject({ name: "WatchFailedError", cause });
    expect(await states.next()).toEqual({ done: true, value: undefined });
  });

  it("ends with a request that the service does not understand", async () => {
    const { service, states } = watched();
    await states.next();
    service.next("download", answer(400, "InvalidHeaderValue"));
    const next = rejection(states.next());
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect(await next).toMatchObject({ statusCode: 400 });
    expect(await states.next()).toEqual({ done: true, value: undefined });
    expect(service.count()).toBe(2);
  });

  it("passes over what cannot be used, says so once, and goes on with what comes next", async () => {
    for (const bad of [{ n: "text" }, Buffer.from("no JSON")]) {
      const { service, blob } = counterBlob();
      const errors: unknown[] = [];
      const target = jsonBlob(blob, { schema: z.object({ n: z.number() }) });
      const states = watch(target, { pollIntervalInMs: interval, onError: (error) => errors.push(error) });
      await states.next();
      blob.put(bad);
      const next = states.next();
      await vi.advanceTimersByTimeAsync(10 * interval);
      expect(errors).toEqual([expect.any(SchemaError)]);
      expect(service.count()).toBeGreaterThan(5);
      blob.put({ n: 1 });
      await vi.advanceTimersByTimeAsync(2 * interval);
      expect((await next).value).toMatchObject({ value: { n: 1 } });
    }
  });

  it("fails if the first version cannot be used", async () => {
    const { blob } = counterBlob();
    const states = watch(jsonBlob(blob, { schema: z.object({ n: z.string() }) }));
    expect(await rejection(states.next())).toBeInstanceOf(SchemaError);
    expect((await states.next()).done).toBe(true);
  });

  it("ends with what the promise of an async onError rejects with, and with its own end while that is pending", async () => {
    const { service, states } = watched({
      // eslint-disable-next-line @typescript-eslint/no-misused-promises -- what a caller without the rule writes
      onError: async () => {
        await Promise.resolve();
        throw new Error("no more");
      },
    });
    service.next("download", busy);
    expect((await rejection(states.next())).message).toBe("no more");
    // eslint-disable-next-line @typescript-eslint/no-misused-promises
    const pending = watched({ onError: () => new Promise<void>(() => undefined) });
    pending.service.next("download", busy);
    const next = pending.states.next();
    await vi.advanceTimersByTimeAsync(10);
    await pending.states.return();
    expect((await next).done).toBe(true);
  });

  it("ends with what onError throws", async () => {
    const { service, states } = watched({
      onError() {
        throw new Error("no more");
      },
    });
    service.next("download", busy);
    expect((await rejection(states.next())).message).toBe("no more");
  });
});

describe("the end of a watch", () => {
  it.each(["while it waits", "while it asks"])("comes at once with return(), %s", async (when) => {
    const { service, states } = watched();
    await states.next();
    const next = states.next();
    if (when === "while it asks") {
      service.next("download", hang);
      await vi.advanceTimersByTimeAsync(2 * interval);
      expect(service.count()).toBe(2);
    }
    expect(await states.return()).toEqual({ done: true, value: undefined });
    expect(vi.getTimerCount()).toBe(0);
    expect(await next).toEqual({ done: true, value: undefined });
    expect(await states.next()).toEqual({ done: true, value: undefined });
  });

  it.each(["while it waits", "while it asks"])("comes at once with an abort, %s, and leaves nothing", async (when) => {
    const controller = countingController();
    const { service, states } = watched({ abortSignal: controller.signal });
    await states.next();
    expect(controller.listeners()).toBe(0);
    const next = rejection(states.next());
    const parallel = states.next();
    if (when === "while it asks") {
      service.next("download", hang);
      await vi.advanceTimersByTimeAsync(2 * interval);
    }
    controller.abort(new Error("enough"));
    expect((await next).message).toBe("enough");
    expect(await parallel).toEqual({ done: true, value: undefined });
    expect(vi.getTimerCount()).toBe(0);
    expect(controller.listeners()).toBe(0);
  });

  it("is noticed by the next call if the abort came while nobody waited", async () => {
    const controller = new AbortController();
    const { service, states } = watched({ abortSignal: controller.signal });
    await states.next();
    controller.abort(new Error("enough"));
    expect((await rejection(states.next())).message).toBe("enough");
    expect((await states.next()).done).toBe(true);
    expect(service.count()).toBe(1);
  });

  it("comes with the end of a loop or of a block", async () => {
    const { service, blob, states } = watched();
    for await (const { value } of states) {
      expect(value).toEqual({ n: 0 });
      break;
    }
    expect((await states.next()).done).toBe(true);
    {
      await using other = watch<Counter>(blob);
      await other.next();
    }
    expect(service.count()).toBe(2);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("watches of one target", () => {
  const count = 50;

  it("share their polls, and each gets every state", async () => {
    steady();
    const { service, blob } = counterBlob();
    const watches = Array.from({ length: count }, () => watch<Counter>(blob, { pollIntervalInMs: interval }));
    const firsts = await Promise.all(watches.map((states) => states.next()));
    expect(firsts.map(({ value }) => value?.value)).toEqual(Array(count).fill({ n: 0 }));
    expect(service.count()).toBe(1);
    // Each has a value of its own.
    firsts[0]!.value!.value!.n = 99;
    expect(firsts[1]!.value!.value).toEqual({ n: 0 });
    const nexts = watches.map((states) => states.next());
    await vi.advanceTimersByTimeAsync(10 * interval);
    blob.put({ n: 1 });
    await vi.advanceTimersByTimeAsync(interval);
    for (const next of nexts) expect((await next).value).toMatchObject({ value: { n: 1 } });
    expect(service.count()).toBe(12);
    await Promise.all(watches.map((states) => states.return()));
    expect(vi.getTimerCount()).toBe(0);
  });

  it("poll as often as the quickest wants, and the others know all that it finds", async () => {
    steady();
    const { service, blob } = counterBlob();
    const quick = watch<Counter>(blob, { pollIntervalInMs: interval });
    const slow = watch<Counter>(blob, { pollIntervalInMs: 100 * interval });
    await Promise.all([quick.next(), slow.next()]);
    const nexts = [quick.next(), slow.next()];
    blob.put({ n: 1 });
    await vi.advanceTimersByTimeAsync(interval);
    for (const next of nexts) expect((await next).value).toMatchObject({ value: { n: 1 } });
    expect(service.count()).toBe(2);
    await Promise.all([quick.return(), slow.return()]);
  });

  it("see what was written before they began to wait: a poll in flight is not enough", async () => {
    const { service, blob } = counterBlob();
    const held = gate("after");
    service.next("download", held.fault);
    const early = watch<Counter>(blob).next();
    await held.reached;
    blob.put({ n: 1 });
    const late = watch<Counter>(blob).next();
    await vi.advanceTimersByTimeAsync(0);
    held.open();
    expect((await early).value).toMatchObject({ value: { n: 0 } });
    expect((await late).value).toMatchObject({ value: { n: 1 } });
    expect(service.count()).toBe(2);
  });

  it("that begin later get the content from those that have it, if the service says that it is unchanged", async () => {
    steady();
    const { service, blob } = counterBlob();
    const download = vi.spyOn(blob, "download");
    const first = watch<Counter>(blob, { pollIntervalInMs: interval });
    await first.next();
    const next = first.next();
    expect((await watch<Counter>(blob, { pollIntervalInMs: interval }).next()).value).toMatchObject({ value: { n: 0 } });
    expect(download.mock.lastCall![2]?.conditions?.ifNoneMatch).toBe(blob.stored?.etag);
    expect(service.count()).toBe(2);
    await first.return();
    expect((await next).done).toBe(true);
  });

  it("do not end because one of them ends: by return, by an abort, by what its onError throws", async () => {
    steady();
    const { service, blob } = counterBlob();
    const controller = new AbortController();
    const [returned, aborted, throwing, patient, stays] = [
      {},
      { abortSignal: controller.signal },
      { onError: () => { throw new Error("no more"); } },
      { maxFailureTimeInMs: 0 },
      { onError: () => undefined },
    ].map((options) => watch<Counter>(blob, { pollIntervalInMs: interval, ...options })) as [Watch<Counter>, Watch<Counter>, Watch<Counter>, Watch<Counter>, Watch<Counter>];
    await Promise.all([returned, aborted, throwing, patient, stays].map((states) => states.next()));
    const nexts = [aborted.next(), throwing.next(), patient.next()].map((next) => rejection(next));
    const gone = returned.next();
    const next = stays.next();
    const held = gate();
    service.next("download", held.fault, busy);
    await vi.advanceTimersByTimeAsync(interval);
    await returned.return();
    expect((await gone).done).toBe(true);
    controller.abort(new Error("enough"));
    held.open();
    await vi.advanceTimersByTimeAsync(interval);
    expect((await nexts[0]!).message).toBe("enough");
    expect((await nexts[1]!).message).toBe("no more");
    expect(await nexts[2]!).toBeInstanceOf(WatchFailedError);
    blob.put({ n: 1 });
    await vi.advanceTimersByTimeAsync(3 * interval);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
    await stays.return();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("that end all at once do not each look for the one that is due next", async () => {
    const { blob } = counterBlob();
    const stop = new AbortController();
    const watches = Array.from({ length: 1_000 }, () => watch<Counter>(blob, { pollIntervalInMs: interval, abortSignal: stop.signal }));
    await Promise.all(watches.map((states) => states.next()));
    const ends = watches.map((states) => rejection(states.next()));
    await vi.advanceTimersByTimeAsync(1);
    const compared = vi.spyOn(Math, "min");
    stop.abort(new Error("enough"));
    await Promise.all(ends);
    expect(compared.mock.calls.flat().length).toBeLessThan(20 * watches.length);
    compared.mockRestore();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("poll when the next one is due if the one that was due first has ended", async () => {
    steady();
    const { service, blob } = counterBlob();
    const quick = watch<Counter>(blob, { pollIntervalInMs: interval });
    const slow = watch<Counter>(blob, { pollIntervalInMs: 10 * interval });
    await Promise.all([quick.next(), slow.next()]);
    const ended = quick.next();
    const next = slow.next();
    await vi.advanceTimersByTimeAsync(1);
    await quick.return();
    await ended;
    blob.put({ n: 1 });
    await vi.advanceTimersByTimeAsync(9 * interval);
    expect(service.count()).toBe(1);
    await vi.advanceTimersByTimeAsync(interval);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
    expect(service.count()).toBe(2);
    await slow.return();
  });

  it("poll separately if their requests differ: schema, lease, journal, time limit", async () => {
    const { service, blob } = counterBlob();
    const watches = [watch(blob), watch(blob, { tryTimeoutInMs: 1_000 }), watch(blob, { journal: "other" }), watch(jsonBlob(blob, { schema: z.any() }))];
    await Promise.all(watches.map((states) => states.next()));
    expect(service.count()).toBe(4);
  });

  it("whose schema check hangs report that as a failed poll, and go on", async () => {
    steady();
    const { blob } = counterBlob();
    let hangs = false;
    const schema = z.any().refine(() => (hangs ? new Promise<boolean>(() => undefined) : true));
    const errors: unknown[] = [];
    const target = jsonBlob<Counter>(blob, { schema });
    const slow = watch<Counter>(target, { pollIntervalInMs: interval, tryTimeoutInMs: 500, onError: (error) => errors.push(error) });
    await slow.next();
    hangs = true;
    blob.put({ n: 1 });
    const next = slow.next();
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect(errors).toEqual([expect.any(OperationTimeoutError)]);
    hangs = false;
    await vi.advanceTimersByTimeAsync(2 * interval);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
  });
});

describe("misuse of watch", () => {
  it.each([
    [{ pollIntervalInMs: 0 }, RangeError],
    [{ pollIntervalInMs: Number.NaN }, TypeError],
    [{ pollIntervalInMs: 2 ** 31 }, RangeError],
    [{ pollIntervalInMs: 100, maxPollIntervalInMs: 99 }, RangeError],
    [{ maxFailureTimeInMs: -1 }, RangeError],
    [{ tryTimeoutInMs: 0 }, RangeError],
    [{ timeoutInMs: 200 }, TypeError],
    [{ onError: 7 }, TypeError],
    [{ conditions: { ifMatch: "e" } }, TypeError],
  ])("%j is refused at once", (options, error) => {
    const { service, blob } = counterBlob();
    expect(() => watch(blob, options as WatchOptions)).toThrow(error);
    expect(service.count()).toBe(0);
  });

  it("wants a target", () => {
    expect(() => watch({} as never)).toThrow(TypeError);
  });
});
