import { afterEach, describe, expect, it, vi } from "vitest";

import { enqueue, QueueConsumer, runTransaction, withLease } from "../../src/index.js";
import type { FencedPartition, JobContext, LeaseHandle, Transaction } from "../../src/index.js";
import { answer, hang } from "../fakes/faults.js";
import { holderOf } from "../lock/held-table.js";
import { after, ok, status } from "../lease/fakes/answers.js";
import { ScriptedLeasable } from "../lease/fakes/scripted-leasable.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { FakeFleet, noting } from "../schedule/fakes.js";
import { expectNoUnhandledRejections } from "../support/unhandled.js";
import { fakePartition } from "../transaction/fakes/partition.js";

// A promise that a function of the caller was given and never awaits must not end the process: the caller handles the error of the call.

expectNoUnhandledRejections();

afterEach(() => {
  vi.useRealTimers();
});

describe("a read of a transaction that its function does not await", () => {
  const reads: [string, (tx: Transaction) => Promise<unknown>][] = [
    ["get", (tx) => tx.get("b")],
    ["getMany", (tx) => tx.getMany(["b", "c"])],
    ["query", (tx) => tx.query()],
    ["get without validation", (tx) => tx.get("b", { validate: false })],
  ];
  const ends: [string, () => unknown, object | undefined][] = [
    ["throws", () => { throw new Error("not possible"); }, { message: "not possible" }],
    ["returns", () => "done", undefined],
  ];

  describe.each(ends)("and whose function %s", (_, end, rejection) => {
    it.each(reads)("does not end the process: %s", async (_method, read) => {
      const { service, table } = fakePartition({ a: 1, b: 1 });
      const result = runTransaction(table, "p", async (tx) => {
        await tx.get("a");
        service.each("getEntity", answer(403, "AuthorizationFailure"));
        service.each("listEntities", answer(403, "AuthorizationFailure"));
        void read(tx);
        return end();
      });
      if (rejection) await expect(result).rejects.toMatchObject(rejection);
      else await result.catch(() => undefined);
    });
  });

  it.each(reads)("does not end the process when the time of the call is over: %s", async (_method, read) => {
    vi.useFakeTimers();
    const { service, table } = fakePartition({ a: 1, b: 1 });
    service.each("getEntity", hang);
    service.each("listEntities", hang);
    const result = expect(
      runTransaction(table, "p", async (tx) => {
        void read(tx);
        await tx.get("a");
      }, { timeoutInMs: 1_000 }),
    ).rejects.toMatchObject({ name: "OperationTimeoutError" });
    await vi.advanceTimersByTimeAsync(60_000);
    await result;
  });
});

describe("a call of a lease handle that is not awaited", () => {
  const calls: [string, (lease: LeaseHandle) => Promise<unknown>][] = [
    ["renew", (lease) => lease.renew()],
    ["change", (lease) => lease.change()],
    ["renew with an unknown option", (lease) => lease.renew({ wrong: 1 } as never)],
  ];

  it.each(calls)("does not end the process when the lease is lost: %s", async (_, call) => {
    const stolen = status(409, "LeaseIdMismatchWithLeaseOperation");
    const blob = new ScriptedLeasable({ renew: stolen, change: stolen, release: after(1, ok) });
    await withLease(blob, async (lease) => {
      void call(lease);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }).catch(() => undefined);
  });

  it("does not end the process when a lease that never expires cannot be released", async () => {
    const blob = new ScriptedLeasable({ release: status(403, "AuthorizationFailure") });
    let handle: LeaseHandle | undefined;
    await withLease(blob, (lease) => {
      handle = lease;
      void lease.release();
    }, { durationInSeconds: Infinity }).catch(() => undefined);
    expect(handle?.remainingInMs).toBe(0);
  });
});

describe("a call of a locked table that is not awaited", () => {
  const calls: [string, (partition: FencedPartition) => Promise<unknown>][] = [
    ["get", (p) => p.get("a")],
    ["update", (p) => p.update("a", () => undefined)],
    ["create", (p) => p.create({ rowKey: "b" })],
    ["delete", (p) => p.delete("a")],
    ["submit", (p) => p.submit([["upsert", { rowKey: "a" }, "Merge"]])],
  ];

  it.each(calls)("does not end the process when the lock is lost or released: %s", async (_, call) => {
    for (const end of ["lose", "release"] as const) {
      const { service, table } = fakePartition({ a: 1 });
      const held = holderOf(table, 7);
      const partition = await held.partition("p");
      service.each("getEntity", hang);
      service.each("submitTransaction", hang);
      void call(partition);
      await Promise.resolve();
      await held[end]();
    }
  });

  it("does not end the process when the partition is not opened in time", async () => {
    const { service, table } = fakePartition();
    service.each("getEntity", hang);
    service.each("submitTransaction", hang);
    const held = holderOf(table, 7);
    void held.partition("p");
    await held.release();
  });
});

describe("a commit of a job that is not awaited", () => {
  it.each<[string, (commit: JobContext["commit"]) => unknown]>([
    ["is refused", (commit) => commit("effects", [["create", { rowKey: "~asc~schedule-done!x" }]])],
    ["is a second one", (commit) => [commit("effects", []), commit("effects", [])]],
    ["fails", (commit) => commit("effects", [["update", { rowKey: "missing" }]])],
  ])("does not end the process: %s", async (_, call) => {
    vi.useFakeTimers({ now: Date.UTC(2030, 0, 1) });
    const fleet = new FakeFleet();
    const ran: string[] = [];
    fleet.instance({ job: noting(ran, { everyInMs: 60_000 }, ({ commit }) => void call(commit)) });
    await fleet.start();
    await vi.advanceTimersByTimeAsync(61_000);
    expect(ran).toHaveLength(1);
    await fleet.stop();
  });
});

describe("what a handler passes to poison", () => {
  const loop: Record<string, unknown> = {};
  loop["self"] = loop;
  it.each<[string, unknown]>([["undefined", undefined], ["null", null], ["a symbol", Symbol("s")], ["a bigint", 1n], ["a loop", loop], ["an object whose text throws", { toString: () => { throw new Error("no"); }, toJSON: () => { throw new Error("no"); } }], ["nothing with a prototype", Object.create(null)]])(
    "may be anything, and leaves nothing running: %s",
    async (_, reason) => {
      vi.useFakeTimers();
      const [queue, poisonQueue] = [new FakeQueue(), new FakeQueue("poison")];
      for (const key of ["a", "b"]) await enqueue(queue, key, { idempotencyKey: key });
      const handled: unknown[] = [];
      const consumer = new QueueConsumer(queue, (payload, { poison }) => {
        handled.push(payload);
        poison(reason as string);
      }, { poisonQueue, maxAttempts: 1 });
      consumer.on("error", () => undefined);
      await consumer.start();
      await vi.advanceTimersByTimeAsync(60_000);
      const stopping = consumer.stop();
      await vi.advanceTimersByTimeAsync(60_000);
      await stopping;
      expect(vi.getTimerCount()).toBe(0);
      expect([handled.sort(), queue.messages, poisonQueue.messages.length]).toEqual([["a", "b"], [], 2]);
    },
  );
});
