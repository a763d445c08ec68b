import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { LeaderElection } from "../../src/lock/leader-election.js";
import type { LeadershipTerm } from "../../src/lock/term.js";
import { hang, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { abortTime, blockEventLoop, elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { candidate } from "./candidate.js";
import type { Candidate } from "./candidate.js";
import { fromFirst, isStrictlyIncreasing, later, locksOn, run } from "./support.js";

useFakeClock();

const untilAborted = ({ signal }: LeadershipTerm): Promise<void> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve()));

describe("a term", () => {
  it("begins with the election, has its epoch, and goes on after the work has ended", async () => {
    const server = new FakeLeaseServer();
    const { election, terms, errors } = candidate(server);
    expect(election.isLeader).toBe(false);
    void election.start();
    await pass(20);
    expect(election.isLeader).toBe(true);
    expect(terms).toMatchObject([{ epoch: Number(server.blobs.get("locks/scheduler")!.metadata["asc_epoch"]) }]);
    await pass(60_000);
    terms[0]!.assertHeld();
    expect(election.isLeader).toBe(true);
    await run(election.stop());
    expect(election.isLeader).toBe(false);
    expect(() => terms[0]!.assertHeld()).toThrow("stopped");
    expect(errors).toEqual([]);
  });

  it("is one at a time, over all processes", async () => {
    const server = new FakeLeaseServer();
    const all = Array.from({ length: 3 }, () => candidate(server));
    for (const { election } of all) void election.start();
    const epochs: number[] = [];
    for (let round = 0; round < 6; round++) {
      await pass(3_000);
      const leaders = all.filter(({ election }) => election.isLeader);
      expect(leaders).toHaveLength(1);
      epochs.push(leaders[0]!.terms.at(-1)!.epoch);
      await run(leaders[0]!.election.resign());
    }
    expect(epochs).toHaveLength(6);
    expect(epochs).toSatisfy(isStrictlyIncreasing);
    await run(Promise.all(all.map(({ election }) => election.stop())));
  });

  it("ends before the lease can be another's when the service does not answer, and the next leader follows within the duration", async () => {
    const server = new FakeLeaseServer();
    const first = candidate(server, { onElected: untilAborted });
    void first.election.start();
    await pass(20);
    const aborted = abortTime(first.terms[0]!.signal);
    const second = candidate(server);
    void second.election.start();
    server.intercept = (operation) => (operation === "renew" ? hang : undefined);
    await pass(28_520);
    expect(aborted.at).toBeLessThan(28_520);
    expect(first.terms[0]!.signal.reason).toMatchObject({ name: "LeaseLostError" });
    expect(first.election.isLeader).toBe(false);
    await pass(4_000);
    const leaders = [first, second].filter(({ election }) => election.isLeader);
    expect(leaders).toHaveLength(1);
    expect(leaders[0]!.terms.at(-1)!.epoch).toBeGreaterThan(first.terms[0]!.epoch);
    server.intercept = undefined;
    await run(Promise.all([first.election.stop(), second.election.stop()]), 5_000);
  });

  it("is known to be over by a leader that was stopped itself", async () => {
    const { election, terms } = candidate(new FakeLeaseServer());
    void election.start();
    await pass(20);
    blockEventLoop(29_000);
    expect(election.isLeader).toBe(false);
    expect(() => terms[0]!.assertHeld()).toThrow("lost");
    expect(terms[0]!.signal.aborted).toBe(true);
    await pass(5_000);
    expect(terms).toHaveLength(2);
    await run(election.stop());
  });

  it("is over if the work throws, which is told, and others have their turn", async () => {
    const server = new FakeLeaseServer();
    const failing = candidate(server, {
      onElected: () => {
        throw new Error("work");
      },
    });
    const other = candidate(server);
    void failing.election.start();
    await pass(20);
    void other.election.start();
    await pass(1_000);
    expect(failing.errors).toMatchObject([{ message: "work" }]);
    expect(failing.terms[0]!.signal.aborted).toBe(true);
    expect(other.election.isLeader).toBe(true);
    await run(Promise.all([failing.election.stop(), other.election.stop()]));
  });

  it("is no error if the work throws because it is over", async () => {
    const { election, errors } = candidate(new FakeLeaseServer(), {
      onElected: async (term) => {
        await untilAborted(term);
        throw term.signal.reason;
      },
    });
    void election.start();
    await pass(20);
    await run(election.stop());
    expect(errors).toEqual([]);
  });
});

