import { describe, expect, it } from "vitest";

import { planOf } from "../../integration/chaos/disturbances.js";
import { isCertain, isExpected, labelOf } from "../../integration/chaos/expected-errors.js";
import { Gate } from "../../integration/chaos/gate.js";
import { Holds } from "../../integration/chaos/holds.js";
import { Liveness } from "../../integration/chaos/liveness.js";
import { OperationLog } from "../../integration/chaos/operation-log.js";
import { randomFrom } from "../../integration/chaos/random.js";
import { scenarios } from "../../integration/chaos/scenarios/index.js";
import { breakable, breakableTogether } from "../../integration/chaos/broken-build.js";
import { createError, LeaseLostError } from "../../src/errors.js";

describe("liveness", () => {
  const waiting = (): string => "operation 1";
  const advance = (liveness: Liveness, ms: number): void => {
    for (let i = 0; i < ms; i += 100) liveness.advance(100, waiting);
  };

  it("a lane that stands still is reported once, with what was waiting", () => {
    const liveness = new Liveness([{ scenario: "a", lane: "x" }, { scenario: "a", lane: "y" }], 30_000);
    for (let i = 0; i < 4; i++) {
      advance(liveness, 10_000);
      liveness.progress("a", "y");
    }
    expect(liveness.stalls).toEqual(["a: no x for 30 s; waiting: operation 1"]);
    expect(liveness.longest.get("a/y")).toBe(10_000);
  });

  it("it is reported again if it stands still again", () => {
    const liveness = new Liveness([{ scenario: "a", lane: "x" }], 1_000);
    advance(liveness, 2_000);
    liveness.progress("a", "x");
    advance(liveness, 2_000);
    expect(liveness.stalls).toHaveLength(2);
  });

  it("the time begins again when a holder of the scenario is killed, and only then", () => {
    const liveness = new Liveness([{ scenario: "a", lane: "x" }, { scenario: "b", lane: "x" }], 30_000);
    advance(liveness, 25_000);
    liveness.excuse("a");
    advance(liveness, 20_000);
    expect(liveness.stalls).toHaveLength(1);
    expect(liveness.stalls[0]).toMatch(/^b:/);
    advance(liveness, 20_000);
    expect(liveness.stalls[1]).toMatch(/^a:/);
  });
});

describe("holds", () => {
  it("a takeover is counted when another worker holds what a dead one held", () => {
    const holds = new Holds();
    holds.begin("locks", "a", "w1", "w1/0");
    expect(holds.orphan("w1", 5)).toEqual(["locks"]);
    expect([holds.orphans("locks"), holds.orphans("locks", 4), holds.takeovers("locks")]).toEqual([1, 0, 0]);
    holds.begin("locks", "b", "w2", "w2/0");
    expect(holds.takeovers("locks")).toBe(0);
    holds.begin("locks", "a", "w2", "w2/0");
    holds.begin("locks", "a", "w3", "w3/0");
    expect(holds.takeovers("locks")).toBe(1);
  });

  it("neither what was released before nor what the same worker holds again is a takeover", () => {
    const holds = new Holds();
    holds.begin("locks", "a", "w1", "w1/0");
    holds.end("locks", "a", "w1/0");
    expect(holds.orphan("w1", 5)).toEqual([]);
    holds.begin("locks", "a", "w1", "w1/0");
    holds.orphan("w1", 6);
    holds.begin("locks", "a", "w1", "w1/1");
    expect(holds.takeovers("locks")).toBe(0);
  });
});

