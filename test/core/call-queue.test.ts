import { describe, expect, it, vi } from "vitest";
import { CallQueue, CallQueues, credentialScopeOf } from "../../src/core/call-queue.js";
import type { FailedWrite, SharedRequest } from "../../src/core/call-queue.js";
import type { StopSignal } from "../../src/core/deadline.js";
import { waitOrDetach, WriteCall } from "../../src/core/pending-call.js";
import type { WriteCallSettings } from "../../src/core/pending-call.js";
import { Attempts } from "../../src/core/telemetry.js";
import { deferred } from "../fakes/deferred.js";
import { FakeInstrumenter } from "../fakes/fake-instrumenter.js";
import { restError, status } from "../lease/fakes/answers.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { rejection } from "../support/outcome.js";

useFakeClock();

class TestCall extends WriteCall<string> {
  readonly name: string;

  constructor(name: string, settings: Partial<WriteCallSettings> = {}) {
    const defaults: WriteCallSettings = {
      maxAttempts: 10,
      timeoutInMs: Infinity,
      tryTimeoutInMs: 8_000,
      retryDelayInMs: 100,
      maxRetryDelayInMs: 1_000,
      onUnknown: "throw",
      options: {},
      url: "the target",
    };
    super({ ...defaults, ...settings });
    this.name = name;
    // Each test looks at the rejections that it expects.
    this.promise.catch(() => undefined);
  }
}

/** A queue whose batches do what the test says: `read` is for all waiting calls, `write` for those of the batch. */
class TestQueue extends CallQueue<TestCall> {
  /** The names of the calls of each batch. */
  readonly batches: string[][] = [];
  readonly signals: StopSignal[] = [];
  readonly failures: string[][] = [];
  maxBatch = Infinity;
  read: (signal: StopSignal) => Promise<void> | undefined = () => undefined;
  write: (calls: readonly TestCall[], queue: TestQueue) => Promise<void> = commit;
  cleanUp: () => Promise<void> | undefined = () => undefined;

  constructor(onIdle?: () => void) {
    super("https://account.test/target", onIdle);
  }

  protected override async runBatch(): Promise<void> {
    const reading = this.read(this.abortSignal);
    if (reading) await reading;
    const calls = this.takeBatch(this.maxBatch);
    this.batches.push(calls.map(({ name }) => name));
    this.signals.push(this.abortSignal);
    await this.write(calls, this);
  }

  protected override beforeIdle(): Promise<void> | undefined {
    return this.cleanUp();
  }

  protected override onBatchFailed(): void {
    this.failures.push(this.batches.at(-1) ?? []);
  }

  begin(calls: readonly TestCall[]): boolean {
    return this.beginWrite(calls, calls, (caller) => `token-${caller ?? ""}`);
  }

  /** Settles the calls of a write that committed. */
  commit(calls: readonly TestCall[]): void {
    this.endWrite(calls, { kind: "committed" });
    for (const call of calls) call.resolve(call.name);
  }

  /** Settles the calls of a write that did not commit, and leaves the others for the next batch. */
  fail(outcome: FailedWrite, calls: readonly TestCall[], deletes = false): void {
    this.endWrite(calls);
    this.settleFailed(outcome, calls, calls, deletes);
    this.requeue(calls);
  }

  backoff(calls: readonly TestCall[]): number {
    return this.backoffAfterConflict(calls);
  }

  reset(): void {
    this.resetBackoff();
  }

  cutOff(): void {
    this.abortRequests();
  }

  wait(ms: number): Promise<void> {
    return this.pause(ms);
  }

  request(calls: readonly TestCall[]): SharedRequest {
    return this.requestFor(calls, undefined, "journal");
  }

  addAll(...names: string[]): TestCall[] {
    return names.map((name) => this.enqueue(name));
  }

  enqueue(name: string, settings?: Partial<WriteCallSettings>): TestCall {
    const call = new TestCall(name, settings);
    this.add(call);
    return call;
  }
}

const commit: TestQueue["write"] = async (calls, queue) => queue.commit(calls);

/** A write that waits until the test lets it go on, or its signal aborts. */
function heldWrite(): { write: TestQueue["write"]; open: () => void } {
  const opened = deferred();
  return {
    open: () => opened.resolve(),
    write: async (calls, queue) => {
      const { abortSignal } = queue.request(calls);
      const aborted = new Promise<never>((_, reject) => abortSignal.addEventListener("abort", () => reject(abortSignal.reason!)));
      await Promise.race([opened.promise, aborted]);
      queue.commit(calls);
    },
  };
}

const conflict: FailedWrite = { kind: "conflict", error: restError(status(412, "ConditionNotMet")) };
const unknown: FailedWrite = { kind: "unknown", error: restError(status(503)) };

