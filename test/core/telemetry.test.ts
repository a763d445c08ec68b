import { createError } from "../../src/errors.js";
import { useInstrumenter } from "@azure/core-tracing";
import { AzureLogger, setLogLevel } from "@azure/logger";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Attempts, beginTogether, describeSpan, inSpan, spanAttributes, withAttempts, withSpan } from "../../src/core/telemetry.js";
import { appendExactlyOnce, ConflictError, optimisticUpdate } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeInstrumenter } from "../fakes/fake-instrumenter.js";
import { FakeService } from "../fakes/fake-service.js";
import { counterBlob, increment } from "../support/counter.js";

let instrumenter: FakeInstrumenter;
let logs: string[];
const logBefore = AzureLogger.log;

beforeEach(() => {
  vi.useFakeTimers();
  useInstrumenter((instrumenter = new FakeInstrumenter()));
  logs = [];
  setLogLevel("verbose");
  AzureLogger.log = (...args: unknown[]) => logs.push(args.join(" "));
});
afterEach(() => {
  vi.useRealTimers();
  useInstrumenter(undefined as never);
  setLogLevel(undefined);
  AzureLogger.log = logBefore;
});

const conflict = (): ConflictError => createError(ConflictError, "of https://a/b", { attempts: 1, elapsedInMs: 1, currentETag: undefined, url: undefined });

describe("a span of a call", () => {
  it("ends with the call, and is the parent of what is called in it", async () => {
    await withSpan("outer", {}, (tracingOptions) => withSpan("inner", { tracingOptions }, () => Promise.resolve()));
    const [outer, inner] = instrumenter.spans;
    expect(inner!.parent).toBe(outer);
    expect(instrumenter.spans.map(({ name, ended, status }) => ({ name, ended, status }))).toEqual([
      { name: "outer", ended: true, status: undefined },
      { name: "inner", ended: true, status: undefined },
    ]);
  });

  it("has the caller's span as its parent", async () => {
    const { tracingContext } = instrumenter.startSpan("request", { packageName: "app" });
    await withSpan("call", { tracingOptions: { tracingContext } }, () => Promise.resolve());
    expect(instrumenter.spans[1]!.parent!.name).toBe("request");
  });

  it("takes URLs without their query, whoever gives them", async () => {
    await withSpan("call", {}, async (_, span) => describeSpan(span, { url: "https://a/b?sig=secret" }), { url: "https://c?sig=secret" });
    expect(instrumenter.spans[0]!.attributes[spanAttributes.url]).toBe("https://a/b");
    expect(JSON.stringify(instrumenter.spans)).not.toContain("secret");
  });

  it("tells the kind of the error that was thrown, not its message, and passes the error on", async () => {
    const error = new RangeError("secret");
    await expect(withSpan("call", {}, () => Promise.reject(error))).rejects.toBe(error);
    const [span] = instrumenter.spans;
    expect(span).toMatchObject({ ended: true, status: { status: "error", error: "RangeError" } });
    expect(span!.attributes).toMatchObject({ [spanAttributes.errorType]: "RangeError", [spanAttributes.outcome]: "failed" });
  });

  it("ends when the function throws instead of rejecting", async () => {
    await expect(withSpan("call", {}, () => { throw new Error("at once"); })).rejects.toThrow("at once");
    expect(instrumenter.spans[0]!.ended).toBe(true);
  });

  it("says that its caller aborted it", async () => {
    const abortSignal = AbortSignal.abort(new Error("enough"));
    await expect(withSpan("call", { abortSignal }, async () => abortSignal.throwIfAborted())).rejects.toThrow("enough");
    expect(instrumenter.spans[0]!.attributes[spanAttributes.outcome]).toBe("aborted");
  });
});

describe("what a call throws", () => {
  it("is a warning in the log, once, though it passes through several calls", async () => {
    await expect(withSpan("outer", {}, () => withSpan("inner", {}, () => Promise.reject(conflict())))).rejects.toThrow();
    expect(logs).toEqual(["azure:storage-concurrency:warning inner failed: ConflictError (CONFLICT)"]);
  });

  it.each([new TypeError("misuse"), Object.assign(new Error("busy"), { statusCode: 503 })])("is a warning if it is %s", async (error) => {
    await expect(withSpan("call", {}, () => Promise.reject(error))).rejects.toBe(error);
    expect(logs).toEqual([expect.stringMatching(/^azure:storage-concurrency:warning call failed: /)]);
  });

  it("is verbose only if the caller's own function threw it", async () => {
    await expect(withSpan("call", {}, () => Promise.reject(new Error("secret")))).rejects.toThrow();
    expect(logs).toEqual(["azure:storage-concurrency:verbose call failed: Error"]);
  });

  it("is not logged by what nobody has called", async () => {
    await expect(inSpan("renewal", {}, () => Promise.reject(conflict()))).rejects.toThrow();
    expect(logs).toEqual([]);
  });
});

