import { afterEach, describe, expect, it, vi } from "vitest";
import { hang } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { candidate } from "./candidate.js";
import type { Candidate } from "./candidate.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();

const blob = "locks/scheduler";

/** Work that takes no notice of its signal until it is told to end. */
function stubborn(): { work: () => Promise<void>; end: () => void } {
  let resolve: (() => void) | undefined;
  return { work: () => new Promise<void>((r) => (resolve = r)), end: () => resolve?.() };
}

const renewals = (server: FakeLeaseServer): number => server.requests.filter(({ operation }) => operation === "renew").length;

describe("work that awaits the end of its own term", () => {
  it.each<[string, (it: Candidate) => Promise<void>, string]>([
    ["resign", ({ election }) => election.resign(), "resigned"],
    ["stop", ({ election }) => election.stop(), "stopped"],
    ["stop without a limit", ({ election }) => election.stop({ drainTimeoutInMs: Infinity }), "stopped"],
    ["asyncDispose", ({ election }) => election[Symbol.asyncDispose](), "stopped"],
  ])("goes on at once with an aborted signal, and the lease is released when it ends: %s", async (_, end, reason) => {
    const server = new FakeLeaseServer();
    const seen: unknown[] = [];
    const it: Candidate = candidate(server, {
      drainTimeoutInMs: Infinity,
      cooldownInMs: 100_000,
      onElected: async ({ signal }) => {
        await later(50);
        await end(it);
        seen.push(signal.aborted, server.isLeased(blob));
        await later(60);
      },
    });
    void it.election.start();
    await pass(100);
    expect(seen).toEqual([true, true]);
    expect(it.ended).toEqual([]);
    await pass(20);
    expect(it.ended).toEqual([{ epoch: it.terms[0]!.epoch, reason }]);
    expect(server.isLeased(blob)).toBe(false);
    expect(it.errors).toEqual([]);
    await run(it.election.stop());
  });

  it("goes on also if the term was over before: lost, or ended by another caller", async () => {
    const server = new FakeLeaseServer();
    const calls: string[] = [];
    const it: Candidate = candidate(server, {
      drainTimeoutInMs: Infinity,
      onElected: async ({ signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        await it.election.resign();
        calls.push("resigned");
        await it.election.stop();
        calls.push("stopped");
      },
    });
    void it.election.start();
    await pass(20);
    const outside = outcomeOf(it.election.resign());
    await pass(20);
    expect(calls).toEqual(["resigned", "stopped"]);
    expect(outside.at).toBeDefined();
    expect(it.ended).toMatchObject([{ reason: "resigned" }]);
    expect([it.election.isRunning, server.isLeased(blob)]).toEqual([false, false]);
  });

  it("is told of wrong options, which end nothing", async () => {
    const server = new FakeLeaseServer();
    let failure: unknown;
    const it: Candidate = candidate(server, {
      onElected: async () => {
        failure = await it.election.stop({ drainTimeoutInMs: -1 }).catch((error: unknown) => error);
      },
    });
    void it.election.start();
    await pass(20);
    expect(failure).toBeInstanceOf(RangeError);
    expect([it.election.isRunning, it.election.isLeader]).toEqual([true, true]);
    await run(it.election.stop());
  });

  it("does not mean what it started and left behind: once the work has ended, a caller waits for the release", async () => {
    const server = new FakeLeaseServer();
    let leased: boolean | undefined;
    const it: Candidate = candidate(server, {
      cooldownInMs: 100_000,
      onElected: () => {
        void later(50).then(async () => {
          await it.election.resign();
          leased = server.isLeased(blob);
        });
      },
    });
    void it.election.start();
    await pass(100);
    expect(leased).toBe(false);
    await run(it.election.stop());
  });

  it("does not mean other callers: they wait for the work and the release", async () => {
    const server = new FakeLeaseServer();
    const it: Candidate = candidate(server, {
      onElected: async () => {
        await it.election.resign();
        await later(500);
      },
    });
    void it.election.start();
    await pass(20);
    const outside = outcomeOf(it.election.stop());
    await pass(400);
    expect(outside.at).toBeUndefined();
    await pass(200);
    expect(outside.at).toBeDefined();
    expect(server.isLeased(blob)).toBe(false);
  });

  it("is rejected if it waits for the lock of the election, which it holds itself", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const { election, errors } = candidate(server, { onElected: () => locks.withLock("scheduler", () => undefined) }, locks);
    void election.start();
    await pass(20);
    expect(errors).toMatchObject([{ name: "TypeError" }]);
    expect((errors[0] as Error).message).toContain('BlobLocks.withLock would wait forever: the LeaderElection around it holds the lock "scheduler"');
    await run(election.stop());
  });
});

