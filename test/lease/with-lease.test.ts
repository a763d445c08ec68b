import { afterEach, describe, expect, it } from "vitest";
import { withLease } from "../../src/lease/with-lease.js";
import { hang, ok, reset, status } from "./fakes/answers.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { blockEventLoop, elapsed, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();
// A release that failed is repeated in the background, until the lease has expired.
afterEach(() => pass(60_000));

const mismatch = status(409, "LeaseIdMismatchWithLeaseOperation");
const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

it("gives the result, in two requests", async () => {
  const blob = new ScriptedLeasable();
  await expect(withLease(blob, (lease) => `${lease.leaseId.length}`)).resolves.toBe("36");
  expect(blob.calls.map((call) => call.operation)).toEqual(["acquire", "release"]);
});

it("renews while the work goes on", async () => {
  const blob = new ScriptedLeasable();
  const outcome = outcomeOf(withLease(blob, () => later(65_000)));
  await pass(65_000);
  expect(outcome).toMatchObject({ at: 65_000, value: undefined });
  expect(blob.times("renew")).toEqual([10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
});

it("releases only after the work has ended", async () => {
  const blob = new ScriptedLeasable({ renew: ok });
  const outcome = outcomeOf(withLease(blob, () => later(5_000)));
  await pass(5_000);
  expect(outcome.at).toBe(5_000);
  expect(blob.times("release")).toEqual([5_000]);
});

it("a caller that aborts does not wait for a release that gets no response: the result counts, and the release is repeated", async () => {
  const blob = new ScriptedLeasable({ release: (_, nth) => (nth === 0 ? hang : ok) });
  const stop = new AbortController();
  const outcome = outcomeOf(withLease(blob, () => "done", { abortSignal: stop.signal }));
  await pass(1_000);
  expect(outcome.at).toBeUndefined();
  stop.abort();
  await pass(250);
  expect(outcome).toMatchObject({ at: 1_200, value: "done" });
  await pass(10_000);
  expect(blob.times("release")).toHaveLength(2);
});

it("nor does one that has aborted before the end of the work", async () => {
  const blob = new ScriptedLeasable({ release: hang });
  const stop = new AbortController();
  const failure = new Error("of the work");
  const outcome = outcomeOf(withLease(blob, () => later(1_000).then(() => { throw failure; }), { abortSignal: stop.signal }));
  await pass(500);
  stop.abort();
  await pass(750);
  expect(outcome).toMatchObject({ at: 1_200, error: failure });
});

describe("when the work throws", () => {
  const failure = (): Error => new Error("work failed");

  it("does not hand the lease on under the same id: a write that is still on its way must not count for the next one", async () => {
    const blob = new ScriptedLeasable();
    const ids: string[] = [];
    const failed = withLease(blob, async (lease) => {
      ids.push(lease.leaseId);
      await later(10);
      throw failure();
    }).catch(() => undefined);
    const next = withLease(blob, (lease) => void ids.push(lease.leaseId));
    await pass(2_000);
    await Promise.all([failed, next]);
    expect(new Set(ids).size).toBe(2);
    expect(blob.calls.map((call) => call.operation)).toEqual(["acquire", "release", "acquire", "release"]);
  });

  it("rejects with its error", async () => {
    const blob = new ScriptedLeasable();
    const error = failure();
    await expect(withLease(blob, () => Promise.reject(error))).rejects.toBe(error);
    expect(error).not.toHaveProperty("suppressed");
    expect(blob.times("release")).toHaveLength(1);
  });

  it("takes an error that is thrown at once just so", async () => {
    const error = failure();
    const work = (): never => {
      throw error;
    };
    await expect(withLease(new ScriptedLeasable(), work)).rejects.toBe(error);
  });

  it("attaches the failure of the release", async () => {
    const error = failure();
    await expect(withLease(new ScriptedLeasable({ release: reset }), () => Promise.reject(error))).rejects.toBe(error);
    expect(error).toMatchObject({ suppressed: { message: "ECONNRESET" } });
  });

  it("attaches a loss that the release tells of", async () => {
    const error = failure();
    await expect(withLease(new ScriptedLeasable({ release: mismatch }), () => Promise.reject(error))).rejects.toBe(error);
    expect(error).toMatchObject({ suppressed: { name: "LeaseLostError", reason: "stolen" } });
  });

  it("attaches the loss that came before it", async () => {
    const error = failure();
    const outcome = outcomeOf(
      withLease(new ScriptedLeasable({ renew: mismatch }), async () => {
        await later(11_000);
        throw error;
      }),
    );
    await pass(11_000);
    expect(outcome.error).toBe(error);
    expect(error).toMatchObject({ suppressed: { reason: "stolen" } });
  });

  it("gives way to the loss if it is the abort that the loss caused", async () => {
    const outcome = outcomeOf(
      withLease(new ScriptedLeasable({ renew: mismatch }), async () => {
        await later(11_000);
        throw new DOMException("The operation was aborted.", "AbortError");
      }),
    );
    await pass(11_000);
    expect(outcome.error).toMatchObject({ name: "LeaseLostError", reason: "stolen" });
  });

  it("attaches nothing to the loss itself", async () => {
    const outcome = outcomeOf(
      withLease(new ScriptedLeasable({ renew: mismatch }), async (lease) => {
        await later(11_000);
        lease.assertHeld();
      }),
    );
    await pass(11_000);
    expect(outcome.error).toMatchObject({ name: "LeaseLostError", reason: "stolen" });
    expect(outcome.error).not.toHaveProperty("suppressed");
  });

  it.each(["a string", Object.freeze(new Error("frozen")), null])("leaves alone what cannot be added to: %s", async (thrown) => {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- that is the point
    await expect(withLease(new ScriptedLeasable({ release: reset }), () => Promise.reject(thrown))).rejects.toBe(thrown);
  });
});

describe("when the lease is lost", () => {
  it("rejects although the work has a result, once the work has ended", async () => {
    const blob = new ScriptedLeasable({ renew: mismatch });
    const outcome = outcomeOf(
      withLease(blob, async () => {
        await later(20_000);
        return "result";
      }),
    );
    await pass(19_999);
    expect(outcome.at).toBeUndefined();
    await pass(1);
    expect(outcome).toMatchObject({ at: 20_000, error: { name: "LeaseLostError", reason: "stolen" } });
    expect(blob.times("release")).toEqual([]);
  });

  it("lets the work end early by its signal", async () => {
    const outcome = outcomeOf(
      withLease(
        new ScriptedLeasable({ renew: hang }),
        (lease) =>
          new Promise((resolve) => {
            lease.signal.addEventListener("abort", () => resolve("stopped"));
          }),
      ),
    );
    await pass(28_500);
    expect(outcome).toMatchObject({ at: 28_500, error: { reason: "unreachable" } });
  });

  it("notices a loss that no timer could have told of yet", async () => {
    const work = (): string => {
      blockEventLoop(28_500);
      return "result";
    };
    await expect(withLease(new ScriptedLeasable(), work)).rejects.toMatchObject({ name: "LeaseLostError", reason: "expired" });
  });

  it("rejects if the release finds out", async () => {
    await expect(withLease(new ScriptedLeasable({ release: mismatch }), () => "result")).rejects.toMatchObject({ reason: "stolen" });
  });
});

describe("when only the release fails", () => {
  it.each([
    ["is refused", status(403)],
    ["breaks off", reset],
    ["hangs", hang],
  ])("gives the result if it %s", async (_, answer) => {
    const outcome = outcomeOf(withLease(new ScriptedLeasable({ release: answer }), () => "result"));
    await pass(5_000);
    expect(outcome.value).toBe("result");
    expect(elapsed()).toBe(5_000);
  });

  it("gives the result if the work released it by itself", async () => {
    const blob = new ScriptedLeasable();
    const work = async (lease: { release(): Promise<void> }): Promise<string> => {
      await lease.release();
      return "result";
    };
    await expect(withLease(blob, work)).resolves.toBe("result");
    expect(blob.times("release")).toHaveLength(1);
  });
});
