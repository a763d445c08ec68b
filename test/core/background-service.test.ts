import { describe, expect, it, vi } from "vitest";
import type { AdapterRequest } from "../../src/clients/call.js";
import { ServiceRunner } from "../../src/core/background-service.js";
import type { ServiceParts } from "../../src/core/background-service.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function service(parts: Partial<ServiceParts> = {}): { runner: ServiceRunner; log: string[] } {
  const log: string[] = [];
  const runner = new ServiceRunner({
    name: "Tester",
    drainTimeoutInMs: 1_000,
    prepare: async () => void log.push(`prepare ${elapsed()}`),
    launch: () => {
      log.push(`launch ${elapsed()}`);
      return { stop: async () => void log.push(`stop ${elapsed()}`) };
    },
    ...parts,
  });
  return { runner, log };
}

/** A run whose work ends after `ms`, or when it is told to hurry. */
const drains = (ms: number): ServiceParts["launch"] => () => ({
  stop: (hurry) => new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    hurry.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  }),
});

/** Ends when it is aborted, as a request of an SDK. */
const hangs = ({ abortSignal }: AdapterRequest): Promise<void> =>
  new Promise((_, reject) => abortSignal.addEventListener("abort", () => reject(abortSignal.reason as Error)));

describe("start", () => {
  it("prepares, launches, and is idempotent", async () => {
    const { runner, log } = service();
    expect(runner.isRunning).toBe(false);
    await Promise.all([runner.start(), runner.start()]);
    await runner.start();
    expect(runner.isRunning).toBe(true);
    expect(log).toEqual(["prepare 0", "launch 0"]);
    await runner.stop();
    expect(runner.isRunning).toBe(false);
  });

  it("rejects if the preparation fails, launches nothing, and can be repeated", async () => {
    const prepare = vi.fn<ServiceParts["prepare"]>().mockRejectedValueOnce(new Error("no queue")).mockResolvedValue();
    const { runner, log } = service({ prepare });
    await expect(runner.start()).rejects.toThrow("no queue");
    expect([runner.isRunning, log]).toEqual([false, []]);
    await runner.start();
    expect(runner.isRunning).toBe(true);
    await runner.stop();
  });

  it("is cancelled by its signal, even if the preparation takes no notice of it", async () => {
    const { runner, log } = service({ prepare: () => later(60_000) });
    const caller = new AbortController();
    const starting = outcomeOf(runner.start({ abortSignal: caller.signal }));
    await pass(10);
    caller.abort(new Error("changed my mind"));
    await pass(1);
    expect(starting.error).toMatchObject({ message: "changed my mind" });
    await pass(60_000);
    expect([runner.isRunning, log]).toEqual([false, []]);
  });

  it("stops waiting when its own signal aborts, and the start of another caller goes on", async () => {
    const { runner, log } = service({ prepare: () => later(1_000) });
    const first = outcomeOf(runner.start());
    const caller = new AbortController();
    const second = outcomeOf(runner.start({ abortSignal: caller.signal }));
    await pass(10);
    caller.abort(new Error("mine"));
    await pass(1);
    expect(second).toMatchObject({ error: { message: "mine" }, at: 10 });
    await pass(1_000);
    expect(first).toEqual({ value: undefined, at: 1_000 });
    expect(log).toEqual(["launch 1000"]);
    await runner.stop();
  });

  it("is repeated if the signal of another caller cancelled the one that it shared", async () => {
    const { runner, log } = service({ prepare: () => later(100) });
    const caller = new AbortController();
    const first = outcomeOf(runner.start({ abortSignal: caller.signal }));
    const others = [outcomeOf(runner.start()), outcomeOf(runner.start({ abortSignal: new AbortController().signal }))];
    await pass(50);
    caller.abort(new Error("mine"));
    await pass(1);
    expect(first).toMatchObject({ error: { message: "mine" }, at: 50 });
    await pass(100);
    expect(others).toEqual([{ value: undefined, at: 150 }, { value: undefined, at: 150 }]);
    expect(log).toEqual(["launch 150"]);
    await runner.stop();
  });

  it("is not repeated if it was stopped at the same time", async () => {
    const { runner, log } = service({ prepare: () => later(100) });
    const caller = new AbortController();
    outcomeOf(runner.start({ abortSignal: caller.signal }));
    const other = outcomeOf(runner.start());
    await pass(50);
    caller.abort(new Error("mine"));
    await runner.stop();
    await pass(200);
    expect(other.error).toMatchObject({ name: "AbortError", message: "Tester was stopped while it started" });
    expect([runner.isRunning, log]).toEqual([false, []]);
  });

  it("during a stop follows it", async () => {
    const { runner } = service({ launch: drains(500) });
    await runner.start();
    const stopped = outcomeOf(runner.stop());
    const started = outcomeOf(runner.start());
    await pass(499);
    expect([stopped.at, started.at]).toEqual([undefined, undefined]);
    await pass(1);
    expect([stopped.at, started.at]).toEqual([500, 500]);
    expect(runner.isRunning).toBe(true);
    const last = runner.stop();
    await pass(500);
    await last;
  });

  it("with an unknown option, or without an object, rejects with a TypeError", async () => {
    const { runner } = service();
    await expect(runner.start({ signal: AbortSignal.abort() } as object)).rejects.toThrow(/unknown option "signal"/);
    await expect(runner.stop({ timeoutInMs: 1 } as object)).rejects.toThrow(TypeError);
    await expect(runner.stop({ drainTimeoutInMs: -1 })).rejects.toThrow(RangeError);
    await expect(runner.run({} as { abortSignal: AbortSignal })).rejects.toThrow(/run: abortSignal/);
  });
});

