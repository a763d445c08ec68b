import { describe, expect, it, vi } from "vitest";

import { appendExactlyOnce, type AppendExactlyOnceOptions, type AppendResult } from "../../src/index.js";
import { findOperation, metadataWithClaims, parseClaims, tokenOf, withClaim } from "../../src/append/claims.js";
import type { Claim } from "../../src/append/claims.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { before, busy, gate, ghost, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

function log(text = ""): { service: FakeService; blob: FakeAppendBlob; other: FakeAppendBlob } {
  const service = new FakeService();
  const blob = new FakeAppendBlob(service);
  blob.put(text);
  return { service, blob, other: new FakeAppendBlob(service, { pipeline: {} }) };
}

const append = (blob: FakeAppendBlob, record: string, options?: AppendExactlyOnceOptions): Promise<AppendResult> =>
  inFakeTime(appendExactlyOnce(blob, record, options));

describe("the repeat of an append with the same operationId", () => {
  it("is recognised by the same client and by another process, and resolves with the offset of the record", async () => {
    const { service, blob, other } = log("head\n");
    expect(await append(blob, "one\n", { operationId: "op-1" })).toMatchObject({ offset: 5 });
    await append(blob, "two\n");
    const appends = service.count("appendBlock");
    expect(await append(blob, "one\n", { operationId: "op-1" })).toMatchObject({ offset: 5, committedBlockCount: 3 });
    expect(await append(other, "one\n", { operationId: "op-1" })).toMatchObject({ offset: 5 });
    expect(service.count("appendBlock")).toBe(appends);
    expect(blob.text).toBe("head\none\ntwo\n");
  });

  it("is recognised after a process died while the append was in flight, whether it arrived or not", async () => {
    for (const fault of [hangAfterCommit, hang]) {
      const { service, blob, other } = log();
      const controller = new AbortController();
      service.next("appendBlock", fault);
      const dead = rejection(appendExactlyOnce(blob, "one\n", { operationId: "op-1", abortSignal: controller.signal }));
      await vi.advanceTimersByTimeAsync(10);
      controller.abort(new Error("the process died"));
      await dead;
      expect(await append(other, "one\n", { operationId: "op-1" })).toMatchObject({ offset: 0 });
      expect(blob.text).toBe("one\n");
    }
  });

  it("is appended if the claim of its block was not used, and another client has appended less than the block had", async () => {
    const { service, blob, other } = log();
    const controller = new AbortController();
    service.next("appendBlock", hang);
    const dead = ["a".repeat(100), "b".repeat(100)].map((record, n) => rejection(appendExactlyOnce(blob, record, { operationId: `op-${n}`, abortSignal: controller.signal })));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort(new Error("the process died"));
    await Promise.all(dead);
    blob.appendForeign("foreign");
    // The record of op-1 would begin behind the end of the blob. A caller that shares its request must not suffer from that.
    const [repeat, bystander] = await inFakeTime(Promise.all([appendExactlyOnce(other, "b".repeat(100), { operationId: "op-1" }), appendExactlyOnce(other, "innocent")]));
    expect([repeat.offset, bystander.offset]).toEqual([7, 107]);
    expect(blob.text).toBe(`foreign${"b".repeat(100)}innocent`);
    expect(await append(blob, "b".repeat(100), { operationId: "op-1" })).toMatchObject({ offset: 7 });
  });

  it("is appended if the blob was created again, and is shorter, while its bytes are compared", async () => {
    const { service, blob, other } = log();
    await append(blob, "head\n");
    await append(blob, "one\n", { operationId: "op-1" });
    service.next("download", before(() => blob.put("")));
    expect(await append(other, "one\n", { operationId: "op-1" })).toMatchObject({ offset: 0 });
    expect(blob.text).toBe("one\n");
  });

  it("invalidates an earlier request that has not arrived yet", async () => {
    const { service, blob, other } = log();
    const late = ghost();
    service.next("appendBlock", late.fault);
    // The process dies before it can read back.
    service.next("getProperties", pass, hang);
    const controller = new AbortController();
    const first = rejection(appendExactlyOnce(blob, "one\n", { operationId: "op-1", abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort();
    await first;
    expect(blob.text).toBe("");
    await append(other, "one\n", { operationId: "op-1" });
    late.arrive();
    expect(blob.text).toBe("one\n");
  });

  it("finds each record of a block at its own offset", async () => {
    const { service, blob, other } = log("head\n");
    const records = ["a\n", "bb\n", "ccc\n", "dddd\n"];
    const ids = ["A", undefined, "C", "D"];
    const results = await inFakeTime(Promise.all(records.map((record, n) => appendExactlyOnce(blob, record, { operationId: ids[n] }))));
    expect(results.map(({ offset }) => offset)).toEqual([5, 7, 10, 14]);
    expect(service.count("appendBlock")).toBe(1);
    for (const n of [0, 2, 3]) expect(await append(other, records[n]!, { operationId: ids[n] })).toMatchObject({ offset: results[n]!.offset });
    expect(service.count("appendBlock")).toBe(1);
  });

  it("waits for the first one if both are made at the same time", async () => {
    const { blob, service } = log();
    const both = [1, 2].map(() => appendExactlyOnce(blob, "one\n", { operationId: "op-1" }));
    const [first, second] = await inFakeTime(Promise.all(both));
    expect(second?.offset).toBe(first?.offset);
    expect(blob.text).toBe("one\n");
    expect(service.count("appendBlock")).toBe(1);
  });

  it("is recognised in another process that was slower", async () => {
    const { service, blob, other } = log();
    const held = gate();
    service.next("setMetadata", held.fault);
    const slow = appendExactlyOnce(blob, "one\n", { operationId: "op-1", timeoutInMs: Infinity });
    await held.reached;
    await append(other, "one\n", { operationId: "op-1" });
    held.open();
    expect(await inFakeTime(slow)).toMatchObject({ offset: 0 });
    expect(blob.text).toBe("one\n");
  });

  it("appends what was cancelled after the claim and before the append", async () => {
    const { service, blob, other } = log();
    const held = gate("after");
    service.next("setMetadata", held.fault);
    const controller = new AbortController();
    const cancelled = rejection(appendExactlyOnce(blob, "one\n", { operationId: "op-1", abortSignal: controller.signal }));
    const stays = appendExactlyOnce(blob, "two\n", { operationId: "op-2" });
    await held.reached;
    controller.abort(new Error("enough"));
    held.open();
    expect((await cancelled).message).toBe("enough");
    expect(await inFakeTime(stays)).toMatchObject({ offset: 0 });
    expect(blob.text).toBe("two\n");
    expect(await append(other, "one\n", { operationId: "op-1" })).toMatchObject({ offset: 4 });
    expect(await append(other, "two\n", { operationId: "op-2" })).toMatchObject({ offset: 0 });
    expect(blob.text).toBe("two\none\n");
  });

  it("finds what was added while a claim without it was written", async () => {
    const { service, blob, other } = log();
    const held = gate("after");
    service.next("setMetadata", held.fault);
    const first = appendExactlyOnce(blob, "one\n");
    await held.reached;
    const second = appendExactlyOnce(blob, "two\n", { operationId: "op-2" });
    held.open();
    await inFakeTime(Promise.all([first, second]));
    expect(service.count("appendBlock")).toBe(2);
    expect(await append(other, "two\n", { operationId: "op-2" })).toMatchObject({ offset: 4 });
    expect(blob.text).toBe("one\ntwo\n");
  });

  it("is not deceived by a client that appends without claims at the claimed position", async () => {
    const { service, blob, other } = log();
    const controller = new AbortController();
    service.next("appendBlock", hang);
    const dead = rejection(appendExactlyOnce(blob, "one\n", { operationId: "op-1", abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort();
    await dead;
    blob.appendForeign("foreign\n");
    expect(await append(other, "one\n", { operationId: "op-1" })).toMatchObject({ offset: 8 });
    expect(blob.text).toBe("foreign\none\n");
  });

  it("is recognised with uniqueRecords, too: such a record gets a claim", async () => {
    const { service, blob, other } = log();
    await append(blob, "one\n", { uniqueRecords: true, operationId: "op-1" });
    expect(service.operations).toEqual(["getProperties", "setMetadata", "appendBlock"]);
    await append(other, "one\n", { uniqueRecords: true, operationId: "op-1" });
    expect(blob.text).toBe("one\n");
  });

  it("retries an unknown outcome without a second record", async () => {
    const { service, blob } = log();
    service.next("appendBlock", loseAnswerForGood);
    service.next("getProperties", pass, busy, busy, busy);
    const options = { operationId: "op-1", onUnknown: "retry" } as const;
    expect(await append(blob, "one\n", options)).toMatchObject({ offset: 0 });
    expect(blob.text).toBe("one\n");
  });

  it.each(["", "a b", "ä", "a+b", "a~b", "x".repeat(65)])("refuses the id %j", async (operationId) => {
    const { service, blob } = log();
    expect(await rejection(appendExactlyOnce(blob, "one", { operationId }))).toBeInstanceOf(RangeError);
    expect(await rejection(appendExactlyOnce(blob, "one", { operationId: 7 as never }))).toBeInstanceOf(TypeError);
    expect(service.requests).toHaveLength(0);
  });

  it("holds for any order of lost, late and failed requests of several processes", async () => {
    for (let seed = 1; seed <= 60; seed++) {
      let state = seed;
      const random = (): number => ((state = (state * 48_271) % 2_147_483_647) / 2_147_483_647);
      const { service, blob } = log();
      const clients = Array.from({ length: 3 }, () => new FakeAppendBlob(service, { pipeline: {} }));
      const faults = [loseAnswer, loseAnswerForGood, loseRequest, busy, pass, pass, pass];
      for (let n = 0; n < 30; n++) service.next("any", faults[Math.floor(random() * faults.length)]!);
      const untilKnown = async (client: FakeAppendBlob, id: string): Promise<AppendResult> => {
        for (;;) {
          try {
            return await appendExactlyOnce(client, `<${id}>`, { operationId: id });
          } catch {
            // any error: the caller repeats the call with the same id
          }
        }
      };
      const calls = Array.from({ length: 24 }, (_, n) => ({ client: clients[Math.floor(random() * 3)]!, id: `op${n % 8}` }));
      const results = await inFakeTime(Promise.all(calls.map(async ({ client, id }) => ({ id, ...(await untilKnown(client, id)) }))));
      expect(blob.text.match(/<op\d>/g)?.sort(), `seed ${seed}`).toEqual(Array.from({ length: 8 }, (_, n) => `<op${n}>`));
      for (const { id, offset } of results) expect(blob.text.slice(offset, offset + 5), `seed ${seed}`).toBe(`<${id}>`);
    }
  });
});

describe("the claims with operations", () => {
  const claim = (position: number, ...ids: string[]): Claim => ({ position, id: `id${position}`, operations: ids.map((id, n) => ({ id, offset: n * 10 })) });

  it("stay within the size of metadata: the oldest operations are dropped first, then the oldest claims", () => {
    const id = (n: number): string => `${n}-`.padEnd(36, "x");
    let claims: readonly Claim[] = [];
    for (let n = 0; n < 100; n++) {
      claims = withClaim(claims, claim(n * 1_000, ...Array.from({ length: 20 }, (_, k) => id(20 * n + k))));
      const metadata = metadataWithClaims({ owner: "me" }, claims);
      expect(metadata["asc_appends"]!.length).toBeLessThanOrEqual(8 * 1024 - "asc_appends".length - "ownerme".length);
      claims = parseClaims(metadata["asc_appends"]);
    }
    expect(claims).toHaveLength(64);
    const found = claims.filter(({ operations }) => operations.length === 20);
    expect(found.length).toBeGreaterThanOrEqual(6);
    expect(findOperation({ length: 100_000, claims }, id(20 * 99 + 3))).toEqual({ kind: "appended", offset: 99_030 });
    expect(findOperation({ length: 100_000, claims }, id(0))).toBeUndefined();
    const little = metadataWithClaims({ owner: "x".repeat(7_000) }, claims);
    expect(parseClaims(little["asc_appends"])[0]?.operations).toHaveLength(20);
  });

  it("tell what was claimed and not appended", () => {
    const claims = withClaim([claim(0, "a")], claim(10, "b"));
    expect(findOperation({ length: 10, claims }, "a")).toEqual({ kind: "appended", offset: 0 });
    expect(findOperation({ length: 10, claims }, "b")).toEqual({ kind: "claimed" });
    expect(findOperation({ length: 10, claims }, "c")).toBeUndefined();
  });

  it("find a record by the id of the library, which names the claim and the offset", () => {
    const claims = [claim(1_000)];
    expect(findOperation({ length: 2_000, claims }, tokenOf("id1000", 77))).toEqual({ kind: "appended", offset: 1_077 });
    expect(findOperation({ length: 2_000, claims }, tokenOf("id2000", 77))).toBeUndefined();
  });

  it("are read by versions that do not know operations, and the other way round", () => {
    // What such a version does: everything behind the first dot is the id.
    const parseBefore = (text: string): { position: number; id: string }[] =>
      text.split("~").slice(1).map((entry) => ({ position: Number.parseInt(entry.slice(0, entry.indexOf(".")), 36), id: entry.slice(entry.indexOf(".") + 1) }));
    const text = metadataWithClaims({}, withClaim([claim(0, "a", "b")], claim(36)))["asc_appends"]!;
    expect(text).toBe("1~10.id36~0.id0+a+b:a");
    expect(parseBefore(text)).toEqual([{ position: 36, id: "id36" }, { position: 0, id: "id0+a+b:a" }]);
    // It keeps the entries of other appenders as they are.
    const rewritten = `1~20.new~${parseBefore(text).map(({ position, id }) => `${position.toString(36)}.${id}`).join("~")}`;
    expect(findOperation({ length: 100, claims: parseClaims(rewritten) }, "b")).toEqual({ kind: "appended", offset: 10 });
    expect(parseClaims("1~10.abc~0.def")).toEqual([{ position: 36, id: "abc", operations: [] }, { position: 0, id: "def", operations: [] }]);
    for (const bad of ["2~0.a", "1~0.a+", "1~0.+a", "1~x", "1~0.a+b:-1", ""]) expect(parseClaims(bad)).toEqual([]);
  });

  it("limit the records of a block to those whose ids fit", async () => {
    const { service, blob, other } = log();
    const ids = Array.from({ length: 100 }, (_, n) => `${n}-`.padEnd(64, "x"));
    await inFakeTime(Promise.all(ids.map((operationId) => appendExactlyOnce(blob, `<${operationId}>`, { operationId }))));
    expect(blob.text).toBe(ids.map((id) => `<${id}>`).join(""));
    expect(service.count("appendBlock")).toBe(4);
    expect(await append(other, `<${ids[99]}>`, { operationId: ids[99] })).toMatchObject({ offset: 99 * 66 });
    expect(service.count("appendBlock")).toBe(4);
  });
});
