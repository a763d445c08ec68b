import { describe, expect, expectTypeOf, it, vi } from "vitest";
import type { LeaseHandle, LockedTable, LockHandle, LockSet } from "../../src/index.js";
import { HeldLease } from "../../src/lease/held-lease.js";
import { acquireLease, tryAcquireLease, withLease } from "../../src/lease/with-lease.js";
import { later, locksOn, run } from "../lock/support.js";
import { after, hang, ok, status } from "./fakes/answers.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { abortTime, blockEventLoop, countedAbort, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const wanted = "11111111-2222-4333-8444-555555555555";
const released = "The lease was released.";

describe("the signal of a lease", () => {
  it("aborts when the release begins, before the request is answered", async () => {
    const blob = new ScriptedLeasable({ release: after(100, ok) });
    const lease = (await tryAcquireLease(blob))!;
    const { signal } = lease;
    expect(signal.aborted).toBe(false);
    const aborted = abortTime(signal);
    const release = lease.release();
    expect(aborted.at).toBe(0);
    expect(signal.reason).toBeInstanceOf(DOMException);
    expect(signal.reason).toMatchObject({ name: "AbortError", message: released });
    await pass(100);
    await release;
    expect(lease.signal).toBe(signal);
  });

  it("is aborted also if it is first looked at after the release", async () => {
    const lease = (await tryAcquireLease(new ScriptedLeasable()))!;
    await lease.release();
    expect((lease.signal.reason as Error).message).toBe(released);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ name: "LeaseLostError" }));
  });

  it("keeps the loss as its reason if the lease was lost before the release", async () => {
    for (const looksBefore of [true, false]) {
      const lease = (await tryAcquireLease(new ScriptedLeasable()))!;
      if (looksBefore) expect(lease.signal.aborted).toBe(false);
      blockEventLoop(28_500);
      await lease.release().catch(() => undefined);
      expect(lease.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "expired" });
    }
  });

  it("stops work that withLease left running, and that is no loss", async () => {
    const blob = new ScriptedLeasable();
    let forgotten: Promise<unknown> | undefined;
    const result = await withLease(blob, (lease) => {
      forgotten = new Promise((_, reject) => lease.signal.addEventListener("abort", () => reject(lease.signal.reason as Error)));
      forgotten.catch(() => undefined);
      return "done";
    });
    expect(result).toBe("done");
    await expect(forgotten).rejects.toThrow(released);
  });

  it("is no loss if the function releases the lease itself, whatever it does afterwards", async () => {
    const blob = new ScriptedLeasable();
    expect(await withLease(blob, async (lease) => (await lease.release(), lease.signal.aborted))).toBe(true);
    const failing = withLease(blob, async (lease) => {
      await lease.release();
      throw lease.signal.reason;
    });
    await expect(failing).rejects.toThrow(released);
  });

  it("is reported as the loss if the lease was lost while the function ran, although it was released later", async () => {
    const blob = new ScriptedLeasable({ renew: status(409, "LeaseIdMismatchWithLeaseOperation") });
    const outcome = outcomeOf(withLease(blob, async (lease) => {
      await later(11_000);
      await lease.release();
    }));
    await pass(12_000);
    expect(outcome.error).toMatchObject({ name: "LeaseLostError", reason: "stolen" });
  });
});

describe("a set of locks", () => {
  it("has a signal that aborts when the set is released", async () => {
    const locks = await run(locksOn(new FakeLeaseServer()).acquireAll(["b", "a"]), 50);
    expect(locks.names).toEqual(["a", "b"]);
    expect(locks.signal.aborted).toBe(false);
    await run(locks.release());
    expect((locks.signal.reason as Error).message).toBe(released);
    expect((locks.get("a").signal.reason as Error).message).toBe(released);
    expect(() => locks.assertHeld()).toThrow("was released");
  });

  it("has a signal that aborts with the loss of one of them", async () => {
    const server = new FakeLeaseServer();
    const locks = await run(locksOn(server).acquireAll(["a", "b"]), 50);
    await run(locksOn(server).break("b"));
    await pass(11_000);
    expect(locks.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "broken" });
    await run(locks.release());
    expect(server.isLeased("locks/a")).toBe(false);
  });
});

