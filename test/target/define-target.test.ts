import { describe, expect, expectTypeOf, it, onTestFinished, vi } from "vitest";
import {
  CommitUnknownError,
  ConflictError,
  createIfNotExists,
  defineTarget,
  DELETE,
  deleteIfUnchanged,
  leasedUpdate,
  optimisticUpdate,
  overwrite,
  PreconditionError,
  readIfChanged,
  readTarget,
  TargetNotFoundError,
  tryReadTarget,
  watch,
} from "../../src/index.js";
import type { TargetAdapter, UpdateTarget } from "../../src/index.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { loseResponse, loseWrite, OwnStore } from "./own-store.js";

useFakeTimers();

interface Counter {
  n: number;
  at?: Date;
}

const increment = (draft: Counter): void => {
  draft.n++;
};

function counter(options: { keepsJournal?: boolean } = {}): { store: OwnStore<Counter>; target: UpdateTarget<Counter> } {
  const store = new OwnStore<Counter>({ n: 0 }, options);
  return { store, target: defineTarget<Counter>(store) };
}

describe("a target of the caller's own", () => {
  it("has the type of its values, and the kind and url of its adapter", () => {
    const { store, target } = counter();
    expectTypeOf(target).toEqualTypeOf<UpdateTarget<Counter>>();
    expect(target).toEqual({ kind: "memory", url: store.url });
  });

  it("is read, updated, created, overwritten and deleted", async () => {
    const { store, target } = counter();
    expect(await readTarget(target)).toEqual({ value: { n: 0 }, etag: "v1" });
    expect(await readIfChanged(target, "v1")).toEqual({ changed: false, etag: "v1" });
    expect(await optimisticUpdate(target, increment)).toEqual({ value: { n: 1 }, etag: "v2", outcome: "updated", attempts: 1, operationId: expect.any(String) as string });
    expect(await overwrite(target, { n: 5 })).toEqual({ etag: "v3" });
    expect(await createIfNotExists(target, { n: 9 })).toMatchObject({ outcome: "unchanged", value: { n: 5 } });
    expect(await rejection(deleteIfUnchanged(target, "v2"))).toBeInstanceOf(ConflictError);
    await deleteIfUnchanged(target, "v3");
    expect(store.current).toBeUndefined();
    expect(await tryReadTarget(target)).toBeUndefined();
    expect(await rejection(readTarget(target))).toBeInstanceOf(TargetNotFoundError);
    expect(await rejection(optimisticUpdate(target, increment))).toBeInstanceOf(TargetNotFoundError);
    expect(await createIfNotExists(target, { n: 9 })).toMatchObject({ outcome: "created", etag: "v4" });
    store.current = undefined;
    expect(await overwrite(target, { n: 6 })).toEqual({ etag: "v5" });
    store.current = undefined;
    expect(await optimisticUpdate(target, increment, { initial: { n: 1 } })).toMatchObject({ outcome: "created", value: { n: 2 } });
  });

  it("costs one read and one write for an update, and no write for one that changes nothing", async () => {
    const { store, target } = counter();
    await optimisticUpdate(target, increment);
    expect(store.calls.splice(0)).toEqual(["read", "write"]);
    expect((await optimisticUpdate(target, (draft) => ({ ...draft }))).outcome).toBe("unchanged");
    expect(store.calls).toEqual(["read"]);
  });

  it("gives each caller its own copy: what callers or the store keep is not changed by others", async () => {
    const at = new Date(0);
    const store = new OwnStore<Counter>({ n: 0, at });
    const target = defineTarget<Counter>(store);
    const { value } = await readTarget(target);
    value.at?.setTime(5);
    value.n = 100;
    expect(store.current?.value).toEqual({ n: 0, at: new Date(0) });
    const returned: Counter = { n: 1, at: new Date(1) };
    const result = await optimisticUpdate(target, () => returned);
    returned.n = 50;
    result.value.n = 60;
    expect(store.current?.value).toEqual({ n: 1, at: new Date(1) });
    const drafts: Counter[] = [];
    await Promise.all([1, 2].map(() => optimisticUpdate(target, (draft) => void drafts.push(draft))));
    expect(drafts[0]).not.toBe(drafts[1]);
  });

  it("is watched", async () => {
    const { store, target } = counter();
    await using states = watch(target, { pollIntervalInMs: 100 });
    expect((await states.next()).value).toMatchObject({ exists: true, value: { n: 0 } });
    store.put({ n: 1 });
    const next = states.next();
    await vi.advanceTimersByTimeAsync(200);
    expect((await next).value).toMatchObject({ exists: true, value: { n: 1 } });
    store.current = undefined;
    const last = states.next();
    await vi.advanceTimersByTimeAsync(200);
    expect((await last).value).toMatchObject({ exists: false });
  });

  it("has no lease", async () => {
    const { store, target } = counter();
    await expect(leasedUpdate(target, increment)).rejects.toThrow(TypeError);
    await expect(readTarget(target, { conditions: { leaseId: "x" } })).rejects.toThrow(/has no lease/);
    expect(store.calls).toEqual([]);
  });

  it("cannot hold undefined or what cannot be cloned", async () => {
    const { store, target } = counter();
    await expect(overwrite(target, undefined as never)).rejects.toThrow(TypeError);
    await expect(optimisticUpdate(target, () => ({ n: (() => 1) as never }))).rejects.toThrow();
    expect(store.calls).not.toContain("write");
  });
});

