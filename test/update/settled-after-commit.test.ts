import { describe, expect, it } from "vitest";
import { createIfNotExists, DELETE, encodedBlob, jsonBlob, optimisticUpdate, overwrite, tableEntity } from "../../src/index.js";
import type { Codec, UpdateTarget } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { counterBlob } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

interface Doc {
  n?: number;
  m?: number;
  e?: number;
}

describe("a batch in which an operation is repeated after a delete", () => {
  const targets: [string, () => UpdateTarget<Doc>][] = [
    ["a blob", () => {
      const { blob } = counterBlob();
      blob.drop();
      return jsonBlob<Doc>(blob);
    }],
    ["an entity", () => tableEntity<Doc>(new FakeTable(new FakeService()), "p", "r") as unknown as UpdateTarget<Doc>],
  ];
  it.each(targets)("gives every caller a result: %s", async (_, make) => {
    const target = make();
    const results = await Promise.all([
      optimisticUpdate(target, (doc) => void (doc.n = 1), { operationId: "X", initial: { n: 0 } }),
      optimisticUpdate(target, () => DELETE),
      optimisticUpdate(target, (doc) => void (doc.n = 5), { operationId: "X", initial: { n: 0 } }),
      optimisticUpdate(target, (doc) => void (doc.m = 5), { initial: { m: 0 } }),
      optimisticUpdate(target, (doc) => void (doc.e = 5), { initial: {} }),
    ]);
    expect(results.map(({ outcome, attempts }) => [outcome, attempts])).toEqual([
      ["created", 1],
      ["deleted", 1],
      ["unchanged", 0],
      ["created", 1],
      ["updated", 1],
    ]);
    // What the operation left: the repetition counts as if it had come before the delete.
    expect(results[2].value).toMatchObject({ n: 1 });
    expect(results[4].value).toMatchObject({ m: 5, e: 5 });
    expect(results[2].etag).not.toBe(results[4].etag);
  });
});

describe("a codec that cannot decode what it has encoded", () => {
  const codec: Codec<Counter> = {
    encode: (value) => new TextEncoder().encode(JSON.stringify(value)),
    decode: (content) => {
      const value = JSON.parse(new TextDecoder().decode(content)) as Counter;
      if (value["bad"]) throw new Error("cannot decode");
      return value;
    },
  };

  it("rejects its own caller before the write, and no other", async () => {
    const { blob } = counterBlob();
    const target = encodedBlob(blob, codec);
    const good = optimisticUpdate(target, (doc) => { doc.n++; });
    const bad = rejection(optimisticUpdate(target, (doc) => void (doc["bad"] = true)));
    const third = optimisticUpdate(target, (doc) => { doc.n++; });
    expect((await good).value).toEqual({ n: 1 });
    expect(await bad).toBeInstanceOf(TypeError);
    expect((await third).value).toEqual({ n: 2 });
    expect(blob.json).toEqual({ n: 2 });
  });

  it("rejects single writes, too", async () => {
    const { service, blob } = counterBlob();
    const target = encodedBlob(blob, codec);
    expect(await rejection(overwrite(target, { n: 0, bad: true }))).toBeInstanceOf(TypeError);
    blob.drop();
    expect(await rejection(createIfNotExists(target, { n: 0, bad: true }))).toBeInstanceOf(TypeError);
    expect(service.count("write")).toBe(0);
  });
});