describe("listeners and controllers", () => {
  /** Epochs of one reservation: after these the next turn writes the record, so that few and many turns send the same requests. */
  const reserved = 32;

  /** Live listeners on signals, live listeners for the loss of a lease, and new controllers, while `fn` runs. */
  async function counted(fn: () => Promise<unknown>): Promise<{ abort: number; loss: number; controllers: number }> {
    const count = { abort: 0, loss: 0, controllers: 0 };
    const { addEventListener: add, removeEventListener: remove } = AbortSignal.prototype; // eslint-disable-line @typescript-eslint/unbound-method -- called on a signal
    const onLost = HeldLease.prototype.onLost; // eslint-disable-line @typescript-eslint/unbound-method -- called on a lease
    const Controller = globalThis.AbortController;
    vi.spyOn(AbortSignal.prototype, "addEventListener").mockImplementation(function (this: AbortSignal, ...args: Parameters<typeof add>) {
      if (!this.aborted) {
        count.abort++;
        add.call(this, "abort", () => count.abort--, { once: true });
      }
      add.apply(this, args);
    });
    vi.spyOn(AbortSignal.prototype, "removeEventListener").mockImplementation(function (this: AbortSignal, ...args: Parameters<typeof remove>) {
      if (!this.aborted) count.abort--;
      remove.apply(this, args);
    });
    vi.spyOn(HeldLease.prototype, "onLost").mockImplementation(function (this: HeldLease, listener) {
      count.loss++;
      const off = onLost.call(this, listener);
      return () => {
        count.loss--;
        off();
      };
    });
    vi.stubGlobal("AbortController", class extends Controller {
      constructor() {
        super();
        count.controllers++;
      }
    });
    try {
      await fn();
    } finally {
      vi.mocked(HeldLease.prototype.onLost).mockRestore(); // eslint-disable-line @typescript-eslint/unbound-method -- not called
      vi.mocked(AbortSignal.prototype.addEventListener).mockRestore(); // eslint-disable-line @typescript-eslint/unbound-method -- not called
      vi.mocked(AbortSignal.prototype.removeEventListener).mockRestore(); // eslint-disable-line @typescript-eslint/unbound-method -- not called
      vi.unstubAllGlobals();
    }
    return count;
  }

  it("of a lock that is handed over, as many stay after 300 turns as after 3: those of the requests and of the queue", async () => {
    const locks = locksOn(new FakeLeaseServer());
    const caller = countedAbort();
    const turns = (count: number) => run(Promise.all(Array.from({ length: count }, () => locks.withLock("a", (lock) => lock.signal.aborted, { abortSignal: caller.signal }))), 5_000);
    await turns(reserved);
    const few = await counted(() => turns(3));
    await turns(reserved - 3);
    const many = await counted(() => turns(300));
    expect({ ...many, controllers: 0 }).toEqual({ ...few, controllers: 0 });
    expect(caller.listeners()).toBe(0);
    // One for each holder that uses its signal.
    expect(many.controllers - few.controllers).toBe(297);
  });

  it("of holders that do not use their signals, no controller is created at a handover", async () => {
    const locks = locksOn(new FakeLeaseServer());
    const turns = (count: number) => run(Promise.all(Array.from({ length: count }, () => locks.withLock("a", () => undefined))), 5_000);
    await turns(reserved);
    const few = await counted(() => turns(3));
    await turns(reserved - 3);
    expect(await counted(() => turns(300))).toEqual(few);
  });

  it("of sets of locks, none of the caller's stays, whether they are acquired or not", async () => {
    const server = new FakeLeaseServer();
    const other = await run(locksOn(server).acquire("c"));
    const caller = countedAbort();
    const abortSignal = caller.signal;
    const locks = locksOn(server);
    await run(locks.withLocks(["a", "b"], (set) => set.signal.aborted, { abortSignal }), 100);
    const outcome = outcomeOf(locks.withLocks(["a", "b", "c"], () => 1, { abortSignal, waitInMs: 100 }));
    await pass(2_000);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError" });
    expect(caller.listeners()).toBe(0);
    await run(other.release());
  });
});

