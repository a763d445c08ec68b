import { describe, expect, it } from "vitest";

import type { Operation } from "../../integration/linearizability/checker.js";
import { findCounterexample, printCounterexample } from "../../integration/linearizability/counterexample.js";
import { describeOperation } from "../../integration/linearizability/describe.js";
import type { Input, Output, Tokens } from "../../integration/linearizability/history.js";
import { modelFor } from "../../integration/linearizability/model.js";

type Step = readonly [input: Input, output: Output | undefined];

/** One call after the other. */
function inSequence(...steps: Step[]): Operation<Input, Output>[] {
  return steps.map(([input, output], i) => ({ process: "p", input, output, invokedAt: 2 * i, returnedAt: output ? 2 * i + 1 : Infinity }));
}

function isLinearizable(history: readonly Operation<Input, Output>[]): boolean {
  return findCounterexample(modelFor, history) === undefined;
}

const row = "main";
const read = (tokens: Tokens, etag?: string): Step => [{ op: "read", row }, { kind: "value", tokens, etag }];
const update = (token: string, after: Tokens, outcome = "updated"): Step => [{ op: "update", row, token, initial: true }, { kind: "value", tokens: after, outcome }];
const rejectedUpdate = (token: string): Step => [{ op: "update", row, token, initial: true }, { kind: "rejected", error: "ConflictError" }];
const unknownUpdate = (token: string): Step => [{ op: "update", row, token, initial: true }, undefined];
const create = (token: string, outcome: "created" | "unchanged", tokens: Tokens): Step => [{ op: "create", row, token }, { kind: "value", tokens, outcome }];
const remove = (tokens: Tokens): Step => [{ op: "delete", row }, { kind: "value", tokens, outcome: "deleted" }];
const removeVersion = (tokens: readonly string[], etag: string, output: Output | undefined): Step => [{ op: "deleteIfUnchanged", row, tokens, etag }, output];
const overwrite = (token: string): Step => [{ op: "overwrite", row, token }, { kind: "done" }];
const done: Output = { kind: "done" };

describe("updates", () => {
  it("that resolved are stored once, in the order of the calls", () => {
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), update("b", ["a", "b"]), read(["a", "b"])))).toBe(true);
  });

  it("that resolved must be stored", () => {
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), read(null)))).toBe(false);
  });

  it("that resolved must not be stored twice", () => {
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), update("b", ["a", "b"]), read(["a", "b", "b"])))).toBe(false);
    // The writer itself does not notice: it was told the result of its second application.
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), update("b", ["a", "b", "b"])))).toBe(false);
  });

  it("that were rejected must not be stored, not even later", () => {
    const before = [update("a", ["a"], "created"), rejectedUpdate("b")];
    expect(isLinearizable(inSequence(...before, read(["a"])))).toBe(true);
    expect(isLinearizable(inSequence(...before, read(["a", "b"])))).toBe(false);
    expect(isLinearizable(inSequence(...before, read(["a"]), read(["a", "b"])))).toBe(false);
  });

  it("whose outcome is unknown are stored at any time, once, or never", () => {
    const before = [update("a", ["a"], "created"), unknownUpdate("b"), read(["a"])];
    expect(isLinearizable(inSequence(...before, update("c", ["a", "c"]), read(["a", "c"])))).toBe(true);
    expect(isLinearizable(inSequence(...before, update("c", ["a", "c"]), read(["a", "c", "b"])))).toBe(true);
    expect(isLinearizable(inSequence(...before, read(["a", "b"]), read(["a"])))).toBe(false);
    expect(isLinearizable(inSequence(...before, read(["a", "b", "b"])))).toBe(false);
  });

  it("of another process must not be lost", () => {
    const concurrent: Operation<Input, Output>[] = [
      { process: "p", input: { op: "update", row, token: "b", initial: true }, output: { kind: "value", tokens: ["a", "b"], outcome: "updated" }, invokedAt: 2, returnedAt: 10 },
      { process: "q", input: { op: "update", row, token: "c", initial: true }, output: { kind: "value", tokens: ["a", "c"], outcome: "updated" }, invokedAt: 2, returnedAt: 10 },
    ];
    expect(isLinearizable([...inSequence(update("a", ["a"], "created")), ...concurrent])).toBe(false);
    expect(isLinearizable([...inSequence(update("a", ["a"], "created")), concurrent[0]!])).toBe(true);
  });

  it("without initial reject only if the target does not exist", () => {
    const notFound: Step = [{ op: "update", row, token: "b", initial: false }, { kind: "not found" }];
    expect(isLinearizable(inSequence(read(null), notFound))).toBe(true);
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), notFound))).toBe(false);
  });

  it("that change nothing return what is stored", () => {
    const keep = (tokens: Tokens): Step => [{ op: "keep", row }, { kind: "value", tokens, outcome: "unchanged" }];
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), keep(["a"])))).toBe(true);
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), update("b", ["a", "b"]), keep(["a"])))).toBe(false);
  });
});

describe("reads", () => {
  it("must not be stale", () => {
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), update("b", ["a", "b"]), read(["a"])))).toBe(false);
  });

  it("must not return another ETag while nothing was written", () => {
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), read(["a"], "1"), read(["a"], "1")))).toBe(true);
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), read(["a"], "1"), read(["a"], "2")))).toBe(false);
  });
});

