import { beforeEach, describe, expect, it, vi } from "vitest";

import { IdempotencyMismatchError } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { answer, failAfterCommit, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakeFleet } from "./fakes.js";
import type { FakeFleet } from "./fakes.js";

useFakeTimers();
// No delay after a conflict.
beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  return () => void vi.restoreAllMocks();
});

function withAccount(): FakeFleet {
  const fleet = fakeFleet();
  fleet.table.put({ n: { type: "Int32", value: 10 } }, "p", "a");
  return fleet;
}

async function withdraw(tx: Transaction): Promise<{ left: number }> {
  const { n } = (await tx.get<{ n: number }>("a"))!;
  tx.update({ rowKey: "a", n: n - 1 });
  return { left: n - 1 };
}

const balance = ({ table }: FakeFleet): unknown => table.property("n", "p", "a")?.value;

describe("a transaction with a key", () => {
  it("is applied once, and its result replayed by any process", async () => {
    const fleet = withAccount();
    expect(await fleet.process().runTransaction("k", "p", withdraw)).toEqual({ value: { left: 9 }, replayed: false });
    expect(fleet.service.operations).toEqual(["getEntity", "submitTransaction"]);
    expect(await fleet.process().runTransaction("k", "p", withdraw)).toEqual({ value: { left: 9 }, replayed: true });
    // What the transaction costs, why it is rejected, and the record.
    expect(fleet.service.operations.slice(2)).toEqual(["getEntity", "submitTransaction", "getEntity", "getEntity", "getEntity", "getEntity"]);
    expect(balance(fleet)).toBe(9);
    expect(await fleet.process().runTransaction("other", "p", withdraw)).toEqual({ value: { left: 8 }, replayed: false });
  });

  it("is applied once by twenty calls at a time, of one process and of several", async () => {
    const fleet = withAccount();
    const once = fleet.process();
    const calls = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? once : fleet.process()).runTransaction("k", "p", withdraw));
    const results = await inFakeTime(Promise.all(calls));
    expect(balance(fleet)).toBe(9);
    expect(results.map(({ value }) => value)).toEqual(Array(20).fill({ left: 9 }));
    expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
  });

  it("with another fingerprint is rejected", async () => {
    const fleet = withAccount();
    await fleet.process().runTransaction("k", "p", withdraw, { fingerprint: 1 });
    expect(await rejection(fleet.process().runTransaction("k", "p", withdraw, { fingerprint: 2 }))).toBeInstanceOf(IdempotencyMismatchError);
    expect(balance(fleet)).toBe(9);
  });

  it("runs again when its result is too old", async () => {
    const fleet = withAccount();
    const options = { resultTtlInMs: 60_000 };
    await fleet.process(options).runTransaction("k", "p", withdraw);
    fleet.service.aheadInMs = 61_000;
    expect(await fleet.process(options).runTransaction("k", "p", withdraw)).toEqual({ value: { left: 8 }, replayed: false });
    expect(balance(fleet)).toBe(8);
  });

  it("writes nothing if its function throws; the error is stored if the caller wants that", async () => {
    const fleet = withAccount();
    const refuse = async (tx: Transaction): Promise<never> => {
      await withdraw(tx);
      throw Object.assign(new Error("no"), { code: "REFUSED" });
    };
    expect(await rejection(fleet.process().runTransaction("k", "p", refuse))).toMatchObject({ message: "no" });
    expect([balance(fleet), fleet.rows()]).toEqual([10, ["a"]]);
    await rejection(fleet.process().runTransaction("k", "p", refuse, { storeError: () => true }));
    const fn = vi.fn(withdraw);
    expect(await rejection(fleet.process().runTransaction("k", "p", fn))).toMatchObject({ message: "no", code: "REFUSED" });
    expect(balance(fleet)).toBe(10);
  });

  it("throws the error of its function if that cannot be stored", async () => {
    const fleet = withAccount();
    const failure = new Error("no");
    for (const fault of [answer(403, "AuthorizationFailure"), answer(500, "InternalError"), loseAnswerForGood]) {
      const refuse = async (tx: Transaction): Promise<never> => {
        await withdraw(tx);
        fleet.service.each("any", fault);
        throw failure;
      };
      expect(await rejection(inFakeTime(fleet.process().runTransaction("k", "p", refuse, { storeError: () => true, timeoutInMs: 5_000 })))).toBe(failure);
      fleet.service.heal();
    }
    expect(balance(fleet)).toBe(10);
  });

  it("writes nothing if its result cannot be stored", async () => {
    const fleet = withAccount();
    const fn = async (tx: Transaction): Promise<unknown> => {
      await withdraw(tx);
      return 1n;
    };
    expect(await rejection(fleet.process().runTransaction("k", "p", fn))).toBeInstanceOf(RangeError);
    expect(balance(fleet)).toBe(10);
  });

  it("is found and forgotten in its partition", async () => {
    const fleet = withAccount();
    const once = fleet.process();
    await once.runTransaction("k", "p", withdraw);
    expect(await once.get("k")).toBeUndefined();
    expect(await once.get("k", { partitionKey: "p" })).toEqual({ state: "succeeded", value: { left: 9 } });
    expect(await once.forget("k", { partitionKey: "p" })).toBe(true);
    expect(fleet.rows()).toEqual(["a"]);
  });
});

describe("a repetition whose function throws on what the first one has written", () => {
  it("gets the result of the first: an account is empty, an entity exists, another one is gone", async () => {
    const fleet = fakeFleet();
    fleet.table.put({ n: { type: "Int32", value: 1 } }, "p", "a");
    const calls: ((tx: Transaction) => Promise<unknown>)[] = [
      async (tx) => {
        const account = await tx.get<{ n: number }>("a");
        if (account?.n === 0) throw new Error("not enough money");
        tx.update({ rowKey: "a", n: 0 });
        return "withdrawn";
      },
      async (tx) => {
        tx.create({ rowKey: "b", n: 1 });
        return Promise.resolve("created");
      },
      async (tx) => {
        await tx.get("b");
        tx.delete("b");
        return "deleted";
      },
    ];
    for (const [i, call] of calls.entries()) {
      const { value } = await fleet.process().runTransaction(`k${i}`, "p", call, { fingerprint: 1 });
      expect(await fleet.process().runTransaction(`k${i}`, "p", call, { fingerprint: 1 })).toEqual({ value, replayed: true });
      expect(await rejection(fleet.process().runTransaction(`k${i}`, "p", call, { fingerprint: 2 }))).toBeInstanceOf(IdempotencyMismatchError);
    }
  });

  it("gets its own error if the first one has failed as well", async () => {
    const fleet = fakeFleet();
    const error = new Error("no");
    expect(await rejection(fleet.process().runTransaction("k", "p", () => { throw error; }))).toBe(error);
  });
});

const lost: readonly (readonly [string, Fault])[] = [
  ["the response is lost and the SDK sends again", loseAnswer],
  ["the response is lost for good", loseAnswerForGood],
  ["the request is lost", loseRequest],
  ["the service commits and answers 500", failAfterCommit],
];

it.each(lost)("if %s, it is applied once, and the call gets its own value", async (_, fault) => {
  const fleet = withAccount();
  fleet.service.next("submitTransaction", fault, fault);
  expect((await inFakeTime(fleet.process().runTransaction("k", "p", withdraw))).value).toEqual({ left: 9 });
  expect(await inFakeTime(fleet.process().runTransaction("k", "p", withdraw))).toEqual({ value: { left: 9 }, replayed: true });
  expect(balance(fleet)).toBe(9);
});