describe("requestOptions", () => {
  it("have the current id, a signal, and the tracing options of the call that acquired the lease", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const tracingOptions = { tracingContext: { getValue: () => undefined, setValue: () => tracingOptions.tracingContext, deleteValue: () => tracingOptions.tracingContext } };
    const lease = await run(acquireLease(server.blob(), { tracingOptions }));
    const { leaseId } = lease;
    expect(lease.requestOptions).toEqual({ conditions: { leaseId }, leaseAccessConditions: { leaseId }, abortSignal: expect.any(AbortSignal) as AbortSignal, tracingOptions });
    await run(lease.change(wanted));
    expect(lease.requestOptions.conditions).toEqual({ leaseId: wanted });
    expect(lease.requestOptions.leaseAccessConditions).toEqual({ leaseId: wanted });
    // An SDK that changed one of them would not change the other.
    expect(lease.requestOptions.conditions).not.toBe(lease.requestOptions.leaseAccessConditions);
    const { abortSignal } = lease.requestOptions;
    await run(lease.release());
    // A release does not abort them: the SDK would destroy the body of a download that nobody has read yet.
    expect(abortSignal.aborted).toBe(false);
    expect(lease.signal.aborted).toBe(true);
  });

  it.each(["before", "after"])("are aborted by the loss of the lease, if it comes %s they are used", async (when) => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const lease = await run(acquireLease(server.blob(), { durationInSeconds: 15 }));
    const early = when === "after" ? lease.requestOptions : undefined;
    server.intercept = () => status(412, "LeaseIdMismatchWithLeaseOperation");
    await pass(15_000);
    const { abortSignal } = early ?? lease.requestOptions;
    expect(abortSignal.reason).toMatchObject({ code: "LEASE_LOST" });
  });

  it("of each holder are its own, also after a handover", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const blob = server.blob();
    const [first, second] = [outcomeOf(acquireLease(blob)), outcomeOf(acquireLease(blob, { tracingOptions: {} }))];
    await pass(20);
    expect(first.value!.requestOptions.tracingOptions).toEqual({});
    await run(first.value!.release());
    expect(first.value!.requestOptions.abortSignal).not.toBe(second.value!.requestOptions.abortSignal);
    expect(second.value!.requestOptions.abortSignal.aborted).toBe(false);
    await run(second.value!.release());
  });
});

describe("renew and change with options", () => {
  it.each<[string, (lease: LeaseHandle, abortSignal: AbortSignal) => Promise<void>]>([
    ["renew", (lease, abortSignal) => lease.renew({ abortSignal })],
    ["change", (lease, abortSignal) => lease.change(wanted, { abortSignal })],
  ])("%s is cancelled with the reason of the caller, and the lease is still held", async (operation, call) => {
    const blob = new ScriptedLeasable({ [operation]: [hang, ok] });
    const lease = (await tryAcquireLease(blob))!;
    const caller = countedAbort();
    const outcome = outcomeOf(call(lease, caller.signal));
    await pass(10);
    const reason = new Error("no longer wanted");
    caller.abort(reason);
    await pass(0);
    expect(outcome).toEqual({ error: reason, at: 10 });
    lease.assertHeld();
    await pass(5_000);
    await run(lease.release());
  });

  it.each<[string, (lease: LeaseHandle, abortSignal: AbortSignal) => Promise<void>]>([
    ["renew", (lease, abortSignal) => lease.renew({ abortSignal })],
    ["change", (lease, abortSignal) => lease.change(wanted, { abortSignal })],
  ])("%s sends nothing if the caller has cancelled before", async (operation, call) => {
    const blob = new ScriptedLeasable();
    const lease = (await tryAcquireLease(blob))!;
    await expect(call(lease, AbortSignal.abort(new Error("before")))).rejects.toThrow("before");
    expect(blob.calls.filter((sent) => sent.operation === operation)).toEqual([]);
    await lease.release();
  });

  it("rejects an unknown option, and does not throw", async () => {
    const lease = (await tryAcquireLease(new ScriptedLeasable()))!;
    await expect(lease.renew({ timeoutMs: 1 } as object)).rejects.toThrow('renew: unknown option "timeoutMs"');
    await expect(lease.change(undefined, { timeoutMs: 1 } as object)).rejects.toThrow('change: unknown option "timeoutMs"');
    await expect(lease.change("no id")).rejects.toThrow(RangeError);
    await lease.release();
  });
});

it("handles are interfaces with readonly members, and no values", async () => {
  // @ts-expect-error -- a type, not a class
  const construct = (): unknown => new LeaseHandle(); // eslint-disable-line @typescript-eslint/no-unsafe-call -- it does not exist
  expect(construct).toThrow(ReferenceError);
  expectTypeOf<LockHandle>().toExtend<LeaseHandle>();
  expectTypeOf<LockSet["names"]>().toEqualTypeOf<readonly string[]>();
  expectTypeOf<LockedTable["epoch"]>().toEqualTypeOf<number>();
  const lease = (await tryAcquireLease(new ScriptedLeasable()))!;
  // @ts-expect-error -- readonly
  expect(() => (lease.leaseId = wanted)).toThrow(TypeError);
  await lease.release();
});
