import { describe, expect, it, vi } from "vitest";
import { CommitUnknownError, createIfNotExists, OperationTimeoutError, overwrite, readIfChanged, readTarget, deleteIfUnchanged, tryReadTarget } from "../../src/index.js";
import type { TimedCallOptions } from "../../src/index.js";
import { gate, hang, hangAfterCommit, pass } from "../fakes/faults.js";
import { counterBlob } from "../support/counter.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

type Subject = ReturnType<typeof counterBlob>["blob"];
const calls: Record<string, (blob: Subject, options: TimedCallOptions) => Promise<unknown>> = {
  readTarget: (blob, options) => readTarget(blob, options),
  tryReadTarget: (blob, options) => tryReadTarget(blob, options),
  readIfChanged: (blob, options) => readIfChanged(blob, '"0x0"', options),
  createIfNotExists: (blob, options) => createIfNotExists(blob, { n: 1 }, options),
  overwrite: (blob, options) => overwrite(blob, { n: 1 }, options),
  deleteIfUnchanged: (blob, options) => deleteIfUnchanged(blob, blob.stored!.etag, options),
};

describe.each(Object.entries(calls))("the time of %s", (name, call) => {
  const isRead = name.toLowerCase().includes("read");

  it("is 30 s unless it is given, and its end is told for what it is", async () => {
    for (const [options, limitInMs] of [[{}, 30_000], [{ timeoutInMs: 50 }, 50]] as const) {
      const { service, blob } = counterBlob();
      service.each("any", hang);
      let error: unknown;
      void rejection(call(blob, options)).then((e) => (error = e));
      await vi.advanceTimersByTimeAsync(limitInMs - 1);
      expect(error).toBeUndefined();
      await vi.advanceTimersByTimeAsync(1);
      expect(error).toBeInstanceOf(isRead ? OperationTimeoutError : CommitUnknownError);
      expect((error as Error).message).toContain(`${limitInMs} ms (timeoutInMs)`);
      if (!isRead) expect((error as Error).cause).toBeInstanceOf(OperationTimeoutError);
    }
  });

  it("ends also if the client takes no notice of its signal", async () => {
    const { service, blob } = counterBlob();
    service.each("any", () => new Promise(() => undefined));
    const error = rejection(call(blob, { timeoutInMs: 50 }));
    await vi.advanceTimersByTimeAsync(50);
    expect(await error).toBeInstanceOf(isRead ? OperationTimeoutError : CommitUnknownError);
  });

  it("does not take the place of the caller's reason, and leaves no listener", async () => {
    const { service, blob } = counterBlob();
    service.next("any", hangAfterCommit);
    const controller = countingController();
    const error = rejection(call(blob, { abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(0);
    controller.abort(new Error("enough"));
    expect((await error).message).toBe("enough");
    expect(controller.listeners()).toBe(0);
  });

  it("leaves no timer when all is well", async () => {
    const { service, blob } = counterBlob();
    if (name === "createIfNotExists") blob.drop();
    service.next("any", pass);
    await call(blob, {});
    expect(vi.getTimerCount()).toBe(0);
  });

  it("can be without end", async () => {
    const { service, blob } = counterBlob();
    if (name === "createIfNotExists") blob.drop();
    const held = gate();
    service.next("any", held.fault);
    const result = call(blob, { timeoutInMs: Number.POSITIVE_INFINITY, tryTimeoutInMs: Number.POSITIVE_INFINITY });
    await vi.advanceTimersByTimeAsync(3_600_000);
    held.open();
    await result;
  });

  it("is divided into tries: a response that never arrives costs a quarter of it", async () => {
    for (const [options, tryInMs] of [[{}, 7_500], [{ timeoutInMs: 400 }, 100], [{ timeoutInMs: 100_000 }, 8_000], [{ tryTimeoutInMs: 70 }, 70]] as const) {
      const { service, blob } = counterBlob();
      if (name === "createIfNotExists") blob.drop();
      service.next("any", name === "createIfNotExists" || name === "overwrite" ? hangAfterCommit : hang);
      let settled = false;
      const result = call(blob, options).finally(() => (settled = true));
      await vi.advanceTimersByTimeAsync(tryInMs - 1);
      expect([settled, service.count()]).toEqual([false, 1]);
      await vi.advanceTimersByTimeAsync(1_100);
      await result;
    }
  });

  it.each([[0, RangeError], [-1, RangeError], [Number.NaN, TypeError], ["1", TypeError]])("cannot be %s", async (wrong, error) => {
    const { service, blob } = counterBlob();
    expect(await rejection(call(blob, { timeoutInMs: wrong as number }))).toBeInstanceOf(error);
    expect(await rejection(call(blob, { tryTimeoutInMs: wrong as number }))).toBeInstanceOf(error);
    expect(service.count()).toBe(0);
  });
});

describe("the time of createIfNotExists", () => {
  it("leaves it unknown whether the call created it if the read after the conflict is late: a copy of its request may have", async () => {
    const { service, blob } = counterBlob();
    service.each("download", hang);
    const error = rejection(createIfNotExists(blob, { n: 1 }, { timeoutInMs: 50 }));
    await vi.advanceTimersByTimeAsync(50);
    expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(service.count("upload")).toBe(1);
  });
});
