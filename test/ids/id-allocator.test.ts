import { describe, expect, it, vi } from "vitest";

import { IdAllocator, type IdCounter, jsonBlob, queueMetadata, tableEntity } from "../../src/index.js";
import { logger } from "../../src/core/telemetry.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { after, answer, before, failAfterCommit, gate, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, pass } from "../fakes/faults.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

function counter(): { service: FakeService; blob: FakeBlockBlob } {
  const service = new FakeService();
  return { service, blob: new FakeBlockBlob(service) };
}

async function take(allocator: IdAllocator, count: number): Promise<number[]> {
  const ids: number[] = [];
  for (let i = 0; i < count; i++) ids.push(await inFakeTime(allocator.next()));
  return ids;
}

describe("ids", () => {
  it("begin with 1, and increase", async () => {
    const { blob } = counter();
    expect(await take(new IdAllocator(blob), 5)).toEqual([1, 2, 3, 4, 5]);
    expect(blob.json).toEqual({ next: 1_001 });
  });

  it("begin where they are told to, but only if there is no counter", async () => {
    const { blob } = counter();
    expect(await take(new IdAllocator(blob, { start: 500 }), 1)).toEqual([500]);
    expect(await take(new IdAllocator(blob, { start: 1 }), 1)).toEqual([1_500]);
  });

  it("cost two requests a block", async () => {
    const { service, blob } = counter();
    const ids = await take(new IdAllocator(blob, { blockSize: 100 }), 1_000);
    expect(ids).toEqual(Array.from({ length: 1_000 }, (_, i) => i + 1));
    // Ten blocks, and the one that was fetched before it was needed.
    expect(service.requests).toHaveLength(22);
  });

  it("of many callers at once are all different, for one reservation", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    const ids = await inFakeTime(Promise.all(Array.from({ length: 95 }, () => allocator.next())));
    expect(ids).toEqual(Array.from({ length: 95 }, (_, i) => i + 1));
    expect(service.requests.length).toBeLessThanOrEqual(4);
  });

  it("come by the many, across blocks, in order", async () => {
    const { blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    const other = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    expect(await inFakeTime(allocator.nextMany(4))).toEqual([1, 2, 3, 4]);
    expect(await inFakeTime(other.nextMany(1))).toEqual([11]);
    expect(await inFakeTime(allocator.nextMany(8))).toEqual([5, 6, 7, 8, 9, 10, 21, 22]);
    expect(await inFakeTime(allocator.nextMany(25))).toHaveLength(25);
    expect(await inFakeTime(allocator.nextMany(0))).toEqual([]);
    // More than an array can have: it must be rejected before the counter advances.
    await expect(allocator.nextMany(1e9)).rejects.toThrow(RangeError);
  });

  it("are given in the order of the calls, also if a later one wants less", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    await take(allocator, 8);
    const held = gate();
    service.next("read", held.fault);
    const many = allocator.nextMany(5);
    const one = allocator.next();
    await held.reached;
    held.open();
    expect(await many).toEqual([9, 10, 11, 12, 13]);
    expect(await one).toBe(14);
  });

  it("of a table count on beyond 2^31 and keep the other properties", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ next: { type: "Int32", value: 2 ** 31 - 1 }, owner: { type: "String", value: "me" } });
    const allocator = new IdAllocator(tableEntity<IdCounter>(table, "p", "r"), { blockSize: 10 });
    expect(await take(allocator, 2)).toEqual([2 ** 31 - 1, 2 ** 31]);
    expect(table.property("next")).toEqual({ type: "Double", value: 2 ** 31 + 9 });
    expect(table.property("owner")).toEqual({ type: "String", value: "me" });
    expect(await take(new IdAllocator(tableEntity<IdCounter>(table, "p", "new")), 1)).toEqual([1]);
    expect(table.property("next", "p", "new")).toEqual({ type: "Double", value: 1001 });
  });

  it("of a table go on from a counter that is an Int64, which becomes a number that JSON can hold", async () => {
    const table = new FakeTable(new FakeService());
    table.put({ next: { type: "Int64", value: "41" } });
    expect(await take(new IdAllocator(tableEntity<IdCounter>(table, "p", "r"), { blockSize: 10 }), 1)).toEqual([41]);
    expect(table.property("next")).toEqual({ type: "Double", value: 51 });
  });
});

