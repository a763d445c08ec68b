import { beforeEach, describe, expect, it, vi } from "vitest";

import { isConcurrencyError, LeaseLostError, OperationTimeoutError, SchemaError, TargetNotFoundError } from "../../src/index.js";
import type { Once } from "../../src/index.js";
import { FakeContainer, hashAtOnce } from "../queue/fakes/fake-container.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakeFleet } from "./fakes.js";
import type { FakeFleet } from "./fakes.js";

useFakeTimers();

const large = "x".repeat(70_000);
const day = 86_400_000;

let fleet: FakeFleet;
let container: FakeContainer;
beforeEach(() => {
  hashAtOnce();
  fleet = fakeFleet();
  container = new FakeContainer();
  return () => void vi.restoreAllMocks();
});

function process(): Once {
  return fleet.process({ overflow: container.client });
}

/** The properties of the only record. */
function record(): Map<string, { type: string; value: unknown }> {
  const [key] = [...fleet.service.resources.keys()];
  const [, partitionKey, rowKey] = JSON.parse(key!) as string[];
  return (fleet.table.row(partitionKey, rowKey) as { properties: Map<string, { type: string; value: unknown }> }).properties;
}

describe("a result that does not fit into a record", () => {
  it("goes to a blob, and is replayed from there: 1 request more for the first call, and for each repetition", async () => {
    const fn = vi.fn(() => ({ large }));
    expect(await process().run("k", fn)).toEqual({ value: { large }, replayed: false });
    expect(container.faults.log).toEqual(["upload"]);
    expect(container.names).toEqual([expect.stringMatching(/^asc-once\/[^/]+\/[^/]+\/[0-9a-f]{32}-[0-9a-f]{64}$/)]);
    expect(await process().run("k", fn)).toEqual({ value: { large }, replayed: true });
    expect(await process().get("k")).toEqual({ state: "succeeded", value: { large } });
    expect(container.faults.log).toEqual(["upload", "download", "download"]);
    expect(fleet.service.operations).toEqual(["createEntity", "updateEntity", "createEntity", "getEntity", "getEntity"]);
    expect(fn).toHaveBeenCalledTimes(1);
  });

  it("has 60,000 characters as JSON at least; others cost no request to the container", async () => {
    await process().run("small", () => "x".repeat(59_998));
    expect(container.faults.log).toEqual([]);
    await process().run("large", () => "x".repeat(59_999));
    expect(container.faults.log).toEqual(["upload"]);
  });

  it("is shared by the calls of one process that wait for it, each with its own copy", async () => {
    const once = process();
    const results = await inFakeTime(Promise.all([once.run("k", () => ({ large })), once.run("k", () => ({ large: "" })), once.run("k", () => ({ large: "" }))]));
    expect(results.map(({ value }) => value.large === large)).toEqual([true, true, true]);
    expect(results[1].value).not.toBe(results[2].value);
    expect(container.faults.log).toEqual(["upload"]);
    // One of them reads it for all.
    const other = process();
    await inFakeTime(Promise.all([other.run("k", () => ({ large: "" })), other.run("k", () => ({ large: "" }))]));
    expect(container.faults.count("download")).toBe(1);
  });

  it("is not read for a call with another fingerprint", async () => {
    await process().run("k", () => large, { fingerprint: 1 });
    expect(isConcurrencyError(await rejection(process().run("k", () => large, { fingerprint: 2 })), "IDEMPOTENCY_MISMATCH")).toBe(true);
    expect(container.faults.count("download")).toBe(0);
  });

  it("of more than 64 MiB is a RangeError, and the key counts as done", async () => {
    expect(await rejection(process().run("k", () => "ä".repeat(33 * 1024 * 1024)))).toBeInstanceOf(RangeError);
    expect(container.faults.log).toEqual([]);
    expect(await rejection(process().run("k", () => 1))).toBeInstanceOf(RangeError);
  });
});