describe("attempts", () => {
  it("are spans in that of the call, with their number, outcome and requests", async () => {
    await withAttempts("call", {}, async (attempts) => {
      attempts.begin();
      attempts.countRequest();
      attempts.countRequest();
      attempts.end("race");
      attempts.begin();
      attempts.countRequest();
      attempts.end("updated");
    });
    const [call, first, second] = instrumenter.spans;
    expect(first).toMatchObject({ name: "call.attempt", parent: call, ended: true, status: undefined });
    expect(first!.attributes).toMatchObject({ "azsc.attempt": 1, "azsc.outcome": "race", "azsc.requests": 2 });
    expect(second!.attributes).toMatchObject({ "azsc.attempt": 2, "azsc.outcome": "updated", "azsc.requests": 1 });
    expect(call!.attributes).toMatchObject({ "azsc.attempts": 2, "azsc.requests": 3 });
  });

  it("leave the time in which none was under way as waiting time", async () => {
    await withAttempts("call", {}, async (attempts) => {
      await vi.advanceTimersByTimeAsync(30);
      attempts.begin();
      await vi.advanceTimersByTimeAsync(500);
      attempts.end("race");
      await vi.advanceTimersByTimeAsync(70);
      attempts.begin();
      await vi.advanceTimersByTimeAsync(500);
    });
    expect(instrumenter.spans[0]!.attributes["azsc.wait_ms"]).toBe(100);
  });

  it("are the parents of requests only while they last", () => {
    const { span, tracingContext } = instrumenter.startSpan("call", { packageName: "test" });
    const attempts = new Attempts("call", { tracingContext }, span);
    expect(attempts.tracingOptions).toEqual({ tracingContext });
    attempts.begin();
    expect(attempts.tracingOptions).not.toEqual({ tracingContext });
    attempts.end("race");
    expect(attempts.tracingOptions).toEqual({ tracingContext });
  });

  it("end with the call, and fail with it", async () => {
    const error = conflict();
    await expect(
      withAttempts("call", {}, (attempts) => {
        attempts.begin();
        return Promise.reject(error);
      }),
    ).rejects.toBe(error);
    expect(instrumenter.spans[1]).toMatchObject({ ended: true, status: { status: "error", error: "ConflictError (CONFLICT)" } });
  });

  it("that are shared link to the one that has the requests, which links to none", () => {
    const calls = ["a", "b"].map((name) => {
      const { span, tracingContext } = instrumenter.startSpan(name, { packageName: "test" });
      return { trace: new Attempts(name, { tracingContext }, span) };
    });
    beginTogether(calls);
    const [, , ofA, ofB] = instrumenter.spans;
    expect(ofA).toMatchObject({ name: "a.attempt", links: [] });
    expect(ofB!.links).toEqual([ofA]);
  });

  it("are counted for every record of a block, also for those that came while the end of the blob was claimed", async () => {
    const blob = new FakeAppendBlob(new FakeService());
    blob.put();
    await Promise.all(["a", "b", "c"].map((record) => appendExactlyOnce(blob, record)));
    expect(blob.stored?.blocks).toBe(1);
    const spans = instrumenter.spans.filter(({ name }) => name === "appendExactlyOnce");
    expect(spans.map(({ attributes }) => attributes["azsc.attempts"])).toEqual([1, 1, 1]);
    expect(instrumenter.spans.filter(({ name }) => name === "appendExactlyOnce.attempt")).toHaveLength(3);
  });

  it("have no spans if nobody records", async () => {
    instrumenter.recording = false;
    const { blob } = counterBlob();
    await optimisticUpdate(blob as never, increment as never);
    expect(instrumenter.spans.map(({ name }) => name)).toEqual(["optimisticUpdate"]);
  });
});
