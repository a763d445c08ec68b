import { describe, expect, it } from "vitest";

import { BlobLocks, ConcurrentQueue, ConcurrentTable, isLibraryRow, jsonBlob, LeaderElection, optimisticUpdate, PreconditionError, ReaderWriterLock, runTransaction, Schedule, Semaphore } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { holderOf } from "../lock/held-table.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { expectNoUnhandledRejections } from "../support/unhandled.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

// What public-calls.test.ts has found, whatever it draws.

useFakeClock();
expectNoUnhandledRejections();

const table = (): FakeTransactionTable => new FakeTransactionTable(new FakeService());
const failing = async (): Promise<never> => {
  throw new Error("of the caller");
};

async function outcome(call: Promise<unknown>): Promise<unknown> {
  const settled = call.catch((error: unknown) => error);
  await pass(60_000);
  return settled;
}

describe("a promise where none is expected does not end the process when it rejects", () => {
  it("as the initial value of an update", async () => {
    expect(await outcome(optimisticUpdate(jsonBlob<object>(new FakeBlockBlob(new FakeService())), () => undefined, { initial: failing as never }))).toBeInstanceOf(Error);
  });

  it("as the initial value of a fenced update", async () => {
    const partition = await holderOf(table(), 1).partition("p");
    expect(await outcome(partition.update("r", () => undefined, { initial: failing as never }))).toBeInstanceOf(Error);
  });

  it("as a message", async () => {
    const queue = new FakeQueue();
    const results = (await outcome(new ConcurrentQueue(queue).enqueueMany([1], failing as never))) as readonly { error: unknown }[];
    expect(results).toEqual([{ error: expect.any(TypeError) as unknown }]);
    expect(queue.messages).toEqual([]);
  });
});

it("a wrong option beside a signal that has aborted leaves no rejection behind", async () => {
  const semaphore = new Semaphore(new BlobLocks(new FakeLeaseServer().container()), "s", 3);
  expect(await outcome(semaphore.tryAcquire({ abortSignal: AbortSignal.abort(), maxHoldInMs: "x" as never }))).toBeInstanceOf(Error);
});

describe("misuse is rejected before a request is sent, with what is expected", () => {
  const signal = { abortSignal: { aborted: false, addEventListener: 5 } as never };

  it.each(["trigger", "pause", "resume"] as const)("Schedule.%s", async (method) => {
    const own = table();
    const schedule = new Schedule(own, new BlobLocks(new FakeLeaseServer().container()), { job: { everyInMs: 60_000, run: () => undefined } });
    for (const options of [{ unknown: 1 }, signal, null]) expect(await outcome(schedule[method]("job", options as never))).toMatchObject({ name: "TypeError", message: expect.stringContaining(`Schedule.${method}`) as unknown });
    expect(await outcome(schedule[method](Object.create(null) as never))).toMatchObject({ name: "RangeError", message: expect.stringContaining("there is no job") as unknown });
    expect(own.service.requests).toEqual([]);
  });

  it("Schedule.trigger: a key that is too long", async () => {
    const own = table();
    const schedule = new Schedule(own, new BlobLocks(new FakeLeaseServer().container()), { job: { everyInMs: 60_000, run: () => undefined } });
    for (const idempotencyKey of ["", "x".repeat(201), 5]) expect(await outcome(schedule.trigger("job", { idempotencyKey: idempotencyKey as string }))).toMatchObject({ name: "RangeError" });
    expect(own.service.requests).toEqual([]);
  });

  it("a lock with options that are none", async () => {
    const locks = new BlobLocks(new FakeLeaseServer().container());
    expect(await outcome(locks.inspect("a", null as never))).toMatchObject({ message: "BlobLocks.inspect: options must be an object." });
    expect(await outcome(locks.acquire("a", { renewIntervalInMs: Symbol("s") as never }))).toMatchObject({ message: "renewIntervalInMs must be a number." });
    expect(await outcome(locks.acquire("a", { safetyMarginInMs: 5n as never }))).toMatchObject({ message: "safetyMarginInMs must be a number." });
    expect(await outcome(new ReaderWriterLock(locks, "rw").acquireReadLock({ maxHoldInMs: Symbol("s") as never }))).toMatchObject({ message: "maxHoldInMs must be a number." });
  });

  it("a component without its signal, or with an event that is none", async () => {
    const election = new LeaderElection(new BlobLocks(new FakeLeaseServer().container()), "l", () => undefined);
    expect(await outcome(election.run(undefined as never))).toMatchObject({ message: expect.stringContaining("abortSignal must be an AbortSignal") as unknown });
    expect(() => election.on(Object.create(null) as never, () => undefined)).toThrow(/Unknown event/);
  });

  it("a transaction with row keys that are none", async () => {
    expect(await outcome(runTransaction(table(), "p", (tx) => tx.getMany(5 as never)))).toMatchObject({ message: "tx.getMany: rowKeys must be an array" });
    expect(await outcome(runTransaction(table(), "p", (tx) => tx.delete(null as never)))).toMatchObject({ message: "rowKey must be a string." });
    expect(() => new ConcurrentTable(table()).entity(null as never)).toThrow("partitionKey must be a string.");
  });

  it("a row that is none, and an error with another message than a text", () => {
    expect(() => isLibraryRow(null as never)).toThrow("isLibraryRow needs an entity");
    expect(isLibraryRow({ rowKey: 5 as never })).toBe(false);
    expect(new PreconditionError(Symbol("s") as never, null as never).message).toBe("a precondition does not hold");
  });
});