describe("a PreconditionError of the adapter", () => {
  it("is a conflict: the mutator runs again on what is stored, after a delay", async () => {
    const { store, target } = counter();
    const random = vi.spyOn(Math, "random").mockReturnValue(0.5);
    onTestFinished(() => random.mockRestore());
    store.next("write", async (carryOut) => {
      store.put({ n: 10 });
      return carryOut();
    });
    const update = optimisticUpdate(target, increment, { retryDelayInMs: 40 });
    await vi.advanceTimersByTimeAsync(19);
    expect(store.calls).toEqual(["read", "write"]);
    await vi.advanceTimersByTimeAsync(1);
    expect(await update).toMatchObject({ value: { n: 11 }, attempts: 2 });
    expect(store.calls).toEqual(["read", "write", "read", "write"]);
  });

  it("is a ConflictError when the attempts are exhausted", async () => {
    const { store, target } = counter();
    store.next("write", ...Array.from({ length: 3 }, () => () => Promise.reject(new PreconditionError("no"))));
    const error = await rejection(inFakeTime(optimisticUpdate(target, increment, { maxAttempts: 3 })));
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({ attempts: 3, url: store.url, cause: { code: "PRECONDITION" } });
    expect(store.current?.value).toEqual({ n: 0 });
  });

  it("makes overwrite read again, because it has no unconditional write", async () => {
    const { store, target } = counter();
    store.next("write", async (carryOut) => {
      store.put({ n: 10 });
      return carryOut();
    });
    await inFakeTime(overwrite(target, { n: 5 }));
    expect(store.current?.value).toEqual({ n: 5 });
    expect(store.calls).toEqual(["read", "write", "read", "write"]);
  });

  it("on a create means that another client was first", async () => {
    const { store, target } = counter();
    store.current = undefined;
    store.next("write", async (carryOut) => {
      store.put({ n: 10 });
      return carryOut();
    });
    expect(await inFakeTime(createIfNotExists(target, { n: 1 }))).toMatchObject({ outcome: "unchanged", value: { n: 10 } });
  });
});