describe("no id is given twice", () => {
  it.each([
    { what: "the answer is lost", fault: loseAnswer },
    { what: "it is lost for good", fault: loseAnswerForGood },
    { what: "it cannot be known whether the block was reserved", fault: undefined },
  ])("when $what", async ({ fault }) => {
    const { service, blob } = counter();
    const one = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    const other = new IdAllocator(jsonBlob<IdCounter>(blob, { keepTier: true }), { blockSize: 10, prefetch: 0 });
    const ids = [...(await take(one, 10)), ...(await take(other, 10))];
    service.next("upload", fault ?? after(() => blob.put({ next: 41 }), loseAnswerForGood));
    ids.push(...(await take(one, 10)), ...(await take(other, 10)));
    expect(new Set(ids).size).toBe(40);
  });

  it.each([{ first: false }, { first: true }])("when the reservation is found only after another allocator has reserved a block (the counter is new: $first)", async ({ first }) => {
    const { service, blob } = counter();
    const other = new IdAllocator(jsonBlob<IdCounter>(blob, { keepTier: true }), { blockSize: 10, prefetch: 0 });
    if (!first) await take(other, 10);
    const ids: number[] = [];
    const fail = answer(500, "InternalError");
    service.next("upload", failAfterCommit);
    service.next("download", pass, fail, fail, fail, before(async () => {
      ids.push(...(await other.nextMany(10)));
    }));
    ids.push(...(await inFakeTime(new IdAllocator(blob, { blockSize: 10, prefetch: 0 }).nextMany(10))));
    expect(ids).toHaveLength(20);
    expect(new Set(ids).size).toBe(20);
  });

  it("when the counter is deleted: that is an error, not a new beginning", async () => {
    const { blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    await take(allocator, 10);
    blob.drop();
    expect(await rejection(inFakeTime(allocator.next()))).toMatchObject({ name: "TargetNotFoundError" });
  });

  it("when the counter is set back", async () => {
    const { blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    await take(allocator, 10);
    blob.put({ next: 1 });
    expect(await rejection(inFakeTime(allocator.next()))).toMatchObject({ name: "IdCounterError", reason: "reset" });
  });

  it("when the counter is reset, again and again, until it is repaired", async () => {
    const { blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    const other = new IdAllocator(blob, { blockSize: 10, prefetch: 0 });
    const taken = [...(await take(allocator, 10)), ...(await take(other, 30))];
    blob.put({ next: 1 });
    for (let call = 0; call < 6; call++) {
      expect(await rejection(inFakeTime(allocator.next()))).toMatchObject({ name: "IdCounterError", reason: "reset" });
      expect(await rejection(inFakeTime(other.nextMany(3)))).toMatchObject({ name: "IdCounterError", reason: "reset" });
    }
    expect(blob.json).toEqual({ next: 1 });
    blob.put({ next: 41 });
    expect(taken).not.toContain((await take(allocator, 1))[0]);
    expect(await take(other, 1)).toEqual([51]);
  });

  it.each(["reset", "deleted"])("from the block that is left, once it knows that the counter was %s", async (what) => {
    const { blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10, prefetch: 0.5 });
    await take(allocator, 5);
    if (what === "reset") blob.put({ next: 1 });
    else blob.drop();
    // The block runs low, and the reservation in the background finds out. The ids that are left may now be another process's.
    await take(allocator, 1);
    await vi.advanceTimersByTimeAsync(100);
    const name = what === "reset" ? "IdCounterError" : "TargetNotFoundError";
    for (let call = 0; call < 3; call++) expect(await rejection(inFakeTime(allocator.next()))).toMatchObject({ name });
    blob.put({ next: 11 });
    expect(await take(allocator, 2)).toEqual([11, 12]);
  });
});

describe("the next block", () => {
  it("is fetched before the present one has run out, once, and nobody waits for it", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10 });
    await take(allocator, 5);
    expect(service.requests).toHaveLength(2);
    const held = gate();
    service.next("read", held.fault);
    expect(await Promise.all([allocator.next(), allocator.next()])).toEqual([6, 7]);
    await held.reached;
    expect(await Promise.all([allocator.next(), allocator.next(), allocator.next()])).toEqual([8, 9, 10]);
    held.open();
    expect(await take(allocator, 1)).toEqual([11]);
    expect(service.requests).toHaveLength(4);
  });

  it("that cannot be fetched in time is fetched again when it is needed, and not with each id", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 10 });
    await take(allocator, 5);
    service.next("read", answer(403, "AuthorizationFailure"));
    expect(await take(allocator, 5)).toEqual([6, 7, 8, 9, 10]);
    expect(service.requests).toHaveLength(3);
    expect(await take(allocator, 1)).toEqual([11]);
  });

  it("whose fetch fails while somebody waits for it is asked for once more", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 2 });
    await take(allocator, 1);
    const held = gate();
    service.next("read", async (exchange) => {
      await held.fault(exchange);
      throw exchange.error(403, "AuthorizationFailure");
    });
    const ids = Promise.all([allocator.next(), allocator.next()]);
    await held.reached;
    held.open();
    expect(await inFakeTime(ids)).toEqual([2, 3]);
  });
});

