import { describe, expect, it } from "vitest";
import type { LeaderElection } from "../../src/lock/leader-election.js";
import { deafHang, hang, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { countedAbort, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { candidate } from "./candidate.js";
import { locksOn, run } from "./support.js";

useFakeClock();

describe("observe", () => {
  interface Seen {
    state: string;
    epoch: number | undefined;
    isSelf: boolean;
  }

  function watch(election: LeaderElection): { seen: Seen[]; stop: () => Promise<void>; ended: { at?: number; error?: unknown } } {
    const caller = countedAbort();
    const seen: Seen[] = [];
    const ended = outcomeOf(
      (async () => {
        for await (const { state, epoch, isSelf } of election.observe({ abortSignal: caller.signal, pollIntervalInMs: 100 })) seen.push({ state, epoch, isSelf });
      })(),
    );
    const stop = async (): Promise<void> => {
      expect(caller.listeners()).toBeLessThanOrEqual(1);
      caller.abort();
      await pass(1);
      expect(ended.at).toBeDefined();
      expect(ended.error).toBeUndefined();
    };
    return { seen, stop, ended };
  }

  it("tells of each change once, and who is meant", async () => {
    const server = new FakeLeaseServer();
    const first = candidate(server, { cooldownInMs: 60_000 });
    const second = candidate(server);
    const here = watch(first.election);
    await pass(550); // between two polls
    void first.election.start();
    await pass(1_000);
    void second.election.start();
    await pass(1_000);
    await run(first.election.resign());
    await pass(2_000);
    const [before, after] = [first, second].map(({ terms }) => terms[0]!.epoch);
    expect(after).toBeGreaterThan(before!);
    expect(here.seen.filter(({ state }) => state === "leased")).toEqual([
      { state: "leased", epoch: before, isSelf: true },
      { state: "leased", epoch: after, isSelf: false },
    ]);
    expect(here.seen[0]).toEqual({ state: "available", epoch: undefined, isSelf: false });
    const { length } = here.seen;
    await pass(10_000);
    expect(here.seen).toHaveLength(length);
    await here.stop();
    await run(Promise.all([first.election.stop(), second.election.stop()]));
  });

  it("knows itself also if the lease was handed on within the process", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const other = candidate(server, {}, locks);
    const it = candidate(server, {}, locks);
    void other.election.start();
    void it.election.start();
    await pass(20);
    const here = watch(it.election);
    await pass(200);
    expect(here.seen).toEqual([{ state: "leased", epoch: other.terms[0]!.epoch, isSelf: false }]);
    await run(other.election.stop());
    await pass(200);
    expect(here.seen.at(-1)).toEqual({ state: "leased", epoch: it.terms[0]!.epoch, isSelf: true });
    await here.stop();
    await run(it.election.stop());
  });

  it("tells somebody else of a hand-over from one to the other within a process", async () => {
    const server = new FakeLeaseServer();
    const shared = locksOn(server);
    const [first, second] = [candidate(server, {}, shared), candidate(server, {}, shared)];
    void first.election.start();
    void second.election.start();
    await pass(20);
    const here = watch(candidate(server).election);
    await pass(200);
    await run(first.election.stop());
    await pass(200);
    const { epoch } = first.terms[0]!;
    expect(second.terms).toMatchObject([{ epoch: epoch + 1 }]);
    expect(here.seen).toEqual([
      { state: "leased", epoch, isSelf: false },
      { state: "leased", epoch: epoch + 1, isSelf: false },
    ]);
    await here.stop();
    await run(second.election.stop());
  });

  it("goes on after failures that pass, and tells of no change where there was none", async () => {
    const server = new FakeLeaseServer();
    const here = watch(candidate(server).election);
    await pass(500);
    server.intercept = () => status(503);
    await pass(9_000);
    server.intercept = undefined;
    await pass(5_000);
    server.intercept = () => status(503);
    await pass(9_000);
    expect(here.seen).toEqual([{ state: "available", epoch: undefined, isSelf: false }]);
    await here.stop();
  });

  it("throws a failure that might have passed after ten seconds of them", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(503);
    const here = watch(candidate(server).election);
    await pass(12_000);
    expect(here.ended.error).toMatchObject({ statusCode: 503 });
    expect(here.ended.at).toBeGreaterThanOrEqual(10_000);
  });

  it("ends when aborted in the middle of a look, and at once if it had been before", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => hang;
    const { election } = candidate(server);
    const here = watch(election);
    await pass(50);
    await here.stop();
    const { length } = server.requests;
    for await (const info of election.observe({ abortSignal: AbortSignal.abort() })) expect(info).toBeUndefined();
    expect(server.requests).toHaveLength(length);
  });

  it("throws what a look failed with", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(403);
    const here = watch(candidate(server).election);
    await pass(10);
    expect(here.ended.error).toMatchObject({ statusCode: 403 });
  });

  it("ends when its iterator returns, without waiting for the next poll or for the response to one", async () => {
    const server = new FakeLeaseServer();
    const caller = countedAbort();
    for (const hangs of [false, true]) {
      const polls = candidate(server).election.observe({ pollIntervalInMs: 60_000, abortSignal: caller.signal });
      expect(caller.listeners()).toBe(0);
      await run(polls.next());
      if (hangs) server.intercept = () => hang;
      const next = outcomeOf(polls.next());
      await pass(hangs ? 60_000 : 100);
      expect(next.at).toBeUndefined();
      const returned = outcomeOf(polls.return!());
      await pass(1);
      expect(next.value).toEqual({ done: true, value: undefined });
      expect(returned.value).toEqual({ done: true, value: undefined });
      expect(caller.listeners()).toBe(0);
    }
  });

  it("gives up a poll without a response, continues with the next, and throws after ten seconds of them", async () => {
    const server = new FakeLeaseServer();
    const polls = candidate(server).election.observe({ pollIntervalInMs: 1_000, tryTimeoutInMs: 2_000 });
    let answers = false;
    server.intercept = () => (answers ? undefined : deafHang);
    const first = outcomeOf(polls.next());
    await pass(5_000);
    expect(server.requests).toHaveLength(2);
    answers = true;
    await pass(1_100);
    expect(first.value).toMatchObject({ done: false, value: { state: "available" } });
    answers = false;
    const second = outcomeOf(polls.next());
    await pass(14_000);
    expect(second.at).toBeUndefined();
    await pass(2_000);
    expect(second.error).toMatchObject({ code: "OPERATION_TIMEOUT" });
  });

  it("gives up a poll after eight seconds unless told otherwise", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => deafHang;
    const polls = candidate(server).election.observe();
    const next = outcomeOf(polls.next());
    await pass(9_100);
    // A poll repeats a try without a response within its time.
    expect(server.requests.map(({ at }) => at)).toEqual([0, 7_501, 9_000]);
    await run(polls.return!().then(() => undefined));
    expect(next.value).toEqual({ done: true, value: undefined });
  });

  it("rejects at the first poll with an unknown option", async () => {
    const { election } = candidate(new FakeLeaseServer());
    await expect(election.observe({ intervalInMs: 5 } as object).next()).rejects.toThrow(/unknown option "intervalInMs"/);
    await expect(election.observe({ tryTimeoutInMs: 0 }).next()).rejects.toThrow(RangeError);
  });

  it("leaves nothing behind when its reader stops reading", async () => {
    const { election } = candidate(new FakeLeaseServer());
    const reading = (async () => {
      for await (const info of election.observe()) return info.state;
      return undefined;
    })();
    await expect(run(reading)).resolves.toBe("available");
  });
});
