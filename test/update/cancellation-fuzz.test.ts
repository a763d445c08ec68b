import { afterEach, beforeEach, describe as group, expect, it, vi } from "vitest";

import { type Random, randomFrom } from "../../integration/chaos/random.js";
import { countingController } from "../support/counting-signal.js";
import { type Call, drawCall, type Kind, kinds, makeCall } from "./cancellation/calls.js";
import { describe, examine } from "./cancellation/examine.js";
import { clientsOf } from "./cancellation/fakes.js";
import { addTokenByHand } from "./cancellation/hand-written.js";
import { UnreliableService } from "./cancellation/unreliable-service.js";

/*
 * Each round has a seed of its own, which a failure prints. `CANCELLATION_SEED=<seed> CANCELLATION_ROUNDS=1` repeats it exactly:
 * time, network and jitter are simulated. `CANCELLATION_ROUNDS=1000` searches for more.
 */
const firstSeed = Number(process.env["CANCELLATION_SEED"] ?? 230);
const rounds = Number(process.env["CANCELLATION_ROUNDS"] ?? 70);
const callsPerRound = 30;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

interface RoundResult {
  readonly calls: readonly Call[];
  readonly problems: readonly string[];
}

/** `make`: instead of the library. */
async function runRound(seed: number, make: typeof makeCall = makeCall): Promise<RoundResult> {
  const random = randomFrom(seed);
  const jitter = random.fork("jitter");
  vi.spyOn(Math, "random").mockImplementation(() => jitter.next());
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): unknown => unhandled.push(reason);
  process.on("unhandledRejection", onUnhandled);
  const services = { blobs: new UnreliableService(random.fork("blobs")), tables: new UnreliableService(random.fork("tables")) };
  const processes = [clientsOf(services), clientsOf(services), clientsOf(services)] as const;
  const [direct] = processes;
  direct.list.put({ tokens: [] });
  direct.mixed.put({ tokens: [] });
  for (const row of ["a", "b"]) direct.table.put({ tokens: { type: "String", value: "" } }, "p", row);
  direct.log.put();
  services.blobs.makeUnreliable();
  services.tables.makeUnreliable();

  const { kindsOfRound, processesOfRound, windowInMs } = drawRound(random.fork("round"));
  const calls = Array.from({ length: callsPerRound }, (_, i) => drawCall(random, `t${i}`, random.pick(kindsOfRound)));
  let left = calls.length;
  const signals: ReturnType<typeof countingController>[] = [];
  for (const call of calls) {
    const own = random.fork(call.token);
    const stop = countingController();
    signals.push(stop);
    setTimeout(() => {
      scheduleAbort(own, stop);
      void make(call, processes[own.between(0, processesOfRound - 1)]!, own, stop.signal).then(() => left--);
    }, own.between(0, windowInMs));
  }
  await passUntil(() => left === 0, 120_000);
  const unsettled = calls.filter(({ outcome }) => outcome === undefined);
  // Requests that are still on the network arrive, leases end, and what the library does in the background ends.
  await vi.advanceTimersByTimeAsync(180_000);
  process.off("unhandledRejection", onUnhandled);

  const timers = vi.getTimerCount();
  const listeners = signals.reduce((sum, signal) => sum + signal.listeners(), 0);
  const late = calls.filter(({ tookInMs = 0, timeoutInMs, kind }) => tookInMs > timeoutInMs + (kind === "leasedUpdate" ? 30_000 : 100));
  return {
    calls,
    problems: [
      ...examine(calls, services, direct),
      ...unsettled.map((call) => `${describe(call)}: it never ended`),
      ...late.map((call) => `${describe(call)}: it ended too late`),
      ...unhandled.map((reason) => `unhandled rejection: ${String(reason)}`),
      ...(timers > 0 ? [`${timers} timers are left`] : []),
      ...(listeners > 0 ? [`${listeners} listeners are left on the signals of the callers`] : []),
    ].map((problem) => `seed ${seed}: ${problem}`),
  };
}

/** In some rounds the calls of one process share requests and wait for the functions of each other; in others they compete. */
function drawRound(random: Random): { kindsOfRound: readonly [Kind, ...Kind[]]; processesOfRound: number; windowInMs: number } {
  const windowInMs = random.pick([30, 200, 600]);
  if (random.next() < 0.6) return { kindsOfRound: kinds, processesOfRound: random.between(1, 3), windowInMs };
  return { kindsOfRound: [random.pick<Kind>(["optimisticUpdate", "update entity", "runTransaction"])], processesOfRound: 1, windowInMs };
}

/** Some callers abort, a few before they call. */
function scheduleAbort(random: Random, stop: { abort(reason: unknown): void }): void {
  const reason = new Error("the caller left");
  const chance = random.next();
  if (chance < 0.03) stop.abort(reason);
  else if (chance < 0.3) setTimeout(() => stop.abort(reason), random.pick([random.between(0, 30), random.between(0, 300), random.between(0, 5_000)]));
}

async function passUntil(isOver: () => boolean, limitInMs: number): Promise<void> {
  const end = performance.now() + limitInMs;
  while (!isOver() && performance.now() < end) {
    // Without a timer, only time can pass.
    if (vi.getTimerCount() > 0) await vi.advanceTimersToNextTimerAsync();
    else await vi.advanceTimersByTimeAsync(1_000);
  }
}

group("calls that are aborted, time out, throw and hang, on a network that loses and delays requests", () => {
  it(`are told nothing that contradicts what is stored: ${rounds * callsPerRound} calls from seed ${firstSeed} on`, { timeout: 10_000 + rounds * 500 }, async () => {
    const problems: string[] = [];
    const outcomes = new Map<string, number>();
    for (let round = 0; round < rounds; round++) {
      const result = await runRound(firstSeed + round);
      problems.push(...result.problems);
      for (const { kind, outcome = "none" } of result.calls) outcomes.set(`${kind} ${outcome}`, (outcomes.get(`${kind} ${outcome}`) ?? 0) + 1);
    }
    expect(problems).toEqual([]);
    // Each kind of call had each outcome: otherwise this shows nothing.
    if (rounds < 50) return;
    for (const kind of kinds) for (const outcome of ["resolved", "nothing written", "unknown"]) expect(outcomes.get(`${kind} ${outcome}`) ?? 0, `${kind} ${outcome}`).toBeGreaterThan(5);
  });

  it("are found to be applied twice, and after they were rejected, by a loop on the plain SDK", async () => {
    const problems: string[] = [];
    for (let round = 0; round < 20; round++) {
      const result = await runRound(firstSeed + round, async (call, clients, random, signal) => {
        if (call.kind === "optimisticUpdate") await addTokenByHand(call, clients);
        else await makeCall(call, clients, random, signal);
      });
      problems.push(...result.problems);
    }
    expect(problems).toEqual(expect.arrayContaining([expect.stringMatching(/optimisticUpdate.*stored 2 times/)]));
    expect(problems).toEqual(expect.arrayContaining([expect.stringMatching(/optimisticUpdate.*nothing written.*stored 1 times/)]));
  });
});