describe("stop", () => {
  it("waits for the work, and only then gives the lease back", async () => {
    const server = new FakeLeaseServer();
    const { election, terms } = candidate(server, {
      onElected: async (term) => {
        await untilAborted(term);
        await later(2_000);
      },
    });
    void election.start();
    await pass(20);
    const stopped = outcomeOf(election.stop());
    await pass(1_990);
    expect(terms[0]!.signal.aborted).toBe(true);
    expect(election.isLeader).toBe(false);
    expect(stopped.at).toBeUndefined();
    expect(server.isLeased("locks/scheduler")).toBe(true);
    await pass(20);
    expect(stopped.at).toBeGreaterThanOrEqual(2_020);
    expect(server.isLeased("locks/scheduler")).toBe(false);
  });

  it("ends the wait for the lease", async () => {
    const server = new FakeLeaseServer();
    const other = await run(locksOn(server).acquire("scheduler"));
    const { election, terms, errors } = candidate(server);
    void election.start();
    await pass(2_000);
    await run(election.stop());
    const { length } = server.requests;
    await pass(5_000);
    expect(server.requests).toHaveLength(length);
    expect([terms, errors]).toEqual([[], []]);
    await run(other.release());
  });

  it("leaves no lease behind if it comes while one is being acquired", async () => {
    for (let at = 0; at <= 8; at++) {
      const server = new FakeLeaseServer();
      const { election } = candidate(server);
      const starting = outcomeOf(election.start());
      await pass(at);
      await run(election.stop());
      expect(starting.at).toBeDefined();
      await pass(20);
      expect(server.isLeased("locks/scheduler"), `stopped after ${at} ms`).toBe(false);
    }
    // Until no request can arrive late any more.
    await pass(5_000);
  });

  it("can be called at any time, and twice", async () => {
    const { election, terms } = candidate(new FakeLeaseServer());
    await election.stop();
    await election.resign();
    void election.start();
    void election.start();
    await pass(20);
    expect(terms).toHaveLength(1);
    await run(Promise.all([election.stop(), election.stop(), election.resign()]));
    await election.stop();
    expect(election.isLeader).toBe(false);
  });

  it("does not undo a start that comes after it", async () => {
    const server = new FakeLeaseServer();
    const { election, terms } = candidate(server, { onElected: untilAborted });
    void election.start();
    await pass(20);
    const stopped = outcomeOf(election.stop());
    void election.start();
    await pass(20);
    expect(stopped.at).toBeDefined();
    expect(election.isLeader).toBe(true);
    expect(fromFirst(terms.map((term) => term.epoch))).toEqual([0, 1]);
    await run(election.stop());
    void election.start();
    await pass(20);
    expect(terms).toHaveLength(3);
    await run(election.stop());
  });

  it("may be called by the work", async () => {
    const server = new FakeLeaseServer();
    const it: Candidate = candidate(server, { onElected: () => void it.election.stop() });
    void it.election.start();
    await pass(20);
    expect(it.terms).toHaveLength(1);
    expect(server.isLeased("locks/scheduler")).toBe(false);
  });
});

describe("start", () => {
  it("rejects if the container of the locks does not exist, after one request", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(404, "ContainerNotFound");
    const { election, errors } = candidate(server);
    const starting = outcomeOf(election.start());
    await pass(20);
    expect(starting.error).toMatchObject({ code: "TARGET_NOT_FOUND" });
    expect([election.isRunning, errors, server.requests.length]).toEqual([false, [], 1]);
    server.intercept = undefined;
    await run(election.start());
    expect(election.isRunning).toBe(true);
    await run(election.stop());
  });

  it("is a part of run, which ends with its signal", async () => {
    const { election, terms } = candidate(new FakeLeaseServer(), { onElected: untilAborted });
    const caller = new AbortController();
    const running = outcomeOf(election.run({ abortSignal: caller.signal }));
    await pass(100);
    expect([election.isLeader, terms.length]).toEqual([true, 1]);
    caller.abort();
    await pass(10);
    expect(running.at).toBeDefined();
    expect(election.isRunning).toBe(false);
  });
});

describe("events", () => {
  it("tell of each term: elected before the work begins, ended with the reason after the lease is released", async () => {
    const server = new FakeLeaseServer();
    const log: string[] = [];
    let first: number | undefined;
    /** 1 for the first term. */
    const nth = (epoch: number): number => epoch - (first ??= epoch) + 1;
    const { election, errors } = candidate(server, {
      cooldownInMs: 1_000,
      onElected: (term) => {
        log.push(`work ${nth(term.epoch)}`);
        if (nth(term.epoch) === 2) throw new Error("work");
      },
    });
    election.on("elected", ({ epoch, tracingOptions }) => log.push(`elected ${nth(epoch)} ${typeof tracingOptions}`));
    election.on("ended", ({ epoch, reason }) => log.push(`ended ${nth(epoch)} ${reason} ${server.isLeased("locks/scheduler")}`));
    await run(election.start());
    await run(election.resign());
    await pass(3_000);
    expect(errors).toMatchObject([{ message: "work" }]);
    server.intercept = (operation) => (operation === "renew" ? hang : undefined);
    await pass(29_000);
    server.intercept = undefined;
    await pass(5_000);
    await run(election.stop());
    expect(log.filter((entry) => entry.startsWith("ended")).map((entry) => entry.split(" ").slice(1, 3))).toEqual([
      ["1", "resigned"],
      ["2", "failed"],
      ["3", "lost"],
      ["4", "stopped"],
    ]);
    expect(log.slice(0, 3)).toEqual(["elected 1 object", "work 1", "ended 1 resigned false"]);
  });
});

