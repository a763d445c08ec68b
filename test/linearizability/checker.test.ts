import { describe, expect, it } from "vitest";

import { checkLinearizable, type Model, type Operation } from "../../integration/linearizability/checker.js";
import { findCounterexample } from "../../integration/linearizability/counterexample.js";
import { seededRandom } from "../simulation/time/seeded-random.js";

type Input = "read" | { readonly write: number };
type Output = number | "done";

/** The object that the checker is usually explained with. */
const register: Model<number, Input, Output> = {
  initial: 0,
  key: String,
  isRead: (input) => input === "read",
  step: (state, input, output) => {
    if (input === "read") return output === undefined || output === state ? state : undefined;
    return output === undefined || output === "done" ? input.write : undefined;
  },
};

function call(process: string, invokedAt: number, returnedAt: number, input: Input, output?: Output): Operation<Input, Output> {
  return { process, invokedAt, returnedAt: output === undefined ? Infinity : returnedAt, input, output };
}

function isLinearizable(...history: Operation<Input, Output>[]): boolean {
  return checkLinearizable(register, history).linearizable;
}

describe("a history of a register", () => {
  it("is linearizable if reads return the last write", () => {
    expect(isLinearizable(call("a", 0, 1, { write: 1 }, "done"), call("b", 2, 3, "read", 1))).toBe(true);
  });

  it("is not if a read that began later returns an older value", () => {
    expect(isLinearizable(call("a", 0, 1, { write: 1 }, "done"), call("b", 2, 3, "read", 0))).toBe(false);
  });

  it("is linearizable if a read during a write returns the old or the new value", () => {
    for (const value of [0, 1]) expect(isLinearizable(call("a", 0, 10, { write: 1 }, "done"), call("b", 2, 3, "read", value))).toBe(true);
  });

  it("is not if two reads during a write see the new value and then the old one", () => {
    const write = call("a", 0, 10, { write: 1 }, "done");
    expect(isLinearizable(write, call("b", 1, 2, "read", 0), call("b", 3, 4, "read", 1))).toBe(true);
    expect(isLinearizable(write, call("b", 1, 2, "read", 1), call("b", 3, 4, "read", 0))).toBe(false);
  });

  it("takes a return and an invocation at the same moment for concurrent", () => {
    expect(isLinearizable(call("a", 0, 1, { write: 1 }, "done"), call("b", 1, 2, "read", 0))).toBe(true);
  });

  it("does not depend on the order in which the operations are listed", () => {
    expect(isLinearizable(call("b", 2, 3, "read", 1), call("a", 0, 1, { write: 1 }, "done"))).toBe(true);
    expect(isLinearizable(call("b", 2, 3, "read", 0), call("a", 0, 1, { write: 1 }, "done"))).toBe(false);
  });

  it("needs the right order of concurrent writes", () => {
    const writes = [call("a", 0, 10, { write: 1 }, "done"), call("b", 0, 10, { write: 2 }, "done"), call("c", 0, 10, { write: 3 }, "done")];
    expect(isLinearizable(...writes, call("d", 11, 12, "read", 2))).toBe(true);
    expect(isLinearizable(...writes, call("d", 11, 12, "read", 2), call("d", 13, 14, "read", 3))).toBe(false);
  });
});

describe("an operation with an unknown outcome", () => {
  const write = call("a", 0, 0, { write: 1 });

  it("may never take effect", () => {
    expect(isLinearizable(write, call("b", 5, 6, "read", 0), call("b", 100, 101, "read", 0))).toBe(true);
  });

  it("may take effect at any later time", () => {
    expect(isLinearizable(write, call("b", 5, 6, "read", 0), call("b", 100, 101, "read", 1))).toBe(true);
  });

  it("does not take effect twice", () => {
    const other = call("b", 10, 11, { write: 2 }, "done");
    const reads = [call("b", 5, 6, "read", 1), call("b", 12, 13, "read", 2)];
    expect(isLinearizable(write, other, ...reads)).toBe(true);
    expect(isLinearizable(write, other, ...reads, call("b", 14, 15, "read", 1))).toBe(false);
  });

  it("does not take effect before its invocation", () => {
    expect(isLinearizable(call("a", 5, 0, { write: 1 }), call("b", 0, 1, "read", 1))).toBe(false);
  });
});