describe("stop", () => {
  it("during start cancels the start, which rejects, and nothing is launched", async () => {
    const { runner, log } = service({ prepare: hangs });
    const starting = outcomeOf(runner.start());
    await pass(10);
    await runner.stop();
    expect(starting.error).toMatchObject({ name: "AbortError", message: "Tester was stopped while it started" });
    expect([runner.isRunning, log]).toEqual([false, []]);
  });

  it("after a start that waits for another stop wins over that start", async () => {
    const { runner } = service({ launch: drains(500) });
    await runner.start();
    const stops = [outcomeOf(runner.stop())];
    const starting = outcomeOf(runner.start());
    stops.push(outcomeOf(runner.stop()));
    await pass(600);
    expect(stops.map(({ at }) => at)).toEqual([500, 500]);
    expect(starting.error).toMatchObject({ name: "AbortError" });
    expect(runner.isRunning).toBe(false);
  });

  it("with a shorter time shortens the wait of an earlier one, even if a start was requested in between", async () => {
    const { runner } = service({ launch: drains(60_000) });
    await runner.start();
    const stops = [outcomeOf(runner.stop({ drainTimeoutInMs: 9_000 }))];
    outcomeOf(runner.start());
    await pass(50);
    stops.push(outcomeOf(runner.stop({ drainTimeoutInMs: 0 })));
    await pass(10_000);
    expect(stops.map(({ at }) => at)).toEqual([50, 50]);
  });

  it("is idempotent, and may be called before a start", async () => {
    const { runner, log } = service();
    await runner.stop();
    await runner.start();
    await Promise.all([runner.stop(), runner.stop()]);
    expect(log.filter((entry) => entry.startsWith("stop"))).toHaveLength(1);
  });

  it("tells the run to hurry after the drain timeout: the component's, the call's, or that of a later call", async () => {
    for (const [calls, expected] of [
      [[undefined], 1_000],
      [[200], 200],
      [[5_000, 300], 300],
      [[300, 5_000], 300],
      [[5_000], 5_000],
    ] as const) {
      const { runner } = service({ launch: drains(60_000) });
      await runner.start();
      const begun = elapsed();
      const stops = calls.map((drainTimeoutInMs) => outcomeOf(runner.stop({ drainTimeoutInMs })));
      await pass(6_000);
      expect(stops.map(({ at }) => at! - begun)).toEqual(calls.map(() => expected));
      expect(vi.getTimerCount()).toBe(0);
    }
  });
});

describe("run", () => {
  it("starts with the signal, waits for it, and stops", async () => {
    const { runner, log } = service();
    const caller = new AbortController();
    const running = outcomeOf(runner.run({ abortSignal: caller.signal }));
    await pass(100);
    expect(runner.isRunning).toBe(true);
    caller.abort();
    await pass(1);
    expect(running).toMatchObject({ at: 100 });
    expect(log).toEqual(["prepare 0", "launch 0", "stop 100"]);
  });

  it("ends when its signal aborts while it starts, and does not reject", async () => {
    const { runner } = service({ prepare: hangs });
    const caller = new AbortController();
    const running = outcomeOf(runner.run({ abortSignal: caller.signal }));
    await pass(100);
    caller.abort();
    await pass(1);
    expect(running).toEqual({ value: undefined, at: 100 });
  });

  it("ends when its signal aborts while the start of another caller hangs", async () => {
    const { runner } = service({ prepare: () => later(60_000) });
    outcomeOf(runner.start());
    const caller = new AbortController();
    const running = outcomeOf(runner.run({ abortSignal: caller.signal }));
    await pass(100);
    caller.abort(new Error("mine"));
    await pass(1);
    expect(running).toEqual({ value: undefined, at: 100 });
    await pass(60_000);
    expect(runner.isRunning).toBe(false);
  });

  it("ends when another caller stops the component, although its start was repeated", async () => {
    const { runner } = service({ prepare: () => later(100) });
    const caller = new AbortController();
    outcomeOf(runner.start({ abortSignal: caller.signal }));
    const running = outcomeOf(runner.run({ abortSignal: new AbortController().signal }));
    await pass(50);
    caller.abort();
    await pass(200);
    expect([runner.isRunning, running.at]).toEqual([true, undefined]);
    await runner.stop();
    await pass(1);
    expect(running).toEqual({ value: undefined, at: 250 });
  });

  it("does nothing with a signal that was aborted before", async () => {
    const { runner, log } = service();
    await runner.run({ abortSignal: AbortSignal.abort() });
    expect(log).toEqual([]);
  });

  it("ends when another caller stops the component", async () => {
    const { runner } = service();
    const running = outcomeOf(runner.run({ abortSignal: new AbortController().signal }));
    await pass(100);
    await runner.stop();
    await pass(1);
    expect(running).toEqual({ value: undefined, at: 100 });
  });

  it("rejects if the start fails", async () => {
    const { runner } = service({ prepare: () => Promise.reject(new Error("no queue")) });
    await expect(runner.run({ abortSignal: new AbortController().signal })).rejects.toThrow("no queue");
  });
});
