import { describe, expect, it, onTestFinished, vi } from "vitest";

import { CommitUnknownError, IdempotencyMismatchError, InProgressError, isConcurrencyError, LeaseLostError, OperationTimeoutError, SchemaError } from "../../src/index.js";
import type { OnceContext } from "../../src/index.js";
import { placeOf } from "../../src/once/once-record.js";
import { storedError } from "../../src/once/stored-result.js";
import { answer, busy, failAfterCommit, gate, ghost, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { hashAtOnce } from "../queue/fakes/fake-container.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakeFleet } from "./fakes.js";
import { deferred } from "../fakes/deferred.js";

useFakeTimers();

describe("a repetition", () => {
  it("gets the stored result, in any process, and the function runs once", async () => {
    const { service, process } = fakeFleet();
    const fn = vi.fn(() => ({ id: 1, on: new Date(0) }));
    expect(await process().run("k", fn)).toEqual({ value: { id: 1, on: new Date(0) }, replayed: false });
    expect(service.operations).toEqual(["createEntity", "updateEntity"]);
    service.requests.length = 0;
    expect(await process().run("k", fn)).toEqual({ value: { id: 1, on: "1970-01-01T00:00:00.000Z" }, replayed: true });
    expect(service.operations).toEqual(["createEntity", "getEntity"]);
    expect(fn).toHaveBeenCalledTimes(1);
  });

  it.each([undefined, null, 0, "", false, "😀".repeat(29_000)])("gets a result of any kind: %s", async (value) => {
    const { process } = fakeFleet();
    await process().run<unknown>("k", () => value);
    expect(await process().run("k", () => "other")).toEqual({ value, replayed: true });
  });

  it("with another fingerprint is rejected, whatever the order of its properties", async () => {
    const { process } = fakeFleet();
    await process().run("k", () => 1, { fingerprint: { a: 1, b: [{ c: 2, d: 3 }] } });
    expect(await process().run("k", () => 2, { fingerprint: { b: [{ d: 3, c: 2 }], a: 1 } })).toMatchObject({ value: 1 });
    expect(await rejection(process().run("k", () => 2, { fingerprint: { a: 2, b: [] } }))).toBeInstanceOf(IdempotencyMismatchError);
    expect(await process().run("k", () => 2)).toMatchObject({ value: 1 });
  });

  it.each([
    ["a Map", new Map([["amount", 30]]), "Map"], ["a Promise", Promise.resolve(30), "Promise"], ["URLSearchParams", new URLSearchParams("amount=30"), "URLSearchParams"],
    ["bytes in a part of it", { body: new ArrayBuffer(3) }, "ArrayBuffer"],
  ])("rejects a fingerprint of which JSON contains nothing, as all of them would be the same call: %s", async (_, fingerprint, name) => {
    const { process } = fakeFleet();
    const fn = vi.fn();
    expect(await rejection(process().run("k", fn, { fingerprint }))).toMatchObject({ name: "TypeError", message: expect.stringContaining(name) as string });
    expect(fn).not.toHaveBeenCalled();
  });

  it("rejects a fingerprint that refers to itself, and takes empty objects, dates and instances of classes", async () => {
    const { process } = fakeFleet();
    const cycle: Record<string, unknown> = {};
    cycle["self"] = [cycle];
    expect(await rejection(process().run("k", () => 1, { fingerprint: cycle }))).toMatchObject({ name: "TypeError", message: expect.stringContaining("refers to itself") as string });
    class Order {
      readonly amount: number;
      constructor(amount: number) {
        this.amount = amount;
      }
    }
    const fingerprintOf = (amount: number): object => ({ a: {}, b: [], c: Object.create(null) as object, d: new Date(0), e: new Uint8Array([1]), f: new Order(amount) });
    await process().run("k", () => 1, { fingerprint: fingerprintOf(1) });
    expect(await process().run("k", () => 2, { fingerprint: fingerprintOf(1) })).toMatchObject({ value: 1 });
    expect(await rejection(process().run("k", () => 2, { fingerprint: fingerprintOf(2) }))).toBeInstanceOf(IdempotencyMismatchError);
  });

  it("runs the function again when the result is too old, by the clock of the service", async () => {
    const { service, process } = fakeFleet();
    await process({ resultTtlInMs: 60_000 }).run("k", () => 1);
    service.aheadInMs = 59_000;
    expect(await process({ resultTtlInMs: 60_000 }).run("k", () => 2)).toMatchObject({ value: 1, replayed: true });
    service.aheadInMs = 61_000;
    expect(await process({ resultTtlInMs: 60_000 }).run("k", () => 2)).toEqual({ value: 2, replayed: false });
  });

  it("is validated by the schema of its caller", async () => {
    const { process } = fakeFleet();
    await process().run("k", () => ({ n: 1 }));
    const schema = (issues?: { message: string }[]) => ({ "~standard": { version: 1 as const, vendor: "v", validate: (value: unknown) => (issues ? { issues } : { value: { ...(value as { n: number }), checked: true } }) } });
    expect(await process().run("k", () => ({ n: 2, checked: false }), { schema: schema() })).toEqual({ value: { n: 1, checked: true }, replayed: true });
    expect(await rejection(process().run("k", () => ({ n: 2 }), { schema: schema([{ message: "no" }]) }))).toBeInstanceOf(SchemaError);
  });
});

describe("a function that throws", () => {
  it("leaves nothing behind, and the next call runs it", async () => {
    const { process, rows } = fakeFleet();
    const error = new Error("card declined");
    expect(await rejection(process().run("k", () => Promise.reject(error)))).toBe(error);
    expect(rows()).toEqual([]);
    expect(await process().run("k", () => 2)).toEqual({ value: 2, replayed: false });
  });

  it("is stored if the caller wants that, and thrown again for each repetition", async () => {
    const { process } = fakeFleet();
    const error = Object.assign(new RangeError("card declined"), { code: "DECLINED", details: { attempt: 1 } });
    expect(await rejection(process().run("k", () => { throw error; }, { storeError: () => true }))).toBe(error);
    const replayed = await rejection(process().run("k", () => 2));
    expect(replayed).toBeInstanceOf(Error);
    expect(replayed).toMatchObject({ name: "RangeError", message: "card declined", code: "DECLINED", details: { attempt: 1 } });
    expect(await process().get("k")).toEqual({ state: "failed" });
  });

  it.each(["a bigint", "a getter that throws"])("is stored without properties that cannot be: %s", async (which) => {
    const { process } = fakeFleet();
    const error = which === "a bigint" ? Object.assign(new Error("m"), { n: 1n }) : Object.defineProperty(new Error("m"), "x", { enumerable: true, get: () => { throw new Error("no"); } });
    await rejection(process().run("k", () => { throw error; }, { storeError: () => true }));
    expect(await rejection(process().run("k", () => 2))).toMatchObject({ name: "Error", message: "m" });
  });

  it("leaves nothing behind if storeError throws", async () => {
    const { process, rows } = fakeFleet();
    const thrown = new Error("storeError");
    expect(await rejection(process().run("k", () => { throw new Error("no"); }, { storeError: () => { throw thrown; } }))).toBe(thrown);
    expect(rows()).toEqual([]);
  });

  it("cannot make the error of a repetition another object's prototype", async () => {
    const { process } = fakeFleet();
    const error = new Error("m");
    Object.defineProperty(error, "__proto__", { value: { polluted: true }, enumerable: true });
    await rejection(process().run("k", () => { throw error; }, { storeError: () => true }));
    const replayed = await rejection(process().run("k", () => 2));
    expect(Object.getPrototypeOf(replayed)).toBe(Error.prototype);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

describe("options that cannot be called", () => {
  it.each([{ storeError: true }, { schema: {} }])("are rejected before the function runs: %o", async (options) => {
    const { process, service } = fakeFleet();
    const fn = vi.fn();
    expect(await rejection(process().run("k", fn, options as never))).toBeInstanceOf(TypeError);
    expect(await rejection(process().runTransaction("k", "p", fn, options as never))).toBeInstanceOf(TypeError);
    expect(fn).not.toHaveBeenCalled();
    expect(service.operations).toEqual([]);
  });
});

it("a table that does not exist is an error that says so, before the function runs", async () => {
  const { process, service } = fakeFleet();
  service.each("any", answer(404, "TableNotFound"));
  const fn = vi.fn();
  for (const call of [() => process().run("k", fn), () => process().get("k"), () => process().forget("k"), () => process().purge()]) expect(await rejection(call())).toMatchObject({ code: "TARGET_NOT_FOUND" });
  expect(fn).not.toHaveBeenCalled();
  // An error of the function itself is its own.
  service.heal();
  const own = Object.assign(new Error("other table"), { statusCode: 404, code: "TableNotFound" });
  expect(await rejection(process().run("k", () => Promise.reject(own)))).toBe(own);
});

describe("an outcome that the table rejects", () => {
  it.each([() => 1, () => { throw new Error("declined"); }])("is stored when the credentials are valid again, as long as the claim is held", async (fn) => {
    const { process, service } = fakeFleet();
    service.next("updateEntity", answer(403, "AuthenticationFailed"), answer(401, "InvalidAuthenticationInfo"), answer(403, "AuthorizationFailure"));
    await inFakeTime(process().run<unknown>("k", fn, { storeError: () => true }).catch(() => undefined));
    const again = vi.fn();
    await process().run("k", again).catch(() => undefined);
    expect(again).not.toHaveBeenCalled();
  });

  it.each([[403, "AuthorizationFailure"], [404, "TableNotFound"]])("is an error that says so, not only that of the service: %i %s", async (status, code) => {
    const { process, service } = fakeFleet();
    service.each("updateEntity", answer(status, code));
    // With less time, the call ends before its claim: the outcome may still be stored.
    if (status === 403) expect(await rejection(inFakeTime(process().run("other", () => 1, { timeoutInMs: 5_000 })))).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown" });
    const error = await rejection(inFakeTime(process().run("k", () => 1, { timeoutInMs: 120_000 })));
    expect(error).toMatchObject({ code: "LEASE_LOST", committed: "unknown" });
    expect((error as Error).message).toMatch(/may run again/);
    service.heal();
    expect(await inFakeTime(process().run("k", ({ attempt }) => attempt, { timeoutInMs: 120_000 }))).toEqual({ value: 2, replayed: false });
  });
});

describe("a result that cannot be stored", () => {
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  it.each([["a cycle", cycle], ["a bigint", 1n], ["too much", "x".repeat(70_000)]])("%s: the key counts as done, and the function does not run again", async (_, value) => {
    const { process } = fakeFleet();
    expect(await rejection(process().run<unknown>("k", () => value))).toBeInstanceOf(RangeError);
    const fn = vi.fn();
    expect(await rejection(process().run("k", fn))).toMatchObject({ name: "RangeError" });
    expect(fn).not.toHaveBeenCalled();
    expect(await process().get("k")).toEqual({ state: "succeeded" });
  });

  it("is described without the message of its error, which may contain it; the first caller gets that as the cause", async () => {
    const { process, service } = fakeFleet();
    const cause = new TypeError("card 4111");
    const value = { toJSON: () => { throw cause; } };
    const first = await rejection(process().run<unknown>("k", () => value)) as Error;
    expect(first).toMatchObject({ name: "RangeError", cause });
    const again = await rejection(process().run("k", () => 1)) as Error;
    expect([first.message, again.message, JSON.stringify([...service.resources.values()].map((row) => [...(row as { properties: Map<string, unknown> }).properties]))].join()).not.toContain("4111");
    expect(again.message).toContain("(TypeError)");
  });
});

describe("a stored outcome that another program has changed", () => {
  const forgeries: readonly (readonly [string, string, string])[] = [
    ["succeeded", "value", "{"], ["succeeded", "value", "undefined"], ["failed", "error", "{"], ["failed", "error", "null"], ["failed", "error", "5"], ["failed", "error", '{"isError":true}'],
    ["failed", "error", '{"isError":true,"message":5}'], ["failed", "error", '{"isError":true,"message":"m","name":{}}'],
  ];
  it.each(forgeries)("is a SchemaError for each call, and can be forgotten: %s %s %s", async (state, outcome, result0) => {
    const { process, table } = fakeFleet();
    const once = process();
    await once.run("k", () => 1);
    const { partitionKey, rowKey } = await placeOf("k");
    const text = (value: string): { type: string; value: string } => ({ type: "String", value });
    table.merge({ state: text(state), outcome: text(outcome), result0: text(result0) }, partitionKey, rowKey);
    const fn = vi.fn();
    expect(await rejection(once.run("k", fn))).toMatchObject({ code: "SCHEMA" });
    expect(await rejection(once.get("k"))).toMatchObject({ code: "SCHEMA" });
    expect(fn).not.toHaveBeenCalled();
    expect(await once.forget("k")).toBe(true);
    expect(await once.run("k", () => 2)).toEqual({ value: 2, replayed: false });
  });

  it("gives an error no properties that break its printing", () => {
    const properties = '{"toString":1,"stack":{"a":1},"message":{"b":1},"constructor":null,"__proto__":null,"code":"REFUSED"}';
    const error = storedError(`{"isError":true,"name":"RefusedError","message":"m","properties":${properties}}`, "https://account.table.example/t") as Error;
    expect(String(error)).toBe("RefusedError: m");
    expect(error.stack).toContain("Error: m");
    expect(Object.keys(error)).toEqual(["code"]);
    expect(Object.getPrototypeOf(error)).toBe(Error.prototype);
  });
});

describe("a result whose own code fails", () => {
  it.each([
    ["with a message of any length", "x".repeat(3_000_000)],
    ["with a message of any characters", "\u0000\ud800"],
  ])("%s: the key counts as done", async (_, message) => {
    const { process, service } = fakeFleet();
    const value = { toJSON: () => { throw new Error(message); } };
    expect(await rejection(process().run<unknown>("k", () => value))).toBeInstanceOf(RangeError);
    const [row] = [...service.resources.values()];
    expect(JSON.stringify([...(row as { properties: Map<string, { value: unknown }> }).properties.values()].map((property) => property.value)).length).toBeLessThan(2_000);
    expect(await process().get("k")).toEqual({ state: "succeeded" });
  });

  it("an error whose name and message are not texts is stored as texts", async () => {
    const { process } = fakeFleet();
    const error = Object.assign(new Error("m"), { name: 5, message: { code: 1 } });
    expect(await rejection(process().run("k", () => { throw error; }, { storeError: () => true }))).toBe(error);
    expect(await rejection(process().run("k", () => 2))).toMatchObject({ name: "5", message: "[object Object]" });
  });
});

describe("a stored result that another program has changed", () => {
  it.each([["value", "{"], ["value", "undefined"], ["error", "{"], ["error", "null"], ["error", "{}"], ["error", "[1]"]])("is a SchemaError, and the function does not run: %s %s", async (outcome, text) => {
    const { service, table, process } = fakeFleet();
    await process().run("k", () => 1);
    const [, partitionKey, rowKey] = JSON.parse([...service.resources.keys()][0]!) as string[];
    const { properties } = table.row(partitionKey, rowKey) as unknown as { properties: Map<string, { type: string; value: unknown }> };
    properties.set("outcome", { type: "String", value: outcome });
    properties.set("result0", { type: "String", value: text });
    const fn = vi.fn();
    expect(await rejection(process().run("k", fn))).toBeInstanceOf(SchemaError);
    if (outcome === "value") expect(await rejection(process().get("k"))).toBeInstanceOf(SchemaError);
    expect(fn).not.toHaveBeenCalled();
    expect(await process().forget("k")).toBe(true);
  });
});

const lost: readonly (readonly [string, Fault])[] = [
  ["the response is lost and the SDK sends again", loseAnswer],
  ["the response is lost for good", loseAnswerForGood],
  ["the request is lost", loseRequest],
  ["the service commits and answers 500", failAfterCommit],
  ["the service is busy", busy],
];

describe.each(lost)("if %s", (_, fault) => {
  it.each(["createEntity", "updateEntity"])("of %s, the function runs once and its result is stored", async (operation) => {
    const { service, process } = fakeFleet();
    service.next(operation, fault);
    const fn = vi.fn(() => 1);
    expect(await inFakeTime(process().run("k", fn))).toEqual({ value: 1, replayed: false });
    expect(await inFakeTime(process().run("k", fn))).toEqual({ value: 1, replayed: true });
    expect(fn).toHaveBeenCalledTimes(1);
  });

  it("of the delete after a failed function, the next call runs it, at the latest when the claim has expired", async () => {
    const { service, process } = fakeFleet();
    service.next("deleteEntity", fault);
    await rejection(inFakeTime(process().run("k", () => Promise.reject(new Error("no")))));
    expect(await inFakeTime(process().run("k", () => 2, { timeoutInMs: 120_000 }))).toEqual({ value: 2, replayed: false });
  });

  it("of a renewal, the claim is held all the same", async () => {
    const { service, process } = fakeFleet();
    const end = deferred();
    const running = process({ claimDurationInMs: 10_000 }).run("k", () => end.promise.then(() => 1));
    await vi.advanceTimersByTimeAsync(1_000);
    service.next("updateEntity", fault);
    await vi.advanceTimersByTimeAsync(30_000);
    end.resolve();
    expect(await inFakeTime(running)).toEqual({ value: 1, replayed: false });
    expect(await process().get("k")).toEqual({ state: "succeeded", value: 1 });
  });
});

describe("while another call runs the function", () => {
  it("a call of the same process waits without a request, and each gets its own copy", async () => {
    const { service, process } = fakeFleet();
    const once = process();
    const results = await inFakeTime(Promise.all(Array.from({ length: 50 }, () => once.run("k", async () => ({ n: Math.random() })))));
    expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(new Set(results.map(({ value }) => value.n)).size).toBe(1);
    expect(new Set(results.map(({ value }) => value)).size).toBe(50);
    expect(service.operations).toEqual(["createEntity", "updateEntity"]);
  });

  it("a call of the same process runs its own function if the first one fails", async () => {
    const { process } = fakeFleet();
    const once = process();
    const first = once.run("k", () => Promise.reject(new Error("no")));
    const second = once.run("k", () => 2);
    expect(await rejection(first)).toMatchObject({ message: "no" });
    expect(await inFakeTime(second)).toEqual({ value: 2, replayed: false });
  });

  it("a call of the same process with another fingerprint is rejected, before the first one ends", async () => {
    const { process } = fakeFleet();
    const once = process();
    const end = deferred();
    const started = deferred();
    const first = once.run("k", () => { started.resolve(); return end.promise; }, { fingerprint: 1 });
    await started.promise;
    expect(await rejection(once.run("k", () => 2, { fingerprint: 2 }))).toBeInstanceOf(IdempotencyMismatchError);
    expect(await rejection(once.run("k", () => 2, { fingerprint: 2, whenInProgress: "throw" }))).toBeInstanceOf(IdempotencyMismatchError);
    end.resolve();
    await inFakeTime(first);
  });

  it("a call with whenInProgress: \"throw\", or with another fingerprint, does not wait behind one of its process that waits for another process", async () => {
    hashAtOnce();
    onTestFinished(() => void vi.restoreAllMocks());
    const { process, service } = fakeFleet();
    const end = deferred();
    const first = process().run("k", () => end.promise.then(() => 1), { fingerprint: 1 });
    await vi.advanceTimersByTimeAsync(10);
    const once = process();
    const waiting = once.run("k", () => 2, { fingerprint: 1 });
    await vi.advanceTimersByTimeAsync(10);
    const requests = service.operations.length;
    const error = await rejection(once.run("k", () => 3, { whenInProgress: "throw" }));
    expect(error).toBeInstanceOf(InProgressError);
    expect(error["retryAfterInMs"]).toBeGreaterThan(50_000);
    expect(await rejection(once.run("k", () => 3, { fingerprint: 2 }))).toBeInstanceOf(IdempotencyMismatchError);
    expect(service.operations).toHaveLength(requests);
    end.resolve();
    expect(await inFakeTime(first)).toEqual({ value: 1, replayed: false });
    expect(await inFakeTime(waiting)).toEqual({ value: 1, replayed: true });
  });

  it("calls of one process that only read the result do not count as in progress", async () => {
    const { process } = fakeFleet();
    await process().run("k", () => 1);
    const once = process();
    const results = await Promise.all([1, 2, 3].map(() => once.run("k", () => 2, { whenInProgress: "throw" })));
    expect(results.map(({ value }) => value)).toEqual([1, 1, 1]);
  });

  it("a call of another process waits for the result, however long the function takes", async () => {
    const { process } = fakeFleet();
    const end = deferred();
    const first = process({ claimDurationInMs: 10_000 }).run("k", () => end.promise.then(() => 1));
    await vi.advanceTimersByTimeAsync(10);
    const fn = vi.fn();
    const second = process().run("k", fn, { timeoutInMs: 600_000 });
    await vi.advanceTimersByTimeAsync(100_000);
    end.resolve();
    expect(await inFakeTime(first)).toMatchObject({ replayed: false });
    expect(await inFakeTime(second)).toEqual({ value: 1, replayed: true });
    expect(fn).not.toHaveBeenCalled();
  });

  it("a call rejects at once with whenInProgress: \"throw\", or when its time is over", async () => {
    const { process } = fakeFleet();
    const end = deferred();
    const once = process();
    const first = once.run("k", () => end.promise);
    await vi.advanceTimersByTimeAsync(10);
    for (const other of [once, process()]) {
      const error = await rejection(other.run("k", () => 2, { whenInProgress: "throw" }));
      expect(error).toBeInstanceOf(InProgressError);
      expect(error["retryAfterInMs"]).toBeGreaterThan(50_000);
      const late = rejection(other.run("k", () => 2, { timeoutInMs: 2_000 }));
      await vi.advanceTimersByTimeAsync(2_001);
      expect(await late).toBeInstanceOf(InProgressError);
    }
    end.resolve();
    await inFakeTime(first);
  });

  it("a call of another process polls less and less often: fewer than 60 times in ten seconds", async () => {
    const { service, process } = fakeFleet();
    const end = deferred();
    const first = process().run("k", () => end.promise);
    await vi.advanceTimersByTimeAsync(10);
    const second = process().run("k", () => 2);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(service.count("getEntity")).toBeLessThan(60);
    end.resolve();
    await inFakeTime(Promise.all([first, second]));
  });
});

describe("a process that has crashed", () => {
  /** It has claimed the key, and is never heard of again. */
  async function crashed(fleet: ReturnType<typeof fakeFleet>): Promise<void> {
    const once = fleet.process({ claimDurationInMs: 10_000 });
    const { rows } = fleet;
    void once.run("k", () => new Promise(() => undefined)).catch(() => undefined);
    await vi.advanceTimersByTimeAsync(1);
    expect(rows()).toHaveLength(1);
    fleet.service.each("updateEntity", hang);
    await vi.advanceTimersByTimeAsync(9_500);
    fleet.service.heal();
  }

  it.each([true, false])("is taken over when its claim has expired (with the time of the service: %s)", async (tellsTime) => {
    const fleet = fakeFleet();
    await crashed(fleet);
    fleet.service.tellsTime = tellsTime;
    const contexts: OnceContext[] = [];
    const second = fleet.process().run("k", (context) => { contexts.push(context); return 2; }, { timeoutInMs: 60_000 });
    await vi.advanceTimersByTimeAsync(100);
    expect(contexts).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(tellsTime ? 3_000 : 12_000);
    expect(await inFakeTime(second)).toEqual({ value: 2, replayed: false });
    expect(contexts).toMatchObject([{ key: "k", attempt: 2 }]);
  });

  it("and its owner fails with an error that is to be stored: it is told that the error is not", async () => {
    const fleet = fakeFleet();
    const failure = new Error("declined");
    const end = deferred();
    const first = rejection(fleet.process({ claimDurationInMs: 10_000 }).run("k", () => end.promise.then(() => { throw failure; }), { storeError: () => true }));
    await vi.advanceTimersByTimeAsync(1);
    fleet.service.each("updateEntity", loseRequest);
    await vi.advanceTimersByTimeAsync(20_000);
    fleet.service.heal();
    expect(await inFakeTime(fleet.process().run("k", () => 2))).toEqual({ value: 2, replayed: false });
    end.resolve();
    expect(await inFakeTime(first)).toMatchObject({ code: "LEASE_LOST", committed: "unknown", cause: failure });
    expect(await fleet.process().get("k")).toEqual({ state: "succeeded", value: 2 });
  });

  it("does not begin with a claim that may have expired: one whose response came late is renewed first", async () => {
    const fleet = fakeFleet();
    const claim = gate("after");
    fleet.service.next("createEntity", claim.fault);
    const held: boolean[] = [];
    const running = fleet.process({ claimDurationInMs: 4_000 }).run("k", ({ signal }) => { held.push(!signal.aborted); return 1; }, { tryTimeoutInMs: 20_000 });
    await claim.reached;
    await vi.advanceTimersByTimeAsync(10_000);
    claim.open();
    expect(await inFakeTime(running)).toEqual({ value: 1, replayed: false });
    expect(held).toEqual([true]);
    expect(fleet.service.operations).toEqual(["createEntity", "updateEntity", "updateEntity"]);
  });

  it("is taken over by one of many", async () => {
    const fleet = fakeFleet();
    await crashed(fleet);
    const fn = vi.fn(() => 2);
    const calls = Array.from({ length: 20 }, () => fleet.process().run("k", fn, { timeoutInMs: 60_000 }));
    const results = await inFakeTime(Promise.all(calls));
    expect(fn).toHaveBeenCalledTimes(1);
    expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
  });

  it("and was only suspended: its signal is aborted before another call starts, and its result is not stored", async () => {
    const fleet = fakeFleet();
    const end = deferred();
    let context: OnceContext | undefined;
    const first = fleet.process({ claimDurationInMs: 10_000 }).run("k", async (given) => {
      context = given;
      await end.promise;
      return 1;
    });
    await vi.advanceTimersByTimeAsync(1);
    fleet.service.each("updateEntity", loseRequest);
    const seen: boolean[] = [];
    const second = fleet.process().run("k", () => {
      seen.push(context!.signal.aborted);
      fleet.service.heal();
      return 2;
    }, { timeoutInMs: 60_000 });
    second.catch(() => undefined);
    await vi.advanceTimersByTimeAsync(9_500);
    fleet.service.heal();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(seen).toEqual([true]);
    expect(() => context!.assertHeld()).toThrow(LeaseLostError);
    end.resolve();
    expect(await rejection(inFakeTime(first))).toBeInstanceOf(LeaseLostError);
    expect(await second).toEqual({ value: 2, replayed: false });
    expect(await fleet.process().get("k")).toEqual({ state: "succeeded", value: 2 });
  });
});

describe("time limits and cancellation", () => {
  it("a table that does not respond is an OperationTimeoutError, and the function does not run", async () => {
    const { service, process } = fakeFleet();
    service.each("any", hang);
    const fn = vi.fn();
    const error = await rejection(inFakeTime(process().run("k", fn, { timeoutInMs: 1_000 })));
    expect(error).toBeInstanceOf(OperationTimeoutError);
    expect(fn).not.toHaveBeenCalled();
  });

  it("a claim whose caller has given up is released", async () => {
    const { service, process, rows } = fakeFleet();
    service.next("createEntity", hangAfterCommit);
    service.each("getEntity", hang);
    const given = rejection(process().run("k", () => 1, { timeoutInMs: 1_000 }));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await given).toMatchObject({ code: "OPERATION_TIMEOUT", message: expect.stringContaining("did not run") as string });
    expect(rows()).toHaveLength(1);
    service.heal();
    await vi.runAllTimersAsync();
    expect(rows()).toEqual([]);
  });

  it("an abort while waiting rejects with its reason", async () => {
    const { process } = fakeFleet();
    const end = deferred();
    const once = process();
    const first = once.run("k", () => end.promise);
    await vi.advanceTimersByTimeAsync(10);
    for (const other of [once, process()]) {
      const stop = new AbortController();
      const waiting = rejection(other.run("k", () => 2, { abortSignal: stop.signal }));
      await vi.advanceTimersByTimeAsync(100);
      stop.abort(new Error("enough"));
      expect(await waiting).toMatchObject({ message: "enough" });
    }
    end.resolve();
    await inFakeTime(first);
  });

  it("an abort while the function runs aborts its signal; what it returns counts", async () => {
    const { process } = fakeFleet();
    const stop = new AbortController();
    const running = process().run("k", async ({ signal }) => {
      stop.abort();
      return signal.aborted;
    }, { abortSignal: stop.signal });
    expect(await running).toEqual({ value: true, replayed: false });
    expect(await process().get("k")).toEqual({ state: "succeeded", value: true });
  });

  it.each([["busy", busy], ["silent", hang]] as const)("an outcome that a %s table does not take in time is a CommitUnknownError, and is stored in the background", async (_, fault) => {
    const { service, process } = fakeFleet();
    const once = process();
    const running = rejection(once.run("k", () => 1, { timeoutInMs: 1_000 }));
    service.each("updateEntity", fault);
    service.each("getEntity", fault);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await running).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown", message: expect.stringContaining("has run") as string });
    // Until it is stored, another call of this process neither runs the function nor waits for longer than its own time.
    const fn = vi.fn();
    const again = rejection(once.run("k", fn, { timeoutInMs: 1_000 }));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await again).toMatchObject({ code: "IN_PROGRESS" });
    service.heal();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await once.run("k", fn)).toEqual({ value: 1, replayed: true });
    expect(fn).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("an abort ends a call whose outcome cannot be stored within 250 ms, and the outcome is stored in the background", async () => {
    const { service, process } = fakeFleet();
    const stop = new AbortController();
    service.each("updateEntity", hang);
    const running = rejection(process().run("k", () => 1, { abortSignal: stop.signal }));
    await vi.advanceTimersByTimeAsync(1_000);
    stop.abort(new Error("enough"));
    await vi.advanceTimersByTimeAsync(250);
    expect(await running).toMatchObject({ message: "enough" });
    service.heal();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await process().get("k")).toEqual({ state: "succeeded", value: 1 });
  });

  it("an error of the function that is not stored does not wait for a table that does not respond, and one that is stored is the cause", async () => {
    const { service, process } = fakeFleet();
    const failure = new Error("of the function");
    for (const fault of ["deleteEntity", "updateEntity", "getEntity"]) service.each(fault, hang);
    const plain = rejection(process().run("plain", () => { throw failure; }, { timeoutInMs: 1_000 }));
    const stored = rejection(process().run("stored", () => { throw failure; }, { timeoutInMs: 1_000, storeError: () => true }));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await plain).toBe(failure);
    expect(await stored).toMatchObject({ code: "COMMIT_UNKNOWN", cause: failure });
    service.heal();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("the function has no time limit", async () => {
    const { process } = fakeFleet();
    const end = deferred();
    const running = process().run("k", () => end.promise.then(() => 1), { timeoutInMs: 1_000 });
    await vi.advanceTimersByTimeAsync(600_000);
    end.resolve();
    expect(await inFakeTime(running)).toEqual({ value: 1, replayed: false });
  });

  it("a result that cannot be stored until the claim expires is a CommitUnknownError or a lost claim", async () => {
    const { service, process } = fakeFleet();
    const running = process({ claimDurationInMs: 10_000 }).run("k", () => {
      service.each("any", loseAnswerForGood);
      return 1;
    });
    const error = await rejection(inFakeTime(running));
    expect(isConcurrencyError(error) && error.committed).toBe("unknown");
  });

  it("a call inside its own function is rejected at once", async () => {
    const { process } = fakeFleet();
    const once = process();
    expect(await rejection(once.run("k", async () => { await once.run("k", () => 1); }))).toMatchObject({ name: "TypeError", message: expect.stringContaining("same key") as string });
    expect(await once.run("k", async () => (await once.run("other", () => 1)).value)).toMatchObject({ value: 1 });
  });
});

it("a result whose response never comes is stored within a short claim", async () => {
  const { service, process } = fakeFleet();
  const once = process({ claimDurationInMs: 5_000 });
  const running = once.run("k", () => {
    service.next("updateEntity", hang);
    return 1;
  });
  expect(await inFakeTime(running)).toEqual({ value: 1, replayed: false });
  expect(await process().run("k", () => 2)).toEqual({ value: 1, replayed: true });
});

it("a renewal that waits behind the result does not undo it", async () => {
  const { service, process } = fakeFleet();
  const stored = gate("after");
  const running = process({ claimDurationInMs: 10_000 }).run("k", async () => {
    await new Promise((resolve) => setTimeout(resolve, 4_500));
    service.next("updateEntity", stored.fault);
    return 1;
  });
  await vi.advanceTimersByTimeAsync(6_000);
  await stored.reached;
  stored.open();
  expect(await inFakeTime(running)).toEqual({ value: 1, replayed: false });
  expect(await process().get("k")).toEqual({ state: "succeeded", value: 1 });
});

describe("stored records", () => {
  it.each(["state", "claimDurationInMs", "attempt", "outcome"])("a damaged %s is an error, never a key that was not used", async (name) => {
    const { process, service } = fakeFleet();
    await process().run("k", () => 1);
    for (const row of service.resources.values()) (row as { properties: Map<string, unknown> }).properties.set(name, { type: "String", value: "x" });
    const fn = vi.fn();
    expect(await rejection(process().run("k", fn))).toBeInstanceOf(SchemaError);
    expect(fn).not.toHaveBeenCalled();
  });

  it("get and forget", async () => {
    const { process } = fakeFleet();
    const once = process();
    expect(await once.get("k")).toBeUndefined();
    expect(await once.forget("k")).toBe(false);
    await once.run("k", () => ({ n: 1 }));
    expect(await once.get("k")).toEqual({ state: "succeeded", value: { n: 1 } });
    expect(await once.forget("k")).toBe(true);
    expect(await once.run("k", () => ({ n: 2 }))).toMatchObject({ replayed: false });
  });

  it("forget keeps the key of a running call", async () => {
    const { process } = fakeFleet();
    const end = deferred();
    const once = process();
    const running = once.run("k", () => end.promise);
    await vi.advanceTimersByTimeAsync(10);
    expect(await rejection(once.forget("k"))).toMatchObject({ code: "CONFLICT" });
    expect(await once.get("k")).toEqual({ state: "inProgress" });
    end.resolve();
    await inFakeTime(running);
  });

  it("keys of any characters differ", async () => {
    const { process } = fakeFleet();
    const once = process();
    const keys = ["a/b", "a\\b", "a b", "a+b", "a%2Fb", "A/b", "ä", "a".repeat(1_024), "a".repeat(1_023)];
    for (const key of keys) expect((await once.run(key, () => key)).value).toBe(key);
    for (const key of keys) expect(await once.run(key, () => "other")).toEqual({ value: key, replayed: true });
  });

  it.each([["", RangeError], ["\ud800", RangeError], ["a".repeat(1_025), RangeError], [1, TypeError]])("a key that cannot be one is rejected: %s", async (key, type) => {
    const { process } = fakeFleet();
    expect(await rejection(process().run(key as string, () => 1))).toBeInstanceOf(type);
  });
});

describe("a late write", () => {
  it("of a claim that was given up does not run a function, and expires", async () => {
    const { service, process } = fakeFleet();
    const late = ghost();
    service.next("createEntity", late.fault);
    service.each("getEntity", loseRequest);
    expect(await rejection(inFakeTime(process().run("k", () => 1)))).toBeInstanceOf(CommitUnknownError);
    service.heal();
    late.arrive();
    expect(await inFakeTime(process().run("k", () => 2, { timeoutInMs: 120_000 }))).toEqual({ value: 2, replayed: false });
  });
});

it("a purge deletes nothing of results that are kept for ever", async () => {
  const { process } = fakeFleet();
  const once = process({ resultTtlInMs: Infinity });
  await once.run("k", () => 1);
  expect(await once.purge()).toEqual({ deleted: 0, kept: 0 });
});

it("a host whose clock is days ahead purges nothing that is fresh by the clock of the service", async () => {
  const { service, process, rows } = fakeFleet();
  service.aheadInMs = -10 * 86_400_000;
  const once = process();
  await once.run("done", () => 1);
  const end = deferred();
  const running = once.run("running", () => end.promise);
  await vi.advanceTimersByTimeAsync(10);
  expect(await once.purge()).toEqual({ deleted: 0, kept: 0 });
  expect(await once.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 1 });
  expect(await rejection(once.forget("running"))).toMatchObject({ code: "CONFLICT" });
  expect(rows()).toHaveLength(1);
  end.resolve();
  await inFakeTime(running);
});