describe("a container that does not take the result", () => {
  it.each(["lost", "resent", "busy"] as const)("for a while (%s): the result is stored all the same", async (fault) => {
    container.faults.next("upload", fault, fault);
    expect(await inFakeTime(process().run("k", () => large))).toEqual({ value: large, replayed: false });
    expect(await process().run("k", () => "")).toEqual({ value: large, replayed: true });
  });

  it("at all: the key counts as done, and the function does not run again", async () => {
    const fn = vi.fn(() => large);
    container.faults.always("upload", "denied");
    expect(await rejection(process().run("k", fn))).toMatchObject({ name: "RangeError", message: expect.stringContaining("403") as unknown });
    expect(container.faults.count("upload")).toBe(1);
    container.faults.always("upload", "ok");
    expect(await rejection(process().run("k", fn))).toBeInstanceOf(RangeError);
    container.exists = false;
    expect(await rejection(process().run("other", fn))).toBeInstanceOf(RangeError);
    expect(fn).toHaveBeenCalledTimes(2);
  });

  it("and does not respond: the call ends after a minute or two, although the claim is renewed", async () => {
    container.faults.always("upload", "hang");
    const started = Date.now();
    expect(await rejection(inFakeTime(process().run("k", () => large, { timeoutInMs: 120_000 })))).toBeInstanceOf(RangeError);
    expect(Date.now() - started).toBeLessThanOrEqual(120_000);
    expect(await process().get("k")).toEqual({ state: "succeeded" });
  });

  it("until the claim is lost: the result is not recorded", async () => {
    container.faults.always("upload", "busy");
    const running = rejection(process().run("k", () => large, { timeoutInMs: 120_000 }));
    await vi.advanceTimersByTimeAsync(100);
    fleet.service.resources.clear();
    const [error] = await inFakeTime(Promise.all([running]));
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(fleet.rows()).toEqual([]);
  });

  it("is not asked again by a caller that aborts while it is sent: what the function returned counts", async () => {
    const stop = new AbortController();
    container.faults.next("upload", "busy");
    const running = process().run("k", () => large, { abortSignal: stop.signal });
    await vi.advanceTimersByTimeAsync(1);
    stop.abort();
    expect(await inFakeTime(running)).toEqual({ value: large, replayed: false });
  });
});

describe("a stored result that cannot be read", () => {
  beforeEach(() => process().run("k", () => large));

  it("because the container does not respond is an error, and the function does not run", async () => {
    const fn = vi.fn();
    container.faults.next("download", "denied");
    expect(await rejection(process().run("k", fn))).toMatchObject({ statusCode: 403 });
    container.faults.always("download", "hang");
    expect(await rejection(inFakeTime(process().run("k", fn, { timeoutInMs: 5_000 })))).toBeInstanceOf(OperationTimeoutError);
    container.exists = false;
    container.faults.always("download", "ok");
    expect(await rejection(process().run("k", fn))).toBeInstanceOf(TargetNotFoundError);
    expect(fn).not.toHaveBeenCalled();
  });

  it("at first, because a download gets no response: it is read again within the time of the call", async () => {
    container.faults.next("download", "hang");
    expect(await inFakeTime(process().run("k", () => "", { timeoutInMs: 10_000, tryTimeoutInMs: 2_000 }))).toEqual({ value: large, replayed: true });
  });

  it.each([["was changed", (name: string) => void container.put(name, `"${"y".repeat(70_000)}"`)], ["was cut", (name: string) => void container.put(name, "1")], ["is empty", (name: string) => void container.put(name, "")], ["was deleted", (name: string) => void container.blobs.delete(name)]])("because its blob %s is a SchemaError, and the function does not run", async (_, damage) => {
    damage(container.names[0]!);
    const fn = vi.fn();
    expect(await rejection(process().run("k", fn))).toBeInstanceOf(SchemaError);
    expect(await rejection(process().get("k"))).toBeInstanceOf(SchemaError);
    expect(fn).not.toHaveBeenCalled();
    expect(await process().forget("k")).toBe(true);
    expect(await process().run("k", () => 2)).toEqual({ value: 2, replayed: false });
  });

  it("because its key was forgotten at that moment: the function runs", async () => {
    const getBlob = container.getBlockBlobClient.bind(container);
    vi.spyOn(container, "getBlockBlobClient").mockImplementationOnce((name) => {
      const blob = getBlob(name) as { download: (...args: unknown[]) => Promise<unknown> };
      return { ...blob, download: (...args: unknown[]) => process().forget("k").then(() => blob.download(...args)) };
    });
    expect(await process().run("k", () => 2)).toEqual({ value: 2, replayed: false });
    expect(fleet.service.resources.size).toBe(1);
  });

  it("because this process has no container is a TypeError that says so", async () => {
    expect(await rejection(fleet.process().run("k", () => 2))).toMatchObject({ name: "TypeError", message: expect.stringContaining("overflow") as unknown });
  });

  it("because the reference is damaged is a SchemaError", async () => {
    record().set("resultSha256", { type: "String", value: "../secrets" });
    expect(await rejection(process().run("k", () => 2))).toBeInstanceOf(SchemaError);
    record().set("resultSha256", { type: "String", value: "a".repeat(64) });
    record().set("resultSizeInBytes", { type: "Int32", value: 2 ** 30 });
    expect(await rejection(process().run("k", () => 2))).toBeInstanceOf(SchemaError);
    expect(container.counts).toEqual([]);
  });
});