describe("the search", () => {
  /** Up to `callers` calls at a time on a register, each with its effect at a moment between invocation and return. */
  function randomHistory(seed: number, operations: number, callers: number, unknown: number): Operation<Input, Output>[] {
    const random = seededRandom(seed);
    const calls: { process: string; from: number; at: number; to: number; input: Input; lost: boolean }[] = [];
    const free = Array<number>(callers).fill(0);
    for (let i = 0; i < operations; i++) {
      const caller = i % callers;
      const from = free[caller]! + random() * 5;
      const at = from + random() * 20;
      const to = at + random() * 20;
      free[caller] = to;
      calls.push({ process: `p${caller}`, from, at, to, input: random() < 0.5 ? "read" : { write: i }, lost: random() < unknown });
    }
    let state = 0;
    return [...calls]
      .sort((a, b) => a.at - b.at)
      .flatMap(({ process, from, to, input, lost }) => {
        if (input === "read") return lost ? [] : [call(process, from, to, input, state)];
        // Half of the lost ones take effect.
        if (!lost || random() < 0.5) state = input.write;
        return [lost ? call(process, from, Infinity, input) : call(process, from, to, input, "done")];
      });
  }

  it("accepts random histories of 5,000 operations, 8 at a time", { timeout: 60_000 }, () => {
    expect(checkLinearizable(register, randomHistory(1, 5_000, 8, 0)).linearizable).toBe(true);
  });

  it("accepts random histories in which a tenth of the outcomes is unknown", { timeout: 60_000 }, () => {
    for (let seed = 0; seed < 5; seed++) expect(checkLinearizable(register, randomHistory(seed, 200, 8, 0.1)).linearizable, `seed ${seed}`).toBe(true);
  });

  it("agrees with trying all orders, for small histories with arbitrary outputs", () => {
    let accepted = 0;
    for (let seed = 0; seed < 400; seed++) {
      const random = seededRandom(seed);
      // What the reads return is drawn, so that some histories can be explained and others cannot.
      const history = randomHistory(seed, 6, 3, 0.2).map((operation) =>
        operation.input === "read" && random() < 0.3 ? { ...operation, output: Math.floor(random() * 6) } : operation,
      );
      const expected = isExplainedBySomeOrder(history, 0);
      accepted += expected ? 1 : 0;
      expect(checkLinearizable(register, history).linearizable, `seed ${seed}`).toBe(expected);
    }
    expect(accepted).toBeGreaterThan(50);
    expect(accepted).toBeLessThan(350);
  });

  it("returns an order that explains the outputs", () => {
    const history = randomHistory(7, 60, 5, 0.1);
    const { order } = checkLinearizable(register, history);
    let state = register.initial;
    for (const index of order) {
      const { input, output } = history[index]!;
      state = register.step(state, input, output)!;
      expect(state).toBeDefined();
    }
    expect(new Set(order).size).toBe(order.length);
    expect(history.every(({ output }, index) => output === undefined || order.includes(index))).toBe(true);
  });

  /** No memory, no shortcuts. */
  function isExplainedBySomeOrder(left: readonly Operation<Input, Output>[], state: number): boolean {
    if (left.every(({ output }) => output === undefined)) return true;
    return left.some((operation) => {
      if (left.some((other) => other.output !== undefined && other.returnedAt < operation.invokedAt)) return false;
      const next = register.step(state, operation.input, operation.output);
      return next !== undefined && isExplainedBySomeOrder(left.filter((other) => other !== operation), next);
    });
  }
});

describe("a counter-example", () => {
  it("is cut after the first return that cannot be explained", () => {
    const history = [
      call("a", 0, 1, { write: 1 }, "done"),
      call("b", 2, 3, "read", 1),
      call("a", 4, 9, { write: 2 }, "done"),
      call("b", 5, 6, "read", 7),
      call("b", 10, 11, "read", 2),
    ];
    const found = findCounterexample(() => register, history)!;
    expect(found.last).toBe(history[3]);
    // The write that had not returned by then may or may not have taken effect.
    expect(found.operations).toEqual([history[0], history[1], { ...history[2], output: undefined, returnedAt: Infinity }, history[3]]);
    expect(found.order).toEqual(expect.arrayContaining([0, 1]));
  });

  it("is not found in a linearizable history", () => {
    expect(findCounterexample(() => register, [call("a", 0, 1, { write: 1 }, "done"), call("b", 2, 3, "read", 1)])).toBeUndefined();
  });
});