describe("errors", () => {
  const lost = createError(LeaseLostError, "lost", { url: undefined, reason: "expired" });
  const restError = (details: object): Error => Object.assign(new Error("rejected"), { name: "RestError" }, details);

  it.each([
    [lost, "LEASE_LOST/expired"],
    [restError({ statusCode: 503, code: "ServerBusy" }), "RestError/503 ServerBusy"],
    [restError({ statusCode: 412, details: { errorCode: "LeaseIdMissing" } }), "RestError/412 LeaseIdMissing"],
    [restError({ code: "ECONNRESET" }), "RestError/ECONNRESET"],
    [new TypeError("x is not a function"), "TypeError"],
    [new DOMException("over", "TimeoutError"), "TimeoutError"],
    ["a string", "thrown string"],
  ])("%s is named %s", (error, label) => {
    expect(labelOf(error)).toBe(label);
  });

  it("a whitelist names a code, or a code with its reason", () => {
    expect(isExpected("LEASE_LOST/expired", ["LEASE_LOST"])).toBe(true);
    expect(isExpected("LEASE_LOST/expired", ["LEASE_LOST/expired"])).toBe(true);
    expect(isExpected("LEASE_LOST/broken", ["LEASE_LOST/expired"])).toBe(false);
    expect(isExpected("RestError/503 ServerBusy", ["RestError/503"])).toBe(true);
    expect(isExpected("TypeError", ["CONFLICT", "RestError"])).toBe(false);
    expect(isExpected("CONFLICTED", ["CONFLICT"])).toBe(false);
  });

  it("only an error that says so has certainly written nothing", () => {
    expect(isCertain(lost)).toBe(false);
    expect(isCertain(Object.assign(new Error("conflict"), { committed: false }))).toBe(true);
    expect(isCertain(new TypeError("x"))).toBe(false);
  });

  it("one that no scenario expects is a problem of the run, with its stack", () => {
    const log = new OperationLog();
    for (let i = 0; i < 2; i++) log.record({ kind: "unexpected", scenario: "ids", task: `w${i}`, error: "TypeError", stack: `TypeError at ${i}` });
    log.record({ kind: "stuck", scenario: "ids", task: "w1", waiting: "operation 3 was waiting" });
    expect(log.problems()).toEqual(["ids: unexpected TypeError, 2x: TypeError at 0", "ids: w1 got nothing done after the storm; operation 3 was waiting"]);
  });
});

it("the gate lets fewer operations pass while the storage is slow, and never none", async () => {
  const gate = new Gate();
  for (let i = 0; i < 20; i++) gate.observe(2_000);
  expect(gate.limit).toBe(3);
  let [inside, most] = [0, 0];
  const operation = async (): Promise<void> => {
    most = Math.max(most, ++inside);
    await Promise.resolve();
    inside--;
    throw new Error("it fails");
  };
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => gate.pass(operation)));
  expect([most, outcomes.length]).toEqual([3, 20]);
  for (let i = 0; i < 40; i++) gate.observe(5);
  expect(gate.limit).toBe(64);
});

it("a seed repeats the plan, with kills, long and short stops, clocks and networks", () => {
  const plan = planOf(randomFrom(3), 600_000, 4, 4);
  expect(planOf(randomFrom(3), 600_000, 4, 4)).toEqual(plan);
  expect(planOf(randomFrom(4), 600_000, 4, 4)).not.toEqual(plan);
  expect(new Set(plan.map(({ kind }) => kind))).toEqual(new Set(["kill", "stop", "clock", "network"]));
  const stops = plan.flatMap((event) => (event.kind === "stop" ? [event.forInMs] : []));
  expect(Math.min(...stops)).toBeLessThan(6_000);
  expect(Math.max(...stops)).toBeGreaterThan(15_000);
});

it("each broken guarantee names scenarios that exist, and each scenario has a guarantee that can be broken", () => {
  const broken = new Set<string>(Object.values(breakable).flatMap(({ scenarios: names }) => [...names]));
  expect(scenarios.map(({ name }) => name).filter((name) => !broken.has(name))).toEqual([]);
  expect([...broken].filter((name) => !scenarios.some((scenario) => scenario.name === name))).toEqual([]);
});

it("what is broken at the same time has scenarios of its own: each is noticed by itself", () => {
  const names = breakableTogether.flatMap((guarantee): readonly string[] => breakable[guarantee].scenarios);
  expect(new Set(names).size).toBe(names.length);
});