describe("where there is no async context, work that awaits the end of its own term", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.resetModules();
  });

  it.each(["resign", "stop"] as const)("goes on after the drain timeout, and the lease is released: %s", async (method) => {
    vi.stubGlobal("process", { ...process, getBuiltinModule: undefined });
    vi.resetModules();
    const { LeaderElection } = await import("../../src/lock/leader-election.js");
    const { BlobLocks } = await import("../../src/lock/blob-locks.js");
    const server = new FakeLeaseServer();
    let wentOn: number | undefined;
    const election = new LeaderElection(new BlobLocks(server.container()), "scheduler", async () => {
      await election[method]();
      wentOn = elapsed();
    }, { drainTimeoutInMs: 3_000, cooldownInMs: 100_000 });
    const reasons: string[] = [];
    election.on("ended", ({ reason }) => reasons.push(reason)).on("error", () => undefined);
    void election.start();
    await pass(2_900);
    expect(wentOn).toBeUndefined();
    await pass(200);
    expect(wentOn).toBeGreaterThanOrEqual(3_000);
    expect(reasons).toEqual(["abandoned"]);
    expect(server.isLeased(blob)).toBe(false);
    await run(election.stop());
  });
});

describe("work that takes no notice of its signal", () => {
  it("is abandoned after the drain timeout: the lease expires, another candidate leads, and both events tell of it", async () => {
    const server = new FakeLeaseServer();
    const { work, end } = stubborn();
    const first = candidate(server, { onElected: work, drainTimeoutInMs: 10_000, cooldownInMs: 0 });
    const second = candidate(server);
    void first.election.start();
    await pass(20);
    void second.election.start();
    await pass(980);
    const resigned = outcomeOf(first.election.resign());
    await pass(9_990);
    expect([resigned.at, first.ended, first.errors]).toEqual([undefined, [], []]);
    await pass(20);
    expect(resigned.at).toBe(11_000);
    const { epoch } = first.terms[0]!;
    expect(first.ended).toEqual([{ epoch, reason: "abandoned" }]);
    expect(first.errors).toMatchObject([{ code: "OPERATION_TIMEOUT", committed: "unknown", elapsedInMs: 10_000 }]);
    expect((first.errors[0] as Error).message).toMatch(new RegExp(`"scheduler" \\(epoch ${epoch}\\).* 10000 ms .*drainTimeoutInMs`));
    // Whoever still works does not believe to be the leader.
    expect(first.terms[0]!.signal.aborted).toBe(true);
    expect(() => first.terms[0]!.assertHeld()).toThrow();
    expect([first.election.isLeader, server.isLeased(blob)]).toEqual([false, true]);
    const before = renewals(server);
    await pass(33_000);
    expect(second.election.isLeader).toBe(true);
    expect(second.terms).toHaveLength(1);
    expect(second.terms[0]!.epoch).toBeGreaterThan(epoch);
    expect(server.requests.filter(({ operation, at }) => operation === "renew" && at > 11_010 && at < 40_000)).toHaveLength(0);
    expect(before).toBeGreaterThan(0);
    end();
    await run(Promise.all([first.election.stop(), second.election.stop()]));
    expect(first.ended).toHaveLength(1);
  });

  it("keeps its candidate out of the election until it has ended, also after a restart", async () => {
    const server = new FakeLeaseServer();
    const { work, end } = stubborn();
    const { election, terms, ended } = candidate(server, { onElected: work, drainTimeoutInMs: 1_000, cooldownInMs: 0 });
    void election.start();
    await pass(20);
    await run(election.resign(), 1_100);
    await pass(60_000);
    expect([terms.length, server.isLeased(blob)]).toEqual([1, false]);
    await run(election.stop());
    await run(election.start());
    await pass(60_000);
    expect([terms.length, server.isLeased(blob)]).toEqual([1, false]);
    end();
    await pass(20);
    expect([terms.length, election.isLeader]).toEqual([2, true]);
    end();
    await run(election.stop());
    expect(ended.map(({ reason }) => reason)).toEqual(["abandoned", "stopped"]);
  });

  it("gives the lease back at once if it ends after it was abandoned, and before the lease has expired", async () => {
    const server = new FakeLeaseServer();
    const { work, end } = stubborn();
    const { election } = candidate(server, { onElected: work, drainTimeoutInMs: 1_000, cooldownInMs: 100_000 });
    void election.start();
    await pass(20);
    await run(election.resign(), 1_100);
    expect(server.isLeased(blob)).toBe(true);
    end();
    await pass(10);
    expect(server.isLeased(blob)).toBe(false);
    await run(election.stop());
  });

  it("hands no lease on that is not renewed: another candidate of the process acquires its own", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const { work, end } = stubborn();
    const first = candidate(server, { onElected: work, drainTimeoutInMs: 1_000, cooldownInMs: 100_000 }, locks);
    const second = candidate(server, {}, locks);
    void first.election.start();
    await pass(20);
    void second.election.start();
    await run(first.election.resign(), 1_100);
    expect(second.election.isLeader).toBe(false);
    end();
    await pass(2_000);
    expect(second.election.isLeader).toBe(true);
    await pass(60_000);
    expect(second.terms).toHaveLength(1);
    expect(second.election.isLeader).toBe(true);
    await run(Promise.all([first.election.stop(), second.election.stop()]));
  });

  it("is told of also if the lease was lost: another leader may work by then", async () => {
    const server = new FakeLeaseServer();
    const { work, end } = stubborn();
    const { election, terms, ended, errors } = candidate(server, { onElected: work, drainTimeoutInMs: 2_000 });
    void election.start();
    await pass(20);
    server.intercept = (operation) => (operation === "renew" ? hang : undefined);
    await pass(28_600);
    expect(terms[0]!.signal.reason).toMatchObject({ name: "LeaseLostError" });
    expect(ended).toEqual([]);
    await pass(2_000);
    expect(ended).toEqual([{ epoch: terms[0]!.epoch, reason: "abandoned" }]);
    expect(errors).toHaveLength(1);
    server.intercept = undefined;
    end();
    await run(election.stop());
  });

  it.each([
    [undefined, undefined, 25_000],
    [4_000, undefined, 4_000],
    [4_000, 1_000, 1_000],
    [4_000, 9_000, 9_000],
  ])("is abandoned by stop after the drain timeout (option %s, call %s)", async (option, call, expected) => {
    const server = new FakeLeaseServer();
    const { work, end } = stubborn();
    const { election, ended, terms } = candidate(server, { onElected: work, drainTimeoutInMs: option });
    void election.start();
    await pass(20);
    const stopped = outcomeOf(election.stop({ drainTimeoutInMs: call }));
    await pass(expected - 1);
    expect([stopped.at, ended]).toEqual([undefined, []]);
    await pass(1);
    expect(stopped.at).toBe(20 + expected);
    expect(ended).toEqual([{ epoch: terms[0]!.epoch, reason: "abandoned" }]);
    expect([election.isRunning, election.isLeader]).toEqual([false, false]);
    await pass(31_000);
    expect(server.isLeased(blob)).toBe(false);
    end();
    await pass(10);
    expect(ended).toHaveLength(1);
  });

  it("keeps its lease for as long as it runs if there is no drain timeout", async () => {
    const server = new FakeLeaseServer();
    const { work, end } = stubborn();
    const { election, ended, terms } = candidate(server, { onElected: work, drainTimeoutInMs: Infinity });
    void election.start();
    await pass(20);
    const stopped = outcomeOf(election.stop());
    await pass(3_600_000);
    expect([stopped.at, ended, server.isLeased(blob)]).toEqual([undefined, [], true]);
    end();
    await pass(10);
    expect(stopped.at).toBeDefined();
    expect([ended, server.isLeased(blob)]).toEqual([[{ epoch: terms[0]!.epoch, reason: "stopped" }], false]);
  });

  it("is not waited for when it throws after it was abandoned", async () => {
    const server = new FakeLeaseServer();
    let fail: ((error: Error) => void) | undefined;
    const { election, errors } = candidate(server, { onElected: (): Promise<void> => new Promise((_, reject) => (fail = reject)), drainTimeoutInMs: 100, cooldownInMs: 100_000 });
    void election.start();
    await pass(20);
    await run(election.resign(), 200);
    fail!(new Error("late"));
    await pass(10);
    expect(errors).toHaveLength(1);
    expect(server.isLeased(blob)).toBe(false);
    await run(election.stop());
  });
});

