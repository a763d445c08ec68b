import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { watch, type Watch } from "../../src/index.js";
import { respondWith, rewriteResponse } from "../../src/testing.js";
import { type Doc, kinds, subjectOf, type SubjectOfTest } from "../update/subjects.js";

describe.each(kinds)("a watch of a %s", (kind) => {
  let subject: SubjectOfTest;

  beforeEach(async () => {
    subject = await subjectOf(kind);
    await subject.store(0);
  });

  afterEach(async () => {
    vi.restoreAllMocks();
    await subject.proxy.stop();
  });

  const open = (pollIntervalInMs: number): Watch<Doc> => watch(subject.client(), { pollIntervalInMs });

  it("sees some of a hundred changes in order, and the last one", async () => {
    const seen: number[] = [];
    const watching = (async () => {
      for await (const { value } of open(5)) {
        seen.push(value?.n ?? -1);
        if (value?.n === 100) break;
      }
    })();
    for (let n = 1; n <= 100; n++) await subject.store(n);
    await watching;
    expect(seen.at(-1)).toBe(100);
    expect(seen).toEqual([...new Set(seen)].toSorted((a, b) => a - b));
    expect(seen.length).toBeGreaterThan(1);
  });

  it("asks with one small request as long as nothing changes", async () => {
    const answers: { status: number; bytes: number }[] = [];
    subject.proxy.rules = [
      rewriteResponse((answer) => {
        answers.push({ status: answer.status, bytes: answer.body.length });
        return answer;
      }),
    ];
    const states = open(5);
    await states.next();
    const next = states.next();
    await subject.proxy.waitFor(() => subject.proxy.requests > 10);
    await subject.store(1);
    expect((await next).value).toMatchObject({ value: { n: 1 } });
    const unchanged = answers.slice(1, 9);
    // A table has no read on a condition: its one entity comes each time.
    expect(unchanged).toEqual(Array(8).fill(kind === "blob" ? { status: 304, bytes: 0 } : { status: 200, bytes: answers[0]!.bytes }));
    expect(subject.proxy.requests).toBe(answers.length);
    await states.return();
  });

  it("sees that it is deleted and made anew", async () => {
    const states = open(5);
    expect((await states.next()).value).toMatchObject({ exists: true, value: { n: 0 } });
    await subject.delete();
    expect((await states.next()).value).toEqual({ exists: false });
    await subject.store(0);
    expect((await states.next()).value).toMatchObject({ exists: true, value: { n: 0 } });
    await states.return();
  });

  it("outlasts a service that is busy", async () => {
    const states = open(5);
    await states.next();
    subject.proxy.reset([respondWith(503, { times: 30 })]);
    await subject.store(1);
    expect((await states.next()).value).toMatchObject({ value: { n: 1 } });
    expect(subject.proxy.faultCount()).toBe(30);
    await states.return();
  });

  it("leaves no timer when it is aborted or returns, in the middle of a wait", async () => {
    const waits = longWaits();
    const controller = new AbortController();
    const aborted = watch(subject.client(), { pollIntervalInMs: 600_000, abortSignal: controller.signal });
    const returned = open(600_000);
    await Promise.all([aborted.next(), returned.next()]);
    const nexts = Promise.allSettled([aborted.next(), returned.next()]);
    await expect.poll(() => waits.size).toBe(2);
    controller.abort(new Error("enough"));
    await returned.return();
    expect(await nexts).toMatchObject([{ reason: { message: "enough" } }, { value: { done: true } }]);
    expect(waits.size).toBe(0);
  });
});

/** The timers of minutes that are set from now on and have not been cleared. */
function longWaits(): Set<unknown> {
  const waits = new Set<unknown>();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  vi.spyOn(globalThis, "setTimeout").mockImplementation((fn: () => void, ms?: number) => {
    const timer = set(fn, ms);
    if ((ms ?? 0) > 300_000) waits.add(timer);
    return timer;
  });
  vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => {
    waits.delete(timer);
    clear(timer);
  });
  return waits;
}
