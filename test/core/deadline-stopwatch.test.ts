import { expect, it } from "vitest";
import { startStopwatch } from "../../src/core/deadline.js";
import { pass, setWallClock, suspendMachine, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

it("shows the larger of monotonic and wall-clock time", async () => {
  const elapsedInMs = startStopwatch();
  await pass(100);
  expect(elapsedInMs()).toBeCloseTo(100, 6);
  setWallClock(-1_000);
  expect(elapsedInMs()).toBeCloseTo(100, 6);
  suspendMachine(5_000);
  expect(elapsedInMs()).toBeCloseTo(4_100, 6);
});