describe("errors", () => {
  it("of the service reach everybody who waits, and the next call tries again", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob);
    service.next("read", answer(403, "AuthorizationFailure"));
    const both = await inFakeTime(Promise.allSettled([allocator.next(), allocator.next()]));
    expect(both).toMatchObject([{ reason: { statusCode: 403 } }, { reason: { statusCode: 403 } }]);
    expect(await take(allocator, 1)).toEqual([1]);
  });

  it.each([{ next: "7" }, { next: 1.5 }, { next: -1 }, {}, [], { next: 2 ** 60 }])("a counter that reads %j is malformed", async (stored) => {
    const { blob } = counter();
    blob.put(stored);
    expect(await rejection(inFakeTime(new IdAllocator(blob).next()))).toMatchObject({ name: "IdCounterError", reason: "malformed" });
  });

  it("beyond what a number can count, ids are exhausted", async () => {
    const { blob } = counter();
    blob.put({ next: Number.MAX_SAFE_INTEGER - 5 });
    expect(await take(new IdAllocator(blob, { blockSize: 5 }), 5)).toHaveLength(5);
    expect(await rejection(inFakeTime(new IdAllocator(blob, { blockSize: 5 }).next()))).toMatchObject({ name: "IdCounterError", reason: "exhausted" });
  });

  it("a deadline gives out nothing, and the next call goes on", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob, { timeoutInMs: 100, blockSize: 10 });
    service.next("upload", hangAfterCommit);
    service.next("download", pass, hang, hang, hang);
    await rejection(inFakeTime(allocator.next()));
    expect(await take(allocator, 1)).toEqual([11]);
  });

  it("bad input is refused before any request", async () => {
    const { service, blob } = counter();
    expect(() => new IdAllocator({} as never)).toThrow(TypeError);
    const queue = { url: "https://account.queue.core.windows.net/q", sendMessage: () => undefined };
    expect(() => new IdAllocator(queueMetadata(queue as never) as never)).toThrow("IdAllocator needs If-Match");
    expect(() => new IdAllocator(blob, { blockSize: 0 })).toThrow(RangeError);
    expect(() => new IdAllocator(blob, { start: 1.5 })).toThrow(RangeError);
    expect(() => new IdAllocator(blob, { prefetch: 2 })).toThrow(RangeError);
    await expect(new IdAllocator(blob).nextMany(-1)).rejects.toBeInstanceOf(RangeError);
    expect(service.requests).toHaveLength(0);
  });
});

describe("a caller that goes", () => {
  it("ends the reservation that nobody else waits for, and leaves nothing behind", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob);
    service.next("read", hang);
    const { abort, signal, listeners } = countingController();
    const gone = rejection(allocator.next({ abortSignal: signal }));
    await vi.advanceTimersByTimeAsync(1);
    abort(new Error("enough"));
    expect((await gone).message).toBe("enough");
    expect(listeners()).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(vi.getTimerCount()).toBe(0);
    expect(await take(allocator, 1)).toEqual([1]);
  });

  it("costs the same however many others wait: 40,000 that leave at once do not block the process", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob);
    service.each("read", hang);
    const leaving = new AbortController();
    const gone = Promise.allSettled(Array.from({ length: 40_000 }, () => allocator.next({ abortSignal: leaving.signal })));
    // CPU time: a busy machine does not change it. If each caller passed through the list of the others, it would be ten seconds or more.
    const before = process.cpuUsage();
    leaving.abort(new Error("enough"));
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(2_000);
    expect((await gone).every(({ status }) => status === "rejected")).toBe(true);
    allocator.close();
  });

  it("does not disturb the others, nor one that comes in the same instant", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob);
    const held = gate();
    service.next("read", held.fault);
    const leaving = new AbortController();
    const gone = rejection(allocator.next({ abortSignal: leaving.signal }));
    await held.reached;
    leaving.abort(new Error("enough"));
    const stays = allocator.next();
    held.open();
    await gone;
    expect(await inFakeTime(stays)).toBe(1);
    await expect(allocator.next({ abortSignal: AbortSignal.abort("no") })).rejects.toBe("no");
  });

  it("is refused when the allocator is closed, which ends what goes on in the background", async () => {
    const { service, blob } = counter();
    const allocator = new IdAllocator(blob, { blockSize: 2 });
    await take(allocator, 1);
    service.next("read", hang);
    await allocator.next();
    const waiting = rejection(allocator.next());
    const warned = vi.spyOn(logger, "warning");
    allocator.close();
    expect((await waiting).message).toBe("The allocator is closed.");
    await expect(allocator.next()).rejects.toThrow("closed");
    await vi.advanceTimersByTimeAsync(1);
    expect(vi.getTimerCount()).toBe(0);
    expect(warned).not.toHaveBeenCalledWith(expect.stringContaining("no ids"), expect.anything());
    expect(warned).not.toHaveBeenCalledWith(expect.stringContaining("no ids"));
    warned.mockRestore();
  });
});
