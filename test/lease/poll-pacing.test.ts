import { beforeEach, describe, expect, it, vi } from "vitest";
import { PollPacing } from "../../src/lease/poll-pacing.js";
import { pass, useFakeClock } from "./fakes/time.js";

useFakeClock();
beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0.5); // neither sooner nor later
});

const usual = 1_000 / 1.5;

async function waited(ms: number): Promise<PollPacing> {
  const pace = new PollPacing();
  await pass(ms);
  return pace;
}

describe("the pace of looks at a lease that somebody else holds", () => {
  it("is a tenth of the time waited, up to the usual one, as long as all is well", async () => {
    const pace = await waited(0);
    expect(pace.nextPollInMs()).toBe(50);
    await pass(5_000);
    pace.polled("ok");
    expect(pace.nextPollInMs()).toBe(500);
    await pass(60_000);
    expect(pace.nextPollInMs()).toBeCloseTo(usual);
  });

  it("halves when a request had to be sent again, and quarters when there was no answer", async () => {
    const pace = await waited(600_000);
    pace.polled("retried");
    expect(pace.nextPollInMs()).toBeCloseTo(2 * usual);
    pace.polled("timedOut");
    expect(pace.nextPollInMs()).toBeCloseTo(8 * usual);
  });

  it("is never slower than once in three quarters of a minute", async () => {
    const pace = await waited(600_000);
    for (let i = 0; i < 100; i++) pace.polled("timedOut");
    expect(pace.nextPollInMs()).toBeCloseTo(64 * usual);
  });

  it("costs nobody more time than it has waited, and nothing at the first look", async () => {
    const pace = await waited(0);
    for (let i = 0; i < 10; i++) pace.polled("timedOut");
    expect(pace.nextPollInMs()).toBe(50);
    await pass(3_000);
    expect(pace.nextPollInMs()).toBe(3_000);
  });

  it("comes back step by step when the crowd is gone", async () => {
    const pace = await waited(600_000);
    pace.polled("timedOut");
    const slow = pace.nextPollInMs();
    pace.polled("ok");
    expect(pace.nextPollInMs()).toBeCloseTo(slow * 0.98);
    for (let i = 0; i < 100; i++) pace.polled("ok");
    expect(pace.nextPollInMs()).toBeCloseTo(usual);
  });
});
