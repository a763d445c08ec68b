import { useInstrumenter } from "@azure/core-tracing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import type { LeaseHandle } from "../../src/index.js";
import { FakeInstrumenter } from "../fakes/fake-instrumenter.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

type Place = "startSpan" | "setAttribute" | "setStatus" | "end" | "isRecording" | "withContext" | "withContext, after the call";
const places: readonly Place[] = ["startSpan", "setAttribute", "setStatus", "end", "isRecording", "withContext", "withContext, after the call"];

/** A tracer with a defect, which shows from a moment on. */
class ThrowingInstrumenter extends FakeInstrumenter {
  throwsIn: Place | undefined;

  override startSpan(...args: Parameters<FakeInstrumenter["startSpan"]>): ReturnType<FakeInstrumenter["startSpan"]> {
    this.#maybeThrow("startSpan");
    const { span, tracingContext } = super.startSpan(...args);
    const throwing = { ...span };
    for (const place of ["setAttribute", "setStatus", "end", "isRecording"] as const) {
      const original = span[place].bind(span) as (...args: unknown[]) => unknown;
      Object.assign(throwing, {
        [place]: (...given: unknown[]) => {
          this.#maybeThrow(place);
          return original(...given);
        },
      });
    }
    return { span: throwing, tracingContext };
  }

  override withContext: FakeInstrumenter["withContext"] = (_context, callback, ...args) => {
    this.#maybeThrow("withContext");
    const result = callback(...args);
    this.#maybeThrow("withContext, after the call");
    return result;
  };

  #maybeThrow(place: Place): void {
    if (this.throwsIn === place) throw new Error(`the tracer failed in ${place}`);
  }
}

let tracer: ThrowingInstrumenter;
let server: FakeLeaseServer;
const unhandled: unknown[] = [];
const realImmediate = setImmediate; // before the clock of the test replaces it
const note = (error: unknown): void => void unhandled.push(error);

beforeEach(() => {
  useInstrumenter((tracer = new ThrowingInstrumenter()));
  server = new FakeLeaseServer();
  server.addBlob();
  unhandled.length = 0;
  process.on("unhandledRejection", note);
});
afterEach(async () => {
  await new Promise((resolve) => realImmediate(resolve)); // unhandled rejections are reported when the microtasks are done
  process.off("unhandledRejection", note);
  useInstrumenter(undefined as never);
  expect(unhandled).toEqual([]);
});

async function settled<R>(promise: Promise<R>): Promise<{ value?: R; error?: unknown }> {
  const outcome = outcomeOf(promise);
  await pass(1_000);
  expect(outcome.at, "the call hangs").toBeDefined();
  return outcome;
}

const operations = (): string[] => server.requests.map(({ operation }) => operation);
const idOf = (): string | undefined => server.blobs.get("blob")!.lease?.id;

describe.each(places)("a tracer that throws in %s", (place) => {
  describe.each([15, Infinity])("changes nothing for a lease of %s seconds:", (durationInSeconds) => {
    const hold = async (): Promise<LeaseHandle> => {
      const lease = (await settled(acquireLease(server.blob(), { durationInSeconds, autoRenew: false }))).value!;
      tracer.throwsIn = place;
      return lease;
    };
    const giveBack = async (lease: LeaseHandle): Promise<void> => {
      expect((await settled(lease.release())).error).toBeUndefined();
      expect(idOf()).toBeUndefined();
    };

    it("its holder changes the id, renews and releases it", async () => {
      const lease = await hold();
      const before = lease.leaseId;
      expect((await settled(lease.change())).error).toBeUndefined();
      expect(lease.leaseId).not.toBe(before);
      expect(idOf()).toBe(lease.leaseId);
      expect((await settled(lease.renew())).error).toBeUndefined();
      expect(lease.signal.aborted).toBe(false);
      await giveBack(lease);
      expect(operations()).toEqual(["acquire", "change", "renew", "release"]);
    });

    it("a caller acquires it, by acquireLease or by tryAcquireLease", async () => {
      tracer.throwsIn = place;
      const first = (await settled(acquireLease(server.blob(), { durationInSeconds, waitInMs: 500 }))).value!;
      await giveBack(first);
      const second = (await settled(tryAcquireLease(server.blob(), { durationInSeconds }))).value!;
      await giveBack(second);
      expect(operations()).toEqual(["acquire", "release", "acquire", "release"]);
    });

    it("a caller that does not get it is told so, and its abort reaches 20 waiters", async () => {
      const lease = await hold();
      expect((await settled(tryAcquireLease(server.blob(), { durationInSeconds }))).value).toBeUndefined();
      const controller = new AbortController();
      const waiters = Array.from({ length: 20 }, () => outcomeOf(acquireLease(server.blob(), { abortSignal: controller.signal })));
      await pass(50);
      const reason = new Error("enough");
      controller.abort(reason);
      await pass(1_000);
      for (const waiter of waiters) expect(waiter.error).toBe(reason);
      await giveBack(lease);
    });
  });

  it("does not keep an infinite lease from being released in the background if its release fails at first", async () => {
    const lease = (await settled(acquireLease(server.blob(), { durationInSeconds: Infinity }))).value!;
    tracer.throwsIn = place;
    let failures = 2;
    server.intercept = (operation) => (operation === "release" && failures-- > 0 ? { kind: "error", status: 503 } : undefined);
    const release = outcomeOf(lease.release());
    await pass(60_000);
    expect(release.at).toBeDefined();
    expect(idOf()).toBeUndefined();
  });
});