describe("creates and deletes", () => {
  it("have one winner", () => {
    expect(isLinearizable(inSequence(create("a", "created", ["a"]), create("b", "unchanged", ["a"])))).toBe(true);
    expect(isLinearizable(inSequence(create("a", "created", ["a"]), create("b", "created", ["b"])))).toBe(false);
  });

  it("of a create that was applied again after a delete are found", () => {
    expect(isLinearizable(inSequence(create("a", "created", ["a"]), remove(["a"]), read(null)))).toBe(true);
    expect(isLinearizable(inSequence(create("a", "created", ["a"]), remove(["a"]), read(["a"])))).toBe(false);
  });

  it("by ETag delete what was read with it", () => {
    const before = [update("a", ["a"], "created"), read(["a"], "1")];
    expect(isLinearizable(inSequence(...before, removeVersion(["a"], "1", done), read(null)))).toBe(true);
    expect(isLinearizable(inSequence(...before, update("b", ["a", "b"]), removeVersion(["a"], "1", done)))).toBe(false);
    expect(isLinearizable(inSequence(...before, update("b", ["a", "b"]), removeVersion(["a"], "1", { kind: "changed" }), read(["a", "b"])))).toBe(true);
  });

  it("by ETag are not done by two callers", () => {
    const before = [update("a", ["a"], "created"), read(["a"], "1"), removeVersion(["a"], "1", done)];
    expect(isLinearizable(inSequence(...before, removeVersion(["a"], "1", { kind: "not found" })))).toBe(true);
    expect(isLinearizable(inSequence(...before, removeVersion(["a"], "1", undefined)))).toBe(true);
    expect(isLinearizable(inSequence(...before, removeVersion(["a"], "1", done)))).toBe(false);
  });

  it("by ETag are not rejected without a reason", () => {
    const before = [update("a", ["a"], "created"), read(["a"], "1")];
    expect(isLinearizable(inSequence(...before, removeVersion(["a"], "1", { kind: "changed" })))).toBe(false);
    expect(isLinearizable(inSequence(...before, removeVersion(["a"], "1", { kind: "not found" })))).toBe(false);
  });

  it("that were rejected deleted nothing", () => {
    const rejected: Step = [{ op: "delete", row }, { kind: "rejected", error: "OperationTimeoutError" }];
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), rejected, read(["a"])))).toBe(true);
    expect(isLinearizable(inSequence(update("a", ["a"], "created"), rejected, read(null)))).toBe(false);
  });
});

describe("an overwrite", () => {
  it("replaces what is stored, once", () => {
    const before = [update("a", ["a"], "created"), overwrite("b"), update("c", ["b", "c"])];
    expect(isLinearizable(inSequence(...before, read(["b", "c"])))).toBe(true);
    // It was sent again after a lost response, and has erased an update that was confirmed in between.
    expect(isLinearizable(inSequence(...before, read(["b"])))).toBe(false);
  });
});

describe("transactions", () => {
  const add = (token: string, main: Tokens, second: Tokens): Step => [{ op: "transact add", token }, { kind: "rows", main, second }];
  const readBoth = (main: Tokens, second: Tokens): Step => [{ op: "transact read" }, { kind: "rows", main, second }];
  const move = (token: string, main: Tokens, second: Tokens): Step => [{ op: "transact move", token }, { kind: "rows", main, second }];

  it("change both rows or none", () => {
    expect(isLinearizable(inSequence(add("a", null, null), readBoth(["a"], ["a"]), move("b", ["a"], ["a"]), readBoth(null, ["a", "b"])))).toBe(true);
    expect(isLinearizable(inSequence(add("a", null, null), readBoth(["a"], null)))).toBe(false);
  });

  it("read one state", () => {
    expect(isLinearizable(inSequence(add("a", null, null), add("b", ["a"], ["a"]), readBoth(["a", "b"], ["a"])))).toBe(false);
  });

  it("take part in one order with the updates of a row", () => {
    expect(isLinearizable(inSequence(add("a", null, null), update("b", ["a", "b"]), readBoth(["a", "b"], ["a"])))).toBe(true);
    expect(isLinearizable(inSequence(add("a", null, null), update("b", ["a", "b"]), readBoth(["a"], ["a"])))).toBe(false);
  });

  it("whose outcome is unknown change both rows at the same time", () => {
    const lost: Step = [{ op: "transact add", token: "b" }, undefined];
    const readSecond = (tokens: Tokens): Step => [{ op: "read", row: "second" }, { kind: "value", tokens }];
    expect(isLinearizable(inSequence(add("a", null, null), lost, read(["a"]), readSecond(["a", "b"]), read(["a", "b"])))).toBe(true);
    expect(isLinearizable(inSequence(add("a", null, null), lost, readSecond(["a", "b"]), read(["a"])))).toBe(false);
  });

  it("that create a row find out whether it exists", () => {
    const createRow = (token: string, output: Output): Step => [{ op: "transact create", token }, output];
    expect(isLinearizable(inSequence(createRow("a", done), createRow("b", { kind: "already exists" }), read(["a"])))).toBe(true);
    expect(isLinearizable(inSequence(createRow("a", done), createRow("b", done)))).toBe(false);
    expect(isLinearizable(inSequence(createRow("a", { kind: "already exists" })))).toBe(false);
  });
});

it("a counter-example is printed with the operation that cannot be explained", () => {
  const history = inSequence(update("a", ["a"], "created"), rejectedUpdate("b"), read(["a", "b"], "7"), read(["a"]));
  const text = printCounterexample(modelFor, findCounterexample(modelFor, history)!, describeOperation);
  expect(text).toContain("update b (initial) → rejected: ConflictError");
  expect(text).toMatch(/^\* +4\.000 +5\.000 {2}p +read → \[a,b\] 7$/m);
  expect(text).toContain("3 operations up to its return");
  expect(text).toContain("leads to: a any ETag | absent");
});
