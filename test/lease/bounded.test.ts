import { expect, it } from "vitest";
import { bounded, wasSentOnce } from "../../src/core/bounded.js";
import { startStopwatch } from "../../src/core/stopwatch.js";
import { after, deafHang, give, ok, resent, status } from "./fakes/answers.js";
import type { Answer } from "./fakes/answers.js";
import { countedAbort, outcomeOf, pass, setWallClock, suspendMachine, useFakeClock } from "./fakes/time.js";

useFakeClock();

const asking = (answer: Answer) => (signal: AbortSignal) => give(answer, signal, () => "answer");

it("gives the answer and how often it was asked for", async () => {
  await expect(bounded(100, undefined, asking(ok))).resolves.toEqual({ answer: "answer", sends: 1 });
  await expect(bounded(100, undefined, asking(resent(ok)))).resolves.toEqual({ answer: "answer", sends: 2 });
});

it("ends in time although the call takes no notice", async () => {
  const outcome = outcomeOf(bounded(100, undefined, asking(deafHang)));
  await pass(1_000);
  expect(outcome).toMatchObject({ at: 100, error: { name: "RequestTimeout" } });
});

it("aborts the call that is too late", async () => {
  let signal: AbortSignal | undefined;
  const outcome = outcomeOf(
    bounded(100, undefined, (given) => {
      signal = given;
      return give(after(500, ok), given, () => "answer");
    }),
  );
  await pass(100);
  expect(signal!.aborted).toBe(true);
  expect(outcome.at).toBe(100);
});

it("ends with the caller's reason, and takes its listener off", async () => {
  const caller = countedAbort();
  const outcome = outcomeOf(bounded(1_000, caller.signal, asking(deafHang)));
  expect(caller.listeners()).toBe(1);
  caller.abort(new Error("enough"));
  await pass(0);
  expect(outcome.error).toMatchObject({ message: "enough" });
  expect(caller.listeners()).toBe(0);
});

it("does not even call if the caller had aborted before", async () => {
  const caller = countedAbort();
  caller.abort(new Error("enough"));
  let called = false;
  await expect(
    bounded(1_000, caller.signal, () => {
      called = true;
      return Promise.resolve();
    }),
  ).rejects.toThrow("enough");
  expect(called).toBe(false);
});

it("takes a call that throws at once for one that rejects", async () => {
  const caller = countedAbort();
  const thrown = new Error("thrown");
  await expect(
    bounded(1_000, caller.signal, () => {
      throw thrown;
    }),
  ).rejects.toBe(thrown);
  expect(caller.listeners()).toBe(0);
});

it("knows an answer to the only request from one to the second", async () => {
  const once = await bounded(100, undefined, asking(status(409))).catch((error: unknown) => error);
  const twice = await bounded(100, undefined, asking(resent(status(409)))).catch((error: unknown) => error);
  expect(wasSentOnce(once)).toBe(true);
  expect(wasSentOnce(twice)).toBe(false);
  expect(wasSentOnce(new Error("of somebody else"))).toBe(false);
  expect(wasSentOnce("no object")).toBe(false);
});

it("measures the larger of the two clocks", async () => {
  const watch = startStopwatch();
  await pass(100);
  expect(watch.elapsedInMs()).toBeCloseTo(100, 6);
  setWallClock(-1_000);
  expect(watch.elapsedInMs()).toBeCloseTo(100, 6);
  suspendMachine(5_000);
  expect(watch.elapsedInMs()).toBeCloseTo(4_100, 6);
});
