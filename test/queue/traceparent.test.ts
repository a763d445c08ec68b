import { useInstrumenter } from "@azure/core-tracing";
import type { TracingContext } from "@azure/core-tracing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox, enqueue, enqueueMany, redrive } from "../../src/index.js";
import { FakeInstrumenter } from "../fakes/fake-instrumenter.js";
import { Bench } from "./fakes/consume.js";
import type { Handler } from "./fakes/consume.js";

const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/** Each span has a `traceparent`, and what is parsed is the context of a span of that name. */
class PropagatingInstrumenter extends FakeInstrumenter {
  headers: Record<string, string> = { traceparent: valid };
  readonly parsed: string[] = [];

  override createRequestHeaders(context?: TracingContext): Record<string, string> {
    return context ? this.headers : {};
  }
  override parseTraceparentHeader(header?: string): undefined {
    this.parsed.push(header ?? "");
    return new FakeInstrumenter().startSpan(header ?? "", { packageName: "producer" }).tracingContext as never;
  }
}

const bench = new Bench();
let instrumenter: PropagatingInstrumenter;
beforeEach(() => useInstrumenter((instrumenter = new PropagatingInstrumenter())));
afterEach(() => useInstrumenter(undefined as never));

const traceparents = (): unknown[] => bench.envelopes.map(({ traceparent }) => traceparent);
const parents = (): (string | undefined)[] => instrumenter.spans.filter(({ name }) => name === "QueueConsumer.handle").map(({ parent }) => parent?.name);
const send = (envelope: object): Promise<unknown> => bench.queue.sendMessage(JSON.stringify({ asc: 1, key: "k", body: "p", ...envelope }));