describe("a lost response", () => {
  it.each([["response", loseResponse], ["write", loseWrite]] as const)("is found in the journal: the change is applied once if the %s is lost", async (_what, fault) => {
    const { store, target } = counter();
    store.next("write", fault);
    expect(await inFakeTime(optimisticUpdate(target, increment))).toMatchObject({ value: { n: 1 }, attempts: 1 });
    expect(store.current?.value).toEqual({ n: 1 });
  });

  it("is found below the write of another process", async () => {
    const { store, target } = counter();
    const other = defineTarget<Counter>({ kind: store.kind, url: `${store.url}/other-process`, read: store.read, write: store.write });
    store.next("write", async (carryOut) => {
      carryOut();
      await optimisticUpdate(other, (draft) => void (draft.n += 10));
      throw new Error("connection reset");
    });
    expect(await inFakeTime(optimisticUpdate(target, increment))).toMatchObject({ value: { n: 1 }, attempts: 1 });
    expect(store.current?.value).toEqual({ n: 11 });
  });

  it("of a create is found", async () => {
    const { store, target } = counter();
    store.current = undefined;
    store.next("write", loseResponse);
    expect(await inFakeTime(optimisticUpdate(target, increment, { initial: { n: 0 } }))).toMatchObject({ outcome: "created", value: { n: 1 } });
    expect(store.current).toMatchObject({ value: { n: 1 } });
  });

  it("of a delete is a CommitUnknownError if the target is gone: another client may have deleted it", async () => {
    const { store, target } = counter();
    store.next("delete", loseResponse);
    expect(await rejection(inFakeTime(optimisticUpdate(target, () => DELETE)))).toBeInstanceOf(CommitUnknownError);
    expect(store.current).toBeUndefined();
    store.put({ n: 1 });
    store.next("delete", loseResponse);
    expect(await inFakeTime(optimisticUpdate(target, () => DELETE, { onUnknown: "retry" }))).toMatchObject({ outcome: "deleted" });
  });

  it.each([
    ["the store has no place for a journal", { keepsJournal: false }, {}],
    ["the caller does not want a journal", {}, { journal: false as const }],
  ])("is a CommitUnknownError if %s", async (_why, storeOptions, options) => {
    const { store, target } = counter(storeOptions);
    store.next("write", loseResponse);
    expect(await rejection(inFakeTime(optimisticUpdate(target, increment, options)))).toBeInstanceOf(CommitUnknownError);
    expect(store.current?.value).toEqual({ n: 1 });
  });

  it("of a write that was copied below the adapter is not applied twice if the store has no place for a journal", async () => {
    const { store, target } = counter({ keepsJournal: false });
    store.next("write", async (carryOut) => {
      carryOut();
      return carryOut();
    });
    expect(await rejection(inFakeTime(optimisticUpdate(target, increment)))).toBeInstanceOf(CommitUnknownError);
    expect(store.current?.value).toEqual({ n: 1 });
  });

  it("of a delete that was copied below the adapter, and after which no read succeeds, is a CommitUnknownError", async () => {
    const calls: ((target: UpdateTarget<Counter>) => Promise<unknown>)[] = [(target) => deleteIfUnchanged(target, "v1"), (target) => optimisticUpdate(target, () => DELETE)];
    for (const call of calls) {
      const { store, target } = counter();
      store.next("delete", async (carryOut) => {
        carryOut();
        store.next("read", ...Array<typeof loseWrite>(9).fill(loseWrite));
        return carryOut();
      });
      expect(await rejection(inFakeTime(call(target)))).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown" });
      expect(store.current).toBeUndefined();
    }
  });

  it("of a write that did not arrive is sent again without a journal, too: nothing has changed", async () => {
    const { store, target } = counter({ keepsJournal: false });
    store.next("write", loseWrite);
    await inFakeTime(optimisticUpdate(target, increment));
    expect(store.current?.value).toEqual({ n: 1 });
  });

  it("of another writer is found below an update that does not journal, and below overwrite", async () => {
    const { store, target } = counter();
    await optimisticUpdate(target, increment);
    const { journal } = store.current!;
    expect(journal).toBeTypeOf("string");
    await optimisticUpdate(target, increment, { journal: false });
    await overwrite(target, { n: 9 }, { journal: false });
    expect(store.current?.journal).toBe(journal);
  });
});

describe("DELETE", () => {
  it("deletes the version that the mutator saw", async () => {
    const { store, target } = counter();
    store.next("delete", async (carryOut) => {
      store.put({ n: 10 });
      return carryOut();
    });
    expect(await inFakeTime(optimisticUpdate(target, ({ n }) => (n === 0 ? DELETE : undefined)))).toMatchObject({ outcome: "unchanged", value: { n: 10 } });
    expect(await optimisticUpdate(target, () => DELETE)).toStrictEqual({ value: { n: 10 }, outcome: "deleted", attempts: 1, operationId: expect.any(String) as string });
    expect(store.current).toBeUndefined();
  });

  it("is a TypeError if the adapter cannot delete, and is not tried again", async () => {
    const { store } = counter();
    const { kind, url, read, write } = store;
    const target = defineTarget<Counter>({ kind, url, read, write });
    await expect(optimisticUpdate(target, () => DELETE)).rejects.toThrow("memory: the adapter has no delete.");
    await expect(deleteIfUnchanged(target, "v1")).rejects.toThrow(TypeError);
    expect(store.current?.value).toEqual({ n: 0 });
    expect(store.calls).toEqual(["read"]);
  });
});

describe("the signal of a request", () => {
  it("aborts a pending read and a pending write when the caller cancels", async () => {
    for (const [call, when] of [["read", 1], ["write", 2]] as const) {
      const { store, target } = counter();
      const aborted = vi.fn();
      store.next(call, (_carryOut, { abortSignal }) => new Promise((_resolve, reject) => abortSignal.addEventListener("abort", () => {
        aborted(abortSignal.aborted);
        reject(new Error("aborted by the adapter"));
      })));
      const controller = new AbortController();
      const update = rejection(optimisticUpdate(target, increment, { abortSignal: controller.signal }));
      await vi.advanceTimersByTimeAsync(0);
      expect(store.calls).toHaveLength(when);
      const reason = new Error("the caller left");
      controller.abort(reason);
      expect(await update).toBe(reason);
      expect(aborted).toHaveBeenCalledExactlyOnceWith(true);
    }
  });

  it("aborts at the deadline, and the call ends even if the adapter ignores it", async () => {
    const { store, target } = counter();
    const never = (): Promise<never> => new Promise(() => undefined);
    store.next("read", never, never, never);
    const reading = rejection(readTarget(target, { timeoutInMs: 50 }));
    await vi.advanceTimersByTimeAsync(50);
    expect(await reading).toMatchObject({ name: "OperationTimeoutError" });
    expect(store.requests[0]?.abortSignal.aborted).toBe(true);
    store.next("write", never, never, never);
    const writing = rejection(optimisticUpdate(target, increment, { timeoutInMs: 50 }));
    await vi.advanceTimersByTimeAsync(50);
    expect(await writing).toBeInstanceOf(CommitUnknownError);
  });

  it("may have any number of listeners: a rejected write is still known to be rejected", async () => {
    const { store, target } = counter({ keepsJournal: false });
    store.next("write", async (_carryOut, { abortSignal }) => {
      for (let i = 0; i < 5; i++) abortSignal.addEventListener("abort", () => undefined);
      store.put({ n: 10 });
      throw new PreconditionError("changed");
    });
    expect(await inFakeTime(optimisticUpdate(target, increment))).toMatchObject({ value: { n: 11 } });
  });
});

