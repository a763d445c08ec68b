import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { boundedCall, boundedRead } from "../../src/queue/bounded-call.js";

const refusal = Object.assign(new Error("no"), { statusCode: 400, code: "PopReceiptMismatch" });

/** As the SDK's HTTP client does: a listener for each send. */
function send(signal: AbortSignal, times: number): void {
  for (let i = 0; i < times; i++) signal.addEventListener("abort", () => undefined);
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a call that changes something", () => {
  it("is refused if it was sent once, and of unknown fate if the refusal may be that of a copy", async () => {
    const sent = (times: number): Promise<unknown> =>
      boundedCall(1_000, ({ abortSignal }) => {
        send(abortSignal, times);
        return Promise.reject(refusal);
      });
    expect(await sent(1)).toEqual({ kind: "refused", error: refusal });
    expect(await sent(2)).toEqual({ kind: "unknown", error: refusal });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is of unknown fate when its time is over, even if the client takes no notice of its signal", async () => {
    const outcome = boundedCall(1_000, () => new Promise<never>(() => undefined));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await outcome).toMatchObject({ kind: "unknown", error: { name: "RequestTimeout" } });
  });

  it("is not made for a caller that has gone", async () => {
    const call = vi.fn(() => Promise.resolve(1));
    const gone = AbortSignal.abort(new Error("gone"));
    expect(await boundedCall(1_000, call, { abortSignal: gone })).toMatchObject({ kind: "unknown", error: { message: "gone" } });
    expect(call).not.toHaveBeenCalled();
  });
});

it("a read gives the answer, or rejects with what went wrong", async () => {
  expect(await boundedRead(1_000, () => Promise.resolve(7))).toBe(7);
  await expect(boundedRead(1_000, () => Promise.reject(refusal))).rejects.toBe(refusal);
});