describe("the traceparent of a message", () => {
  it("is that of the span that sends it, which is a producer", async () => {
    await enqueue(bench.queue, "a", { encoding: "text" });
    await enqueueMany(bench.queue, ["b", "c"]);
    expect(traceparents()).toEqual([valid, valid, valid]);
    expect(instrumenter.spans.map(({ name, kind }) => [name, kind])).toEqual([["enqueue", "producer"], ["enqueueMany", "producer"]]);
  });

  it("is in messages in base64, too, and in nothing that XML cannot represent", async () => {
    await enqueue(bench.queue, "\uFFFE", { encoding: "base64", idempotencyKey: "k" });
    expect(JSON.parse(atob(bench.queue.messages[0]!.text))).toEqual({ asc: 1, key: "k", body: "\uFFFE", traceparent: valid });
    await enqueue(bench.queue, "\uFFFE\uD800");
    expect(bench.queue.messages[1]!.text).not.toMatch(/[\uFFFE\uFFFF]|\p{Cs}/u);
  });

  it.each([
    ["no instrumenter", undefined],
    ["an instrumenter that propagates nothing", {}],
    ["one that writes something else", { traceparent: "a trace" }],
  ])("is not stored with %s", async (_, headers) => {
    if (headers) instrumenter.headers = headers;
    else useInstrumenter(undefined as never);
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    expect(bench.envelopes).toEqual([{ asc: 1, key: "k", body: "p" }]);
  });

  it("is left out of a message that has no room for it, and of none that has", async () => {
    const room = 65_536 - JSON.stringify({ asc: 1, key: "k", body: "", traceparent: valid }).length;
    for (const length of [room, room + 1, room + 72]) await enqueue(bench.queue, "x".repeat(length), { idempotencyKey: "k" });
    expect(traceparents()).toEqual([valid, undefined, undefined]);
  });

  it("makes the span of each attempt a child of the producer's, and survives the attempts", async () => {
    await enqueue(bench.queue, "p");
    await bench.consume((_, { attempt, checkpoint }) => {
      checkpoint({ attempt });
      if (attempt < 3) throw new Error("not yet");
    });
    await bench.pass(20_000);
    expect(bench.names).toEqual(["retried", "retried", "completed"]);
    expect(parents()).toEqual([valid, valid, valid]);
  });

  it.each([
    ["a number", 5],
    ["an object", { toString: () => valid }],
    ["empty", ""],
    ["of a version that does not exist", valid.replace(/^00/, "ff")],
    ["longer", `${valid}-extra`],
    ["very long", valid.repeat(500)],
    ["in capitals", valid.toUpperCase()],
    ["a trace of zeros", valid.replace(/[0-9a-f]{32}/, "0".repeat(32))],
    ["a span of zeros", valid.replace(/-[0-9a-f]{16}-/, `-${"0".repeat(16)}-`)],
    ["with a line break", `${valid}\n`],
    ["cut", valid.slice(0, 54)],
  ])("is ignored if it is %s: the message is handled, and the tracer does not get it", async (_, traceparent) => {
    await send({ traceparent });
    const handler = vi.fn<Handler>();
    await bench.consume(handler);
    await bench.pass(10);
    expect(handler).toHaveBeenCalledOnce();
    expect(bench.names).toEqual(["completed"]);
    expect([parents(), instrumenter.parsed]).toEqual([[undefined], []]);
  });

  it("does no harm if the tracer cannot use it", async () => {
    await send({ traceparent: valid });
    vi.spyOn(instrumenter, "parseTraceparentHeader").mockImplementation(() => {
      throw new Error("broken tracer");
    });
    await bench.consume(() => undefined);
    await bench.pass(10);
    expect([bench.names, parents()]).toEqual([["completed"], [undefined]]);
  });

  it("is no part of messages of other producers", async () => {
    await bench.queue.sendMessage(JSON.stringify({ traceparent: valid }));
    const handler = vi.fn<Handler>();
    await bench.consume(handler);
    await bench.pass(10);
    expect(handler).toHaveBeenCalledExactlyOnceWith({ traceparent: valid }, expect.anything());
    expect(parents()).toEqual([undefined]);
  });

  it("stays with the message in the poison queue and after a redrive", async () => {
    await enqueue(bench.queue, "p");
    const handler = vi.fn<Handler>((_, { poison }) => poison("no")).mockImplementationOnce((_, { poison }) => poison("not now"));
    await bench.consume(handler);
    await bench.pass(10);
    expect(bench.poisons).toMatchObject([{ traceparent: valid, poison: { reason: "not now" } }]);
    await redrive(bench.poisonQueue, bench.queue);
    expect(traceparents()).toEqual([valid]);
    await bench.pass(10_000);
    expect(parents()).toEqual([valid, valid]);
  });

  it("gives way to a checkpoint", async () => {
    const room = 65_536 - JSON.stringify({ asc: 1, key: "k", body: "", traceparent: valid }).length;
    await enqueue(bench.queue, "x".repeat(room), { idempotencyKey: "k" });
    const handler = vi.fn<Handler>((_, { checkpoint, retry }) => {
      checkpoint("c".repeat(40));
      retry();
    });
    await bench.consume(handler, { maxAttempts: 9 });
    await bench.pass(10);
    expect(bench.names).toEqual(["retried"]);
    expect(bench.envelopes).toMatchObject([{ checkpoint: "c".repeat(40) }]);
    expect(traceparents()).toEqual([undefined]);
  });

  it("is left out of a poison message that is explained only without it", async () => {
    const details = { reason: "no", attempts: 1, queue: "jobs", messageId: "jobs-1", insertedOn: new Date().toISOString(), poisonedOn: new Date().toISOString(), encoding: "text", timeToLiveInSeconds: 604_800 };
    const room = 65_536 - JSON.stringify({ asc: 1, key: "k", body: "", poison: details }).length;
    await enqueue(bench.queue, "x".repeat(room), { idempotencyKey: "k" });
    expect(traceparents()).toEqual([valid]);
    await bench.consume((_, { poison }) => poison("no"));
    await bench.pass(10);
    expect(bench.poisons).toMatchObject([{ poison: { reason: "no" } }]);
    expect(bench.poisons[0]).not.toHaveProperty("traceparent");
  });

  it("does not make the same payload another one", async () => {
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    instrumenter.headers = { traceparent: valid.replace("4bf9", "5bf9") };
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    useInstrumenter(undefined as never);
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    expect(new Set(traceparents()).size).toBe(3);
    await bench.consume(() => undefined, { inbox: new ClaimInbox(bench.table), concurrency: 1 });
    await bench.pass(10_000);
    expect(bench.names).toEqual(["completed", "duplicate", "duplicate"]);
  });
});
