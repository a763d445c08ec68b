import { describe, expect, it, vi } from "vitest";
import { countSends } from "../../src/core/sends.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { loseAnswer } from "../fakes/faults.js";

describe("countSends", () => {
  it("counts abort listeners, and no others", () => {
    const counted = countSends();
    expect(counted.sends()).toBe(0);
    const listener = vi.fn();
    counted.signal.addEventListener("abort", listener);
    counted.signal.addEventListener("other", listener);
    expect(counted.sends()).toBe(1);
    counted.signal.removeEventListener("abort", listener);
    expect(counted.sends()).toBe(1);
  });

  it("is a signal that works", () => {
    const counted = countSends();
    const listener = vi.fn();
    counted.signal.addEventListener("abort", listener);
    counted.abort("reason");
    expect(listener).toHaveBeenCalledTimes(1);
    expect(counted.signal).toMatchObject({ aborted: true, reason: "reason" });
    expect(counted.signal).toBeInstanceOf(AbortSignal);
  });

  it("tells one send from two", async () => {
    const service = new FakeService();
    const blob = new FakeBlockBlob(service);
    const once = countSends();
    await blob.upload(new Uint8Array(), 0, { abortSignal: once.signal });
    service.next("upload", loseAnswer);
    const twice = countSends();
    await blob.upload(new Uint8Array(), 0, { abortSignal: twice.signal });
    expect([once.sends(), twice.sends()]).toEqual([1, 2]);
  });
});
