import { setTimeout as pause } from "node:timers/promises";

import { describe, expect, it, onTestFinished } from "vitest";

import { startWorker, startWorkers, type Worker, WorkerError, type WorkerOptions } from "./workers.js";
import type { Example } from "./workers/example.js";

function start(example: Example, options?: WorkerOptions): Worker<unknown> {
  const worker = startWorker(new URL("./workers/example.ts", import.meta.url), example, options);
  onTestFinished(() => worker.stop());
  return worker;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe.concurrent("a worker", () => {
  it("gets its configuration and gives back a result", async () => {
    const configs = [{ a: ["ä", null] }, 5].map((value): Example => ({ do: "return", value }));
    const workers = startWorkers(new URL("./workers/example.ts", import.meta.url), configs);
    expect(await Promise.all(workers.map(({ result }) => result))).toEqual([{ a: ["ä", null] }, 5]);
    expect(await Promise.all(workers.map(({ exited }) => exited))).toEqual([0, 0].map((code) => ({ code, signal: null })));
  });

  it("that throws is an error with what it wrote to stderr", async () => {
    const { result } = start({ do: "throw", message: "out of luck" });
    await expect(result).rejects.toThrow(WorkerError);
    await expect(result).rejects.toThrow(/example\.ts failed \(code 1\)[^]*out of luck/);
  });

  it("exchanges messages, in order", async () => {
    const worker = start({ do: "echo" });
    worker.send("a");
    worker.send("b");
    expect([await worker.receive(), await worker.receive()]).toEqual(["you said a", "you said b"]);
    worker.send("end");
    expect(await worker.result).toBe("ended");
    await expect(worker.receive()).rejects.toThrow(WorkerError);
  });

  it("is killed", async () => {
    const worker = start({ do: "hang" });
    await worker.receive();
    const next = worker.receive();
    worker.signal("SIGKILL");
    expect(await worker.exited).toEqual({ code: null, signal: "SIGKILL" });
    await expect(worker.result).rejects.toMatchObject({ exit: { signal: "SIGKILL" } });
    await expect(next).rejects.toThrow(WorkerError);
  });

  it("does nothing while it is stopped, and goes on afterwards", async () => {
    const worker = start({ do: "tick" }, { timeoutInMs: 20_000 });
    let last = await worker.receive<number>();
    worker.signal("SIGSTOP");
    await pause(300);
    worker.signal("SIGCONT");
    // It ticks every 10 ms, and has a gap where it stood still.
    for (let gap = 0; gap < 200; ) {
      const tick = await worker.receive<number>();
      gap = tick - last;
      last = tick;
    }
  });

  it("that takes too long is killed", async () => {
    const worker = start({ do: "hang" }, { timeoutInMs: 100 });
    await expect(worker.result).rejects.toThrow(/took more than 100 ms/);
  });

  it("ends when the process that started it is killed", async ({ expect }) => {
    const parent = startWorker(new URL("./workers/parent.ts", import.meta.url), null);
    onTestFinished(() => parent.stop());
    const pid = await parent.receive<number>();
    expect(isAlive(pid)).toBe(true);
    parent.signal("SIGKILL");
    await parent.exited;
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });
});
