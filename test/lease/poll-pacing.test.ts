import { beforeEach, describe, expect, it, vi } from "vitest";
import { PollPacing } from "../../src/lease/poll-pacing.js";
import { acquireLease } from "../../src/lease/with-lease.js";
import { run } from "../lock/support.js";
import { resent, status } from "./fakes/answers.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();
beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0.5); // neither sooner nor later
});

const usual = 1_000 / 1.5;

/** `durationInMs`: of the lease that is waited for. */
async function waited(ms: number, durationInMs = 60_000): Promise<PollPacing> {
  const pace = new PollPacing(durationInMs);
  await pass(ms);
  return pace;
}

describe("the pace of polls for a lease that another client holds", () => {
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

  it.each([
    [15_000, 7_500],
    [30_000, 15_000],
    [60_000, 30_000],
    [Infinity, 30_000],
  ])("of a lease of %s ms is never slower than once in %s ms: half of its duration", async (durationInMs, expected) => {
    const pace = await waited(600_000, durationInMs);
    for (let i = 0; i < 100; i++) pace.polled("timedOut");
    expect(pace.nextPollInMs()).toBe(expected);
  });

  it("costs nobody more time than it has waited, and nothing at the first poll", async () => {
    const pace = await waited(0);
    for (let i = 0; i < 10; i++) pace.polled("timedOut");
    expect(pace.nextPollInMs()).toBe(50);
    await pass(3_000);
    expect(pace.nextPollInMs()).toBe(3_000);
  });

  it("is the usual one after a few good polls, however long the disturbance was", async () => {
    const pace = await waited(600_000);
    for (let i = 0; i < 100; i++) pace.polled("timedOut");
    for (let good = 1; good <= 6; good++) {
      pace.polled("ok");
      expect(pace.nextPollInMs()).toBeCloseTo(Math.min(30_000, 2 ** (6 - good) * usual));
    }
    pace.polled("ok");
    expect(pace.nextPollInMs()).toBeCloseTo(usual);
  });

  it("slows a waiter down for a minute at most, if five polls were sent twice each", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const holder = outcomeOf(acquireLease(server.blob()));
    await pass(60_000);
    const waiter = outcomeOf(acquireLease(server.blob()));
    await pass(30_000);
    let disturbed = 0;
    server.intercept = (operation) => (operation === "acquire" && disturbed++ < 5 ? resent(status(409, "LeaseAlreadyPresent")) : undefined);
    await pass(60_000);
    expect(disturbed).toBeGreaterThan(5);
    const released = elapsed();
    await run(holder.value!.release());
    await pass(20_000);
    expect(waiter.at! - released).toBeLessThan(1_010);
    await run(waiter.value!.release());
  });
});