describe("batches", () => {
  it("serve calls in the order in which they came, those that come meanwhile in the next batch", async () => {
    const queue = new TestQueue();
    const held = heldWrite();
    queue.write = held.write;
    const calls = queue.addAll("a");
    await pass(0);
    calls.push(...queue.addAll("b", "c"));
    queue.write = commit;
    held.open();
    expect(await Promise.all(calls.map(({ promise }) => promise))).toEqual(["a", "b", "c"]);
    expect(queue.batches).toEqual([["a"], ["b", "c"]]);
  });

  it("take in what comes while a request for all waiting calls is in flight", async () => {
    const queue = new TestQueue();
    const read = deferred();
    queue.read = () => read.promise;
    queue.addAll("a");
    await pass(0);
    queue.addAll("b");
    read.resolve();
    await pass(0);
    expect(queue.batches).toEqual([["a", "b"]]);
  });

  it("serve a call that was enqueued earlier before the others: it was detached, and returns to its place", async () => {
    const queue = new TestQueue();
    const read = deferred();
    queue.read = () => read.promise;
    const [a, b, c] = ["a", "b", "c"].map((name, index) => Object.assign(new TestCall(name), { enqueuedAt: index + 1 }));
    for (const call of [a, c, b]) queue.add(call!);
    read.resolve();
    await pass(0);
    expect(queue.batches).toEqual([["a", "b", "c"]]);
  });

  it("have as many calls as the queue takes at most", async () => {
    const queue = new TestQueue();
    queue.maxBatch = 2;
    const read = deferred();
    queue.read = () => read.promise;
    queue.addAll("a", "b", "c", "d", "e");
    read.resolve();
    await pass(0);
    expect(queue.batches).toEqual([["a", "b"], ["c", "d"], ["e"]]);
  });

  it("leave out a call that was settled before it was enqueued, and do not even begin for it", async () => {
    const onIdle = vi.fn();
    const queue = new TestQueue(onIdle);
    const gone = new TestCall("gone", { options: { abortSignal: AbortSignal.abort() } });
    queue.add(gone);
    await pass(0);
    expect(queue.batches).toEqual([]);
    expect(onIdle).not.toHaveBeenCalled();
  });

  it("run one at a time", async () => {
    const queue = new TestQueue();
    let running = 0;
    queue.write = async (calls) => {
      expect(++running).toBe(1);
      await pass(0);
      running--;
      queue.commit(calls);
    };
    const calls: TestCall[] = [];
    for (let i = 0; i < 5; i++) {
      calls.push(queue.enqueue(String(i)));
      await Promise.resolve();
    }
    await Promise.all(calls.map(({ promise }) => promise));
    expect(queue.batches.flat()).toEqual(["0", "1", "2", "3", "4"]);
  });
});