describe("resign", () => {
  it("keeps the work from being started if a listener of elected calls it", async () => {
    const server = new FakeLeaseServer();
    const { election, terms, errors, ended } = candidate(server, { onElected: untilAborted, cooldownInMs: 4_000 });
    let resigned: { at?: number } = {};
    election.once("elected", () => (resigned = outcomeOf(election.resign())));
    void election.start();
    await pass(20);
    expect(resigned.at).toBeDefined();
    expect(server.isLeased("locks/scheduler")).toBe(false);
    expect(terms).toEqual([]);
    await pass(4_000);
    expect(terms).toHaveLength(1);
    expect(ended).toMatchObject([{ reason: "resigned" }]);
    expect(errors).toEqual([]);
    await run(election.stop());
  });

  it("ends the term, lets others have their turn, and comes back", async () => {
    const server = new FakeLeaseServer();
    const { election, terms } = candidate(server, { onElected: untilAborted, cooldownInMs: 4_000 });
    void election.start();
    await pass(20);
    const at = elapsed();
    await run(election.resign());
    expect(terms[0]!.signal.reason).toMatchObject({ name: "AbortError", message: "The leader resigned" });
    expect(server.isLeased("locks/scheduler")).toBe(false);
    await pass(1_900);
    expect(terms).toHaveLength(1);
    await pass(2_200);
    expect(terms).toHaveLength(2);
    expect(elapsed() - at).toBeGreaterThan(2_000);
    await run(election.stop());
  });

  it("is waited for until the lease is released, also when called twice; the work that calls it does not wait for itself", async () => {
    const server = new FakeLeaseServer();
    let byWork: { at?: number } | undefined;
    const it: Candidate = candidate(server, {
      onElected: async (term) => {
        byWork ??= outcomeOf(it.election.resign());
        expect(term.signal.aborted).toBe(true);
        await later(1_000);
      },
    });
    void it.election.start();
    await pass(20);
    const outside = outcomeOf(it.election.resign());
    await pass(900);
    expect(byWork!.at).toBeLessThan(20);
    expect([outside.at, server.isLeased("locks/scheduler")]).toEqual([undefined, true]);
    await pass(200);
    expect(outside.at).toBeGreaterThan(1_000);
    expect(server.isLeased("locks/scheduler")).toBe(false);
    await run(it.election.stop());
  });
});

describe("trouble", () => {
  it("is told, and the candidate goes on trying", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation) => (operation === "properties" ? undefined : status(403));
    const { election, errors } = candidate(server, { cooldownInMs: 1_000 });
    void election.start();
    await pass(3_500);
    expect(errors.length).toBeGreaterThanOrEqual(3);
    expect(errors.length).toBeLessThanOrEqual(8);
    expect(errors[0]).toMatchObject({ statusCode: 403 });
    server.intercept = undefined;
    await pass(1_100);
    expect(election.isLeader).toBe(true);
    await run(election.stop());
  });

  it("is survived by the election if its listeners throw as well", async () => {
    const server = new FakeLeaseServer();
    const { election, terms } = candidate(server, { cooldownInMs: 100, onElected: () => Promise.reject(new Error("work")) });
    for (const event of ["elected", "ended", "error"] as const) {
      election.on(event, () => {
        throw new Error("listener");
      });
    }
    void election.start();
    await pass(1_000);
    expect(terms.length).toBeGreaterThan(2);
    await run(election.stop());
    expect(server.isLeased("locks/scheduler")).toBe(false);
  });

  it("does not come from defaults of the locks that suit no election", async () => {
    const server = new FakeLeaseServer();
    const other = await run(locksOn(server).acquire("scheduler"));
    const locks = new BlobLocks(server.container(), { defaults: { waitInMs: 100, autoRenew: false, durationInSeconds: 60 } });
    const { election, errors } = candidate(server, {}, locks);
    void election.start();
    await pass(5_000);
    expect(errors).toEqual([]);
    await run(other.release());
    await pass(120_000);
    expect(election.isLeader).toBe(true);
    expect(errors).toEqual([]);
    const renewals = server.requests.filter((request) => request.operation === "renew").map((request) => request.at);
    expect(renewals.at(-1)! - renewals.at(-2)!).toBe(20_000);
    await run(election.stop());
  });

  it("is found out by the constructor where it can be", () => {
    const locks = locksOn(new FakeLeaseServer());
    const onElected = (): void => undefined;
    expect(() => new LeaderElection(locks, "a", { onElected } as unknown as typeof onElected)).toThrow(/onElected must be a function/);
    expect(() => new LeaderElection({} as typeof locks, "a", onElected)).toThrow(/needs BlobLocks/);
    expect(() => new LeaderElection(locks, "", onElected)).toThrow(RangeError);
    expect(() => new LeaderElection(locks, "a", onElected, { durationInSeconds: 14 })).toThrow(RangeError);
    expect(() => new LeaderElection(locks, "a", onElected, { cooldownInMs: -1 })).toThrow(RangeError);
    expect(() => new LeaderElection(locks, "a", onElected, { drainTimeoutInMs: -1 })).toThrow(RangeError);
    expect(() => new LeaderElection(locks, "a", onElected, { onError: onElected } as object)).toThrow(/unknown option "onError"/);
  });
});