describe("the blob of a result", () => {
  it("is deleted with its record", async () => {
    await process().run("k", () => large);
    await process().forget("k");
    expect(container.names).toEqual([]);
  });

  it("is kept if a later call has written it again", async () => {
    await process().run("k", () => large);
    const [name] = container.names;
    const forgetting = process().forget("k");
    container.put(name!, `"${large}"`);
    await inFakeTime(forgetting);
    expect(container.names).toEqual([name]);
  });

  it("is purged with records that are too old, and not before", async () => {
    await process().run("k", () => large);
    await vi.advanceTimersByTimeAsync(day - 60_000);
    expect(await process().purge()).toEqual({ deleted: 0, kept: 0 });
    expect(await process().run("k", () => "")).toMatchObject({ replayed: true });
    await vi.advanceTimersByTimeAsync(120_000);
    expect(await process().purge()).toEqual({ deleted: 2, kept: 0 });
    expect(container.names).toEqual([]);
    expect(fleet.rows()).toEqual([]);
  });

  it("is purged if no record refers to it, an hour after it was written", async () => {
    await process().run("k", () => large);
    await process().run("k2", () => large);
    container.faults.next("delete", "denied");
    await process().forget("k");
    expect(await process().purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    expect(container.names).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(3_700_000);
    expect(await process().purge({ olderThanInMs: 0 })).toEqual({ deleted: 2, kept: 0 });
    expect(container.names).toEqual([]);
  });

  it("is kept while a call runs whose predecessor has written it, and while a record refers to it", async () => {
    await process().run("k", () => large);
    await process().run("kept", () => large);
    const [name, kept] = container.names;
    const text = new TextDecoder().decode(container.blobs.get(name!)!.content);
    const { metadata } = container.blobs.get(name!)!;
    await process().forget("k");
    container.put(name!, text, metadata);
    let end!: (value: string) => void;
    const running = process().run("k", () => new Promise<string>((resolve) => (end = resolve)));
    await vi.advanceTimersByTimeAsync(4_000_000);
    expect(await process().purge({ olderThanInMs: 3_900_000 })).toEqual({ deleted: 2, kept: 1 });
    expect(container.names).toEqual([name]);
    expect(kept).not.toBe(name);
    end(large);
    await inFakeTime(running);
    expect(await process().run("k", () => "")).toEqual({ value: large, replayed: true });
  });

  it("is not purged by a host whose clock is days ahead", async () => {
    await process().run("k", () => large);
    await process().forget("k").then(() => process().run("k", () => large));
    const { now } = Date;
    fleet.service.date = () => new Date(now()).toUTCString();
    fleet.service.timestamp = () => new Date(now()).toISOString();
    const ahead = vi.spyOn(Date, "now").mockImplementation(() => now() + 3 * day);
    expect((await process().purge()).deleted).toBe(0);
    ahead.mockRestore();
    expect(container.names).toHaveLength(1);
  });

  it("of another program in the container is left alone", async () => {
    container.put("asc-once/account/other/abc", "1");
    container.put("photos/1.jpg", "1");
    await process().run("k", () => large);
    container.put(`${container.names.at(-1)!.slice(0, -1)}g`, "1");
    await vi.advanceTimersByTimeAsync(2 * day);
    expect(await process().purge()).toEqual({ deleted: 2, kept: 1 });
    expect(container.names).toHaveLength(3);
  });

  it("is not deleted without an ETag, which a proxy has removed; the purge deletes it", async () => {
    container.withETag = false;
    await process().run("k", () => large);
    await process().forget("k");
    expect(container.names).toHaveLength(1);
  });
});

describe("a transaction with a large result", () => {
  it("stores it before the commit, and replays it", async () => {
    const write = (tx: { upsert: (entity: { rowKey: string }) => void }): string => {
      tx.upsert({ rowKey: "a" });
      return large;
    };
    expect(await process().runTransaction("k", "p", write)).toEqual({ value: large, replayed: false });
    expect(await inFakeTime(process().runTransaction("k", "p", write))).toEqual({ value: large, replayed: true });
    expect(await process().get("k", { partitionKey: "p" })).toEqual({ state: "succeeded", value: large });
    await process().forget("k", { partitionKey: "p" });
    // The function of the repetition has run, and written its result anew: that may belong to a later call, and is left to the purge.
    expect(container.names).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(3_700_000);
    expect(await process().purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
  });

  it("writes nothing if the container does not take it", async () => {
    container.faults.always("upload", "denied");
    expect(await rejection(process().runTransaction("k", "p", (tx) => { tx.upsert({ rowKey: "a" }); return large; }))).toMatchObject({ statusCode: 403 });
    container.exists = false;
    container.faults.always("upload", "ok");
    const error = await rejection(process().runTransaction("k", "p", () => large));
    expect(error).toBeInstanceOf(TargetNotFoundError);
    // The container, and not the table.
    expect(error).toMatchObject({ url: expect.stringContaining(".blob.") as string });
    expect(fleet.rows()).toEqual([]);
  });
});