describe("overwrite", () => {
  it("is a ConflictError, and not the adapter's own error, if other writers are always first", async () => {
    const { store, target } = counter();
    for (let i = 0; i < 10; i++) {
      store.next("write", () => {
        throw new PreconditionError("changed");
      });
    }
    expect(await rejection(inFakeTime(overwrite(target, { n: 9 })))).toMatchObject({ code: "CONFLICT", attempts: 10, committed: false });
    expect(store.current?.value).toEqual({ n: 0 });
  });
});

describe("an adapter that ignores its signal", () => {
  it("and never ends a read does not block the calls after it", async () => {
    const { store, target } = counter();
    const never = (): Promise<never> => new Promise(() => undefined);
    store.next("read", never, never, never);
    const hung = rejection(optimisticUpdate(target, increment, { timeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(100);
    expect(await hung).toMatchObject({ code: "OPERATION_TIMEOUT" });
    expect(await inFakeTime(optimisticUpdate(target, increment, { timeoutInMs: 1_000 }))).toMatchObject({ value: { n: 1 } });
  });
});

describe("coalescing", () => {
  it("combines calls on targets with the same kind and url, and no others", async () => {
    const store = new OwnStore<Counter>({ n: 0 });
    await Promise.all(Array.from({ length: 10 }, () => optimisticUpdate(defineTarget<Counter>(store), increment)));
    expect(store.current?.value).toEqual({ n: 10 });
    expect(store.calls.splice(0)).toEqual(["read", "write"]);
    const other = new OwnStore<Counter>({ n: 0 });
    await Promise.all([store, other].map((adapter) => optimisticUpdate(defineTarget<Counter>(adapter), increment)));
    expect([store.calls, other.calls]).toEqual([["read", "write"], ["read", "write"]]);
  });
});

describe("defineTarget", () => {
  const adapter: TargetAdapter<Counter> = { kind: "k", url: "u", read: () => Promise.resolve(undefined), write: () => Promise.resolve({ etag: "e" }) };

  it.each([
    [undefined, /needs a kind/],
    [null, /needs a kind/],
    [{ ...adapter, kind: "" }, /needs a kind/],
    [{ ...adapter, url: undefined }, /needs a url/],
    [{ ...adapter, read: undefined }, /needs a function read/],
    [{ ...adapter, write: 5 }, /needs a function write/],
    [{ ...adapter, delete: true }, /delete must be a function/],
  ])("throws a TypeError for an adapter that lacks a member", (wrong, message) => {
    expect(() => defineTarget(wrong as never)).toThrow(TypeError);
    expect(() => defineTarget(wrong as never)).toThrow(message);
  });

  it("rejects a version without an ETag: the next write would be unconditional", async () => {
    const target = defineTarget<Counter>({ ...adapter, read: () => Promise.resolve({ value: { n: 0 }, etag: "" }) });
    await expect(readTarget(target)).rejects.toThrow(/has no ETag/);
  });
});

describe("an error of a store with a status code", () => {
  const denied = (statusCode: number): Error => Object.assign(new Error("the gateway"), { statusCode });

  it.each([400, 403, 404, 409, 412, 429])("%i says nothing about the outcome of a write: the library reads", async (statusCode) => {
    const { store, target } = counter();
    store.next("write", async (carryOut) => {
      carryOut();
      throw denied(statusCode);
    });
    expect((await inFakeTime(optimisticUpdate(target, increment))).value).toEqual({ n: 1 });
    expect(store.current?.value).toEqual({ n: 1 });
  });

  it("is that of a delete, too", async () => {
    const { store, target } = counter();
    store.next("delete", async (carryOut) => {
      carryOut();
      throw denied(403);
    });
    expect(await inFakeTime(rejection(optimisticUpdate(target, () => DELETE)))).toBeInstanceOf(CommitUnknownError);
  });
});