describe("a caller whose part the service rejects", () => {
  it("is separated from the others by halves, and only one is rejected", async () => {
    const queue = new TestQueue();
    const error = restError(status(400, "InvalidInput"));
    queue.write = async (calls) => {
      if (calls.some(({ name }) => name === "bad")) queue.fail({ kind: "rejected", error }, calls);
      else queue.commit(calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const [a, bad, c] = queue.addAll("a", "bad", "c") as [TestCall, TestCall, TestCall];
    read.resolve();
    expect(await rejection(bad.promise)).toBe(error);
    expect(await Promise.all([a.promise, c.promise])).toEqual(["a", "c"]);
    expect(queue.batches).toEqual([["a", "bad", "c"], ["a", "bad"], ["a"], ["bad"], ["c"]]);
  });

  it("costs the others few requests, and no attempt", async () => {
    const queue = new TestQueue();
    const error = restError(status(413, "RequestBodyTooLarge"));
    queue.write = async (calls) => {
      for (const call of calls) call.attempts++;
      if (calls.some(({ name }) => name === "700")) queue.fail({ kind: "rejected", error }, calls);
      else queue.commit(calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const calls = queue.addAll(...Array.from({ length: 1_000 }, (_, i) => String(i)));
    const others = calls.filter(({ name }) => name !== "700");
    read.resolve();
    expect(await rejection(calls[700]!.promise)).toBe(error);
    expect(await Promise.all(others.map(({ promise }) => promise))).toEqual(others.map(({ name }) => name));
    expect(queue.batches.length).toBeLessThan(25);
    expect(others.some(({ attempts }) => attempts > 1)).toBe(true);
    expect(others.some(({ isExhausted }) => isExhausted)).toBe(false);
  });

  it("does not take new calls into its batch, and does not hold up those before it", async () => {
    const queue = new TestQueue();
    const read = deferred();
    queue.read = () => read.promise;
    queue.addAll("a", "b");
    queue.enqueue("alone").separate(1);
    queue.addAll("c", "d");
    read.resolve();
    await pass(0);
    expect(queue.batches).toEqual([["a", "b"], ["alone"], ["c", "d"]]);
  });

  it.each([
    ["a lease", status(412, "LeaseIdMissing"), false, "LeaseUnavailableError"],
    ["a missing container", status(404, "ContainerNotFound"), false, "TargetNotFoundError"],
    ["credentials that do not allow it", status(403, "AuthorizationFailure"), false, "RestError"],
  ])("is rejected with the others if all would meet the same: %s", async (_, answer, deletes, name) => {
    const queue = new TestQueue();
    queue.write = async (calls) => queue.fail({ kind: "rejected", error: restError(answer) }, calls, deletes);
    const read = deferred();
    queue.read = () => read.promise;
    const calls = queue.addAll("a", "b");
    read.resolve();
    const errors = await Promise.all(calls.map(({ promise }) => rejection(promise)));
    expect(errors.map((error) => error.name)).toEqual([name, name]);
    expect(queue.batches).toHaveLength(1);
  });

  it("is separated from the others if a delete is not allowed: the others may be writes", async () => {
    const queue = new TestQueue();
    queue.write = async (calls) => {
      if (calls.some(({ name }) => name === "delete")) queue.fail({ kind: "rejected", error: restError(status(403)) }, calls, true);
      else queue.commit(calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const [write, erase] = queue.addAll("write", "delete") as [TestCall, TestCall];
    read.resolve();
    expect(await write.promise).toBe("write");
    expect(await rejection(erase.promise)).toMatchObject({ statusCode: 403 });
  });
});

describe("a conflict", () => {
  it("leaves the calls for the next batch, in front of those that came meanwhile", async () => {
    const queue = new TestQueue();
    let attempts = 0;
    queue.write = async (calls) => {
      for (const call of calls) call.attempts++;
      if (++attempts === 1) {
        queue.addAll("late");
        queue.fail(conflict, calls);
      } else queue.commit(calls);
    };
    const call = queue.enqueue("a");
    await call.promise;
    expect(call.hadConflict).toBe(true);
    expect(queue.batches).toEqual([["a"], ["a", "late"]]);
  });

  it("rejects the calls with a ConflictError that have no attempt left, and no others", async () => {
    const queue = new TestQueue();
    let attempts = 0;
    queue.write = async (calls) => {
      for (const call of calls) call.attempts++;
      if (++attempts === 3) queue.commit(calls);
      else queue.fail(conflict, calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const impatient = queue.enqueue("impatient", { maxAttempts: 2 });
    const patient = queue.enqueue("patient", { maxAttempts: 3 });
    read.resolve();
    expect(await rejection(impatient.promise)).toMatchObject({ name: "ConflictError", attempts: 2 });
    expect(await patient.promise).toBe("patient");
    expect(queue.batches.at(-1)).toEqual(["patient"]);
  });

  it("makes the backoff grow with each one in a row, until it is reset", () => {
    vi.mocked(Math.random).mockReturnValue(1);
    const queue = new TestQueue();
    const calls = [new TestCall("a"), new TestCall("b")];
    expect([1, 2, 3, 4, 5, 6].map(() => queue.backoff(calls))).toEqual([100, 200, 400, 800, 1_000, 1_000]);
    expect(calls.map(({ hadConflict }) => hadConflict)).toEqual([true, true]);
    queue.reset();
    expect(queue.backoff(calls)).toBe(100);
  });

  it("leaves its calls in flight: a copy of the write may be stored", () => {
    const queue = new TestQueue();
    const call = new TestCall("a");
    call.inFlight = true;
    queue.backoff([call]);
    expect(call.inFlight).toBe(true);
  });

  it("is read for at once if the time of a call ends within the backoff, which then comes after the read", async () => {
    vi.mocked(Math.random).mockReturnValue(1);
    const queue = new TestQueue();
    let attempts = 0;
    queue.write = async (calls) => {
      for (const call of calls) call.attempts++;
      if (++attempts > 1) { queue.commit(calls); return; }
      expect(queue.backoff(calls)).toBe(0);
      queue.fail(conflict, calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const short = rejection(queue.enqueue("short", { timeoutInMs: 90 }).promise);
    const long = queue.enqueue("long", { timeoutInMs: 1_000 }).promise;
    read.resolve();
    await vi.advanceTimersByTimeAsync(90);
    expect(await short).toMatchObject({ name: "ConflictError", committed: false });
    expect(queue.failures).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(10);
    expect(await long).toBe("long");
    expect(queue.failures).toHaveLength(1);
  });

  it("needs no backoff if no call has an attempt left, and takes that of the first that has", () => {
    vi.mocked(Math.random).mockReturnValue(1);
    const queue = new TestQueue();
    const [spent, left] = [new TestCall("spent", { maxAttempts: 1 }), new TestCall("left", { retryDelayInMs: 7 })];
    spent.attempts = left.attempts = 1;
    expect(queue.backoff([spent])).toBe(0);
    expect(queue.backoff([spent, left])).toBe(7);
  });
});

describe("a write of unknown outcome", () => {
  it("rejects its calls with a CommitUnknownError, unless they want a retry", async () => {
    const queue = new TestQueue();
    let writes = 0;
    queue.write = async (calls) => {
      for (const call of calls) call.attempts++;
      if (++writes > 1) queue.commit(calls);
      else queue.fail(unknown, calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const [careful] = queue.addAll("careful") as [TestCall];
    const again = queue.enqueue("again", { onUnknown: "retry" });
    const last = queue.enqueue("last", { onUnknown: "retry", maxAttempts: 1 });
    read.resolve();
    expect(await rejection(careful.promise)).toMatchObject({ name: "CommitUnknownError", attempts: 1 });
    expect(await rejection(last.promise)).toMatchObject({ name: "CommitUnknownError" });
    expect(await again.promise).toBe("again");
    expect(again.mayHaveCommitted).toBe(true);
    expect(queue.batches.at(-1)).toEqual(["again"]);
  });

  it("is still unknown when a later attempt meets a conflict for the last time", async () => {
    const queue = new TestQueue();
    let writes = 0;
    queue.write = async (calls) => {
      for (const call of calls) call.attempts++;
      queue.fail(++writes === 1 ? unknown : conflict, calls);
    };
    const call = queue.enqueue("a", { onUnknown: "retry", maxAttempts: 2 });
    expect(await rejection(call.promise)).toMatchObject({ name: "CommitUnknownError", attempts: 2 });
  });
});

describe("the deadline of one caller", () => {
  it("rejects it alone while it waits, and it is no part of the next batch", async () => {
    const queue = new TestQueue();
    const held = heldWrite();
    queue.write = held.write;
    queue.addAll("a");
    await pass(0);
    const gone = queue.enqueue("gone", { timeoutInMs: 100 });
    const [patient] = queue.addAll("patient");
    const outcome = outcomeOf(gone.promise);
    await pass(100);
    expect(outcome).toMatchObject({ at: 100, error: { name: "OperationTimeoutError" } });
    held.open();
    await patient!.promise;
    expect(queue.batches).toEqual([["a"], ["patient"]]);
  });

  it("reports an unknown outcome while a write of it is in flight, and the write goes on for the others", async () => {
    const queue = new TestQueue();
    const held = heldWrite();
    queue.write = (calls) => (queue.begin(calls), held.write(calls, queue));
    const read = deferred();
    queue.read = () => read.promise;
    const impatient = queue.enqueue("impatient", { timeoutInMs: 100 });
    const [patient] = queue.addAll("patient");
    read.resolve();
    await pass(100);
    expect(await rejection(impatient.promise)).toMatchObject({ name: "CommitUnknownError", cause: { name: "OperationTimeoutError" } });
    expect(queue.signals[0]!.aborted).toBe(false);
    held.open();
    expect(await patient!.promise).toBe("patient");
  });

  it("is a ConflictError if it had met a conflict, and a OperationTimeoutError otherwise", async () => {
    const queue = new TestQueue();
    queue.write = (calls) => {
      queue.begin(calls);
      queue.fail(conflict, calls);
      return queue.wait(1_000);
    };
    const call = queue.enqueue("a", { timeoutInMs: 500 });
    await pass(500);
    expect(await rejection(call.promise)).toMatchObject({ name: "ConflictError" });
    await pass(0);
  });
});

describe("beginWrite", () => {
  it("refuses to write the change of a caller that has gone since its function ran", () => {
    const queue = new TestQueue();
    const [gone, here] = [new TestCall("gone"), new TestCall("here")];
    gone.reject(new Error("aborted"));
    expect(queue.begin([gone, here])).toBe(false);
    expect(here.inFlight).toBe(false);
    expect(queue.begin([here])).toBe(true);
    expect(here.inFlight).toBe(true);
    expect(queue.begin([])).toBe(false);
  });
});

describe("I/O that no caller waits for any more", () => {
  it("is cut off when the last caller of the batch goes, once", async () => {
    const queue = new TestQueue();
    queue.write = heldWrite().write;
    const read = deferred();
    queue.read = () => read.promise;
    const callers = [new AbortController(), new AbortController()];
    const calls = callers.map(({ signal }, index) => queue.enqueue(String(index), { options: { abortSignal: signal } }));
    read.resolve();
    await pass(0);
    const [signal] = queue.signals as [StopSignal];
    const onAbort = vi.fn();
    signal.addEventListener("abort", onAbort);
    callers[0]!.abort(new Error("first"));
    await pass(0);
    expect(signal.aborted).toBe(false);
    callers[1]!.abort(new Error("second"));
    await pass(0);
    expect(onAbort).toHaveBeenCalledTimes(1);
    const errors = await Promise.all(calls.map(({ promise }) => rejection(promise)));
    expect(errors.map(({ message }) => message)).toEqual(["first", "second"]);
  });

  it("is cut off while it is for all waiting calls, when the last of these goes", async () => {
    const queue = new TestQueue();
    let seen: StopSignal | undefined;
    queue.read = (signal) => {
      seen = signal;
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason!)));
    };
    const callers = [new AbortController(), new AbortController()];
    for (const { signal } of callers) queue.enqueue("a", { options: { abortSignal: signal } });
    await pass(0);
    callers[1]!.abort();
    expect(seen!.aborted).toBe(false);
    callers[0]!.abort();
    expect(seen!.aborted).toBe(true);
    await pass(0);
    expect(queue.batches).toEqual([]);
  });

  it("goes on while it is for all waiting calls, although those of the batch before have their results", async () => {
    const queue = new TestQueue();
    const held = heldWrite();
    queue.write = held.write;
    queue.addAll("a");
    await pass(0);
    const caller = new AbortController();
    queue.enqueue("gone", { options: { abortSignal: caller.signal } });
    const [waiting] = queue.addAll("waiting");
    let seen: StopSignal | undefined;
    const read = deferred();
    queue.read = (signal) => {
      seen = signal;
      return read.promise;
    };
    held.open();
    await pass(0);
    caller.abort();
    expect(seen!.aborted).toBe(false);
    read.resolve();
    expect(await waiting!.promise).toBe("waiting");
  });

  it("is cut off for the batch alone: a call that waits gets a new batch with a signal of its own", async () => {
    const queue = new TestQueue();
    queue.write = heldWrite().write;
    const caller = new AbortController();
    queue.enqueue("gone", { options: { abortSignal: caller.signal } });
    await pass(0);
    const [waiting] = queue.addAll("waiting");
    queue.write = commit;
    caller.abort();
    expect(await waiting!.promise).toBe("waiting");
    expect(queue.signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it("does not concern a call that is enqueued at the moment of the cut-off", async () => {
    const queue = new TestQueue();
    queue.read = (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason!)));
    const caller = new AbortController();
    queue.enqueue("gone", { options: { abortSignal: caller.signal } });
    await pass(0);
    caller.abort();
    const aborted: boolean[] = [];
    queue.read = (signal) => {
      aborted.push(signal.aborted);
      return undefined;
    };
    const [late] = queue.addAll("late");
    expect(await late!.promise).toBe("late");
    expect(aborted).toEqual([false]);
    expect(queue.signals.map((signal) => signal.aborted)).toEqual([false]);
  });

  it("does not concern a call that is enqueued at the moment of the cut-off, although the response arrives all the same", async () => {
    const queue = new TestQueue();
    const response = deferred();
    queue.read = () => response.promise;
    const caller = new AbortController();
    queue.enqueue("gone", { options: { abortSignal: caller.signal } });
    await pass(0);
    caller.abort();
    const [late] = queue.addAll("late");
    response.resolve();
    expect(await late!.promise).toBe("late");
    expect(queue.batches).toEqual([["gone", "late"]]);
    expect(queue.signals.map((signal) => signal.aborted)).toEqual([false]);
  });

  it("is cut off by the queue itself, without harm to the requests that follow", async () => {
    const queue = new TestQueue();
    const signals: StopSignal[] = [];
    queue.write = async (calls) => {
      signals.push(queue.request(calls).abortSignal);
      queue.cutOff();
      signals.push(queue.request(calls).abortSignal);
      queue.commit(calls);
    };
    expect(await queue.enqueue("a").promise).toBe("a");
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it("is not cut off by calls that get their results", async () => {
    const queue = new TestQueue();
    const abort = vi.spyOn(AbortController.prototype, "abort");
    queue.write = async (calls) => {
      queue.begin(calls);
      queue.commit(calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const calls = queue.addAll("a", "b");
    read.resolve();
    await Promise.all(calls.map(({ promise }) => promise));
    await pass(0);
    expect(abort).not.toHaveBeenCalled();
  });

  it("is not cut off by the end of a defective batch", async () => {
    const queue = new TestQueue();
    const abort = vi.spyOn(AbortController.prototype, "abort");
    queue.write = () => Promise.reject(new Error("a defect"));
    await rejection(queue.enqueue("a").promise);
    await pass(0);
    expect(abort).not.toHaveBeenCalled();
  });
});

describe("a defect in a batch", () => {
  it("rejects the calls of that batch, and the next ones get a new batch", async () => {
    const queue = new TestQueue();
    const defect = new Error("a defect");
    const first = deferred();
    queue.write = async () => {
      await first.promise;
      throw defect;
    };
    const [a] = queue.addAll("a");
    await pass(0);
    const [b] = queue.addAll("b");
    first.resolve();
    const failed = rejection(a!.promise);
    queue.write = commit;
    expect(await failed).toBe(defect);
    expect(await b!.promise).toBe("b");
    expect(queue.failures).toEqual([["a"]]);
  });

  it("rejects all waiting calls while a request was for all of them", async () => {
    const queue = new TestQueue();
    const read = deferred();
    queue.read = () => read.promise;
    const calls = queue.addAll("a", "b");
    read.reject(restError(status(412, "LeaseIdMissing")));
    const errors = await Promise.all(calls.map(({ promise }) => rejection(promise)));
    expect(errors.map(({ name }) => name)).toEqual(["LeaseUnavailableError", "LeaseUnavailableError"]);
  });

  it("reports an unknown outcome to the calls whose write is in flight", async () => {
    const queue = new TestQueue();
    const defect = new Error("a defect");
    queue.write = async (calls) => {
      queue.begin(calls.slice(0, 1));
      // The second one only looked.
      throw defect;
    };
    const read = deferred();
    queue.read = () => read.promise;
    const [writer] = queue.addAll("writer", "reader");
    read.resolve();
    expect(await rejection(writer!.promise)).toMatchObject({ name: "CommitUnknownError", cause: defect });
  });

  it("does not concern calls that have a result", async () => {
    const queue = new TestQueue();
    queue.write = async ([first]) => {
      first!.resolve("done");
      throw new Error("a defect");
    };
    const read = deferred();
    queue.read = () => read.promise;
    const [first, second] = queue.addAll("a", "b");
    read.resolve();
    expect(await first!.promise).toBe("done");
    expect((await rejection(second!.promise)).message).toBe("a defect");
  });

  it("is told to every call, even if one of them cannot be settled", async () => {
    const queue = new TestQueue();
    queue.write = () => Promise.reject(new Error("a defect"));
    const read = deferred();
    queue.read = () => read.promise;
    const [broken, other] = queue.addAll("broken", "other");
    const reject = broken!.reject.bind(broken);
    broken!.reject = (error) => {
      reject(error);
      throw new Error("another defect");
    };
    read.resolve();
    expect((await rejection(other!.promise)).message).toBe("a defect");
  });

  it("while the calls of a committed write are settled never says that nothing was written", async () => {
    const queue = new TestQueue();
    queue.write = async (calls) => {
      queue.begin(calls);
      calls[1]!.resolve = () => {
        throw new TypeError("a defect");
      };
      queue.commit(calls);
    };
    const read = deferred();
    queue.read = () => read.promise;
    const [a, b, c] = queue.addAll("a", "b", "c");
    read.resolve();
    expect(await a!.promise).toBe("a");
    for (const call of [b, c]) expect(await rejection(call!.promise)).toMatchObject({ code: "COMMIT_UNKNOWN", cause: { message: "a defect" } });
  });
});

describe("when no call waits any more, a queue", () => {
  it("cleans up first, and then says that it is idle, once", async () => {
    const order: string[] = [];
    const queue = new TestQueue(() => order.push("idle"));
    const cleaned = deferred();
    queue.cleanUp = async () => {
      order.push("clean up");
      await cleaned.promise;
    };
    const read = deferred();
    queue.read = () => read.promise;
    const calls = queue.addAll("a", "b");
    read.resolve();
    await Promise.all(calls.map(({ promise }) => promise));
    await pass(0);
    expect(order).toEqual(["clean up"]);
    cleaned.resolve();
    await pass(0);
    expect(order).toEqual(["clean up", "idle"]);
  });

  it("serves a call that is enqueued during the clean-up, before it is idle", async () => {
    const onIdle = vi.fn();
    const queue = new TestQueue(onIdle);
    const cleaned = deferred();
    queue.cleanUp = vi.fn(() => cleaned.promise);
    await queue.enqueue("a").promise;
    await pass(0);
    const [late] = queue.addAll("late");
    await pass(0);
    expect(queue.batches).toEqual([["a"]]);
    cleaned.resolve();
    expect(await late!.promise).toBe("late");
    await pass(0);
    expect(queue.batches).toEqual([["a"], ["late"]]);
    expect(queue.cleanUp).toHaveBeenCalledTimes(2);
    expect(onIdle).toHaveBeenCalledTimes(1);
  });

  it.each([
    ["rejects", () => Promise.reject(new Error("no response"))],
    [
      "throws",
      () => {
        throw new Error("a defect");
      },
    ],
  ])("is idle even if the clean-up %s", async (_, cleanUp) => {
    const onIdle = vi.fn();
    const queue = new TestQueue(onIdle);
    queue.cleanUp = cleanUp;
    await queue.enqueue("a").promise;
    await pass(0);
    expect(onIdle).toHaveBeenCalledTimes(1);
    expect(await queue.enqueue("b").promise).toBe("b");
    await pass(0);
  });

  it("does not cut off its clean-up when a call is enqueued and goes meanwhile", async () => {
    const queue = new TestQueue();
    const cleaned = deferred();
    queue.cleanUp = () => cleaned.promise;
    // A batch that rejects its calls without a write.
    queue.write = async (calls) => {
      for (const call of calls) call.reject(new Error("does not fit"));
    };
    await rejection(queue.enqueue("a").promise);
    await pass(0);
    const abort = vi.spyOn(AbortController.prototype, "abort");
    const gone = queue.enqueue("gone", { timeoutInMs: 10 });
    await pass(10);
    await rejection(gone.promise);
    expect(abort).not.toHaveBeenCalled();
    cleaned.resolve();
    await pass(0);
    expect(queue.batches).toEqual([["a"]]);
  });
});

describe("a pause between batches", () => {
  it("lasts as long as it should while a caller waits", async () => {
    const queue = new TestQueue();
    let writes = 0;
    queue.write = async (calls) => {
      if (++writes === 1) {
        queue.fail(conflict, calls);
        await queue.wait(1_000);
      } else queue.commit(calls);
    };
    const outcome = outcomeOf(queue.enqueue("a").promise);
    await pass(999);
    expect(outcome).toEqual({});
    await pass(1);
    expect(outcome).toMatchObject({ value: "a", at: 1_000 });
  });

  it("ends when the last caller goes, and leaves no timer", async () => {
    const onIdle = vi.fn();
    const queue = new TestQueue(onIdle);
    queue.write = async (calls) => {
      queue.fail(conflict, calls);
      await queue.wait(60_000);
    };
    const caller = new AbortController();
    queue.enqueue("a", { options: { abortSignal: caller.signal } });
    await pass(10);
    caller.abort();
    await pass(0);
    expect(onIdle).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
    expect(queue.failures).toEqual([]);
  });

  it("goes on for a call that was enqueued during it", async () => {
    const queue = new TestQueue();
    let writes = 0;
    queue.write = async (calls) => {
      if (++writes === 1) {
        queue.fail(conflict, calls);
        await queue.wait(1_000);
      } else queue.commit(calls);
    };
    const caller = new AbortController();
    queue.enqueue("gone", { options: { abortSignal: caller.signal } });
    await pass(100);
    const outcome = outcomeOf(queue.enqueue("late").promise);
    caller.abort();
    await pass(1_000);
    expect(outcome).toMatchObject({ value: "late", at: 1_000 });
  });
});

describe("the requests of a batch", () => {
  function traced(name: string, instrumenter: FakeInstrumenter): TestCall {
    const { span, tracingContext } = instrumenter.startSpan(name, { packageName: "test" });
    return new TestCall(name, { trace: new Attempts(name, { tracingContext }, span) });
  }

  it("are counted for each call, and are part of the attempt of the first that waits", () => {
    const queue = new TestQueue();
    const instrumenter = new FakeInstrumenter();
    const calls = [traced("a", instrumenter), traced("b", instrumenter)];
    const [first, second] = calls as [TestCall, TestCall];
    const request = queue.request(calls);
    request.onRequest();
    request.onRequest();
    expect(calls.map(({ trace }) => trace.details().requests)).toEqual([2, 2]);
    expect(request.tracingOptions).toBe(first.trace.tracingOptions);
    first.resolve("done");
    expect(queue.request(calls).tracingOptions).toBe(second.trace.tracingOptions);
  });

  it("begin the next attempt after the one that met a conflict", () => {
    const queue = new TestQueue();
    const instrumenter = new FakeInstrumenter();
    const calls = [traced("a", instrumenter), traced("b", instrumenter)];
    const request = queue.request(calls);
    request.onRequest();
    const before = request.tracingOptions;
    queue.backoff(calls);
    request.onRequest();
    expect(calls.map(({ trace }) => trace.details().attempts)).toEqual([2, 2]);
    expect(request.tracingOptions).not.toBe(before);
    expect(request.tracingOptions).toBe(calls[0]!.trace.tracingOptions);
  });
});

describe("a caller whose function is slow", () => {
  /** As a queue of updates does: it waits for each function, and separates a slow one. */
  function functionQueue(functions: Readonly<Record<string, () => Promise<void>>>): TestQueue {
    const queue = new TestQueue();
    const read = deferred();
    queue.read = () => read.promise;
    queue.write = async (calls) => {
      for (const call of calls) {
        const othersWait = (): boolean => calls.some((other) => other !== call && !other.isSettled());
        const waited = await waitOrDetach(functions[call.name]!(), call, othersWait, 50);
        if (waited.kind === "done") call.resolve(call.name);
        if (waited.kind === "detached") void waited.done.then(() => call.resolve(`${call.name}, detached`));
      }
    };
    read.resolve();
    return queue;
  }

  it("is detached, and the others are served without it", async () => {
    const slow = deferred();
    const queue = functionQueue({ slow: () => slow.promise, quick: () => Promise.resolve() });
    const [detached, quick] = queue.addAll("slow", "quick");
    const outcome = outcomeOf(quick!.promise);
    await pass(50);
    expect(outcome).toMatchObject({ value: "quick", at: 50 });
    slow.resolve();
    expect(await detached!.promise).toBe("slow, detached");
  });
});

describe("credentialScopeOf", () => {
  it("is the same for clients of one class that share a pipeline, or else the client", () => {
    class Client {
      readonly pipeline: object | undefined;
      constructor(pipeline?: object) {
        this.pipeline = pipeline;
      }
    }
    const pipeline = {};
    expect(credentialScopeOf(new Client(pipeline))).toBe(credentialScopeOf(new Client(pipeline)));
    expect(credentialScopeOf(new Client(pipeline))).not.toBe(credentialScopeOf(new Client({})));
    const clients = [{}, { pipeline: undefined }, { pipeline: "no object" }, { pipeline: null }, { pipeline }, new Client()];
    for (const client of clients) expect(credentialScopeOf(client)).toBe(client);
  });
});

describe("the registry of queues", () => {
  it("has one queue for each scope and key", () => {
    const queues = new CallQueues<object>();
    const [scope, other] = [{}, {}];
    const create = (): object => ({});
    const queue = queues.get(scope, "key", create);
    expect(queues.get(scope, "key", create)).toBe(queue);
    expect(queues.get(scope, "other key", create)).not.toBe(queue);
    expect(queues.get(other, "key", create)).not.toBe(queue);
  });

  it("makes a new queue after the last one was idle, and leaves those of other keys and scopes", () => {
    const queues = new CallQueues<object>();
    const [scope, other] = [{}, {}];
    let idle: (() => void) | undefined;
    const queue = queues.get(scope, "key", (onIdle) => ((idle = onIdle), {}));
    const others = [queues.get(scope, "other key", () => ({})), queues.get(other, "key", () => ({}))];
    idle!();
    expect([queues.get(scope, "other key", () => ({})), queues.get(other, "key", () => ({}))]).toEqual(others);
    const next = queues.get(scope, "key", () => ({ next: true }));
    expect(next).toEqual({ next: true });
    expect(next).not.toBe(queue);
  });

  it("keeps no queue that is idle, however many keys there were", async () => {
    const queues = new CallQueues<TestQueue>();
    const scope = {};
    const sets = vi.spyOn(Map.prototype, "set");
    queues.get(scope, "first", (onIdle) => new TestQueue(onIdle)).enqueue("call");
    const registered = sets.mock.contexts[sets.mock.calls.findIndex(([key]) => key === "first")] as Map<string, unknown>;
    sets.mockRestore();
    expect(registered.size).toBe(1);
    for (let i = 0; i < 100; i++) queues.get(scope, `key ${i}`, (onIdle) => new TestQueue(onIdle)).enqueue("call");
    expect(registered.size).toBe(101);
    await pass(0);
    expect(registered.size).toBe(0);
  });

  it("keeps a queue while it has work", async () => {
    const queues = new CallQueues<TestQueue>();
    const scope = {};
    const held = heldWrite();
    const queue = queues.get(scope, "key", (onIdle) => new TestQueue(onIdle));
    queue.write = held.write;
    const call = queue.enqueue("a");
    await pass(10_000);
    expect(queues.get(scope, "key", () => new TestQueue())).toBe(queue);
    held.open();
    await call.promise;
    await pass(0);
    expect(queues.get(scope, "key", () => new TestQueue())).not.toBe(queue);
  });
});
