import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { tryAcquireLease, withLease } from "../../src/lease/with-lease.js";
import { after, hang, ok } from "./fakes/answers.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const unhandled: unknown[] = [];
const realImmediate = setImmediate; // before the clock of the test replaces it
const note = (error: unknown): void => void unhandled.push(error);

beforeEach(() => {
  unhandled.length = 0;
  process.on("unhandledRejection", note);
});
afterEach(async () => {
  await new Promise((resolve) => realImmediate(resolve)); // unhandled rejections are reported when the microtasks are done
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});

const answers = { renew: after(100, ok), release: after(100, ok) };
const requests = (blob: ScriptedLeasable): unknown[] => blob.calls.map(({ operation, at }) => [operation, at]);

describe.each([{ durationInSeconds: 15 }, { durationInSeconds: Infinity }])("a lease of $durationInSeconds seconds", (options) => {
  it.each([true, false])("lets a renewal and a release of the same tick both succeed, the renewal first (autoRenew: %s)", async (autoRenew) => {
    const blob = new ScriptedLeasable(answers);
    const lease = (await tryAcquireLease(blob, { ...options, autoRenew }))!;
    const renewal = outcomeOf(lease.renew());
    const release = outcomeOf(lease.release());
    await pass(1_000);
    expect(renewal).toEqual({ value: undefined, at: 100 });
    expect(release).toEqual({ value: undefined, at: 200 });
    expect(requests(blob)).toEqual([["acquire", 0], ["renew", 0], ["release", 100]]); // prettier-ignore
    expect((lease.signal.reason as Error).name).toBe("AbortError");
  });

  it("lets a renewal succeed that was sent before the holder released the lease", async () => {
    const blob = new ScriptedLeasable(answers);
    const lease = (await tryAcquireLease(blob, options))!;
    const renewal = outcomeOf(lease.renew());
    await pass(30);
    const release = outcomeOf(lease.release());
    await pass(1_000);
    expect(renewal).toEqual({ value: undefined, at: 100 });
    expect(release).toEqual({ value: undefined, at: 200 });
    expect(requests(blob)).toEqual([["acquire", 0], ["renew", 0], ["release", 100]]); // prettier-ignore
  });

  it("causes no unhandled rejection if the function of withLease returns without awaiting its renewal", async () => {
    const blob = new ScriptedLeasable(answers);
    const work = withLease(
      blob,
      async (lease) => {
        void lease.renew();
        await new Promise((resolve) => setTimeout(resolve, 5));
        return "result";
      },
      options,
    );
    await pass(1_000);
    expect(await work).toBe("result");
    expect(requests(blob)).toEqual([["acquire", 0], ["renew", 0], ["release", 100]]); // prettier-ignore
  });
});

it.each(["renew", "change"] as const)("a %s without a response rejects with an error that callers know", async (operation) => {
  const blob = new ScriptedLeasable({ renew: hang, change: hang, release: ok });
  const lease = (await tryAcquireLease(blob, { durationInSeconds: 15, autoRenew: false }))!;
  const call = outcomeOf(lease[operation]());
  await pass(6_000);
  expect(call.error).toMatchObject({ name: "OperationTimeoutError", code: "OPERATION_TIMEOUT", committed: "unknown" });
  await lease.release();
});
