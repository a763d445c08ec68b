import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { MockInstance } from "vitest";
import { BlobLocks, LeaderElection, logger, reportFailuresTo, Semaphore } from "../../src/index.js";
import type { UnhandledFailure } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { locksOn, run } from "./support.js";

useFakeClock();

let written: MockInstance<typeof console.warn>;
beforeEach(() => {
  written = vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => reportFailuresTo("console"));

const messages = (): string[] => written.mock.calls.map(([message]) => String(message));

let locksOfTest = 0;
/** Each lock is reported once in a process: the tests have locks of their own. */
const lockName = (): string => `lock ${++locksOfTest}`;

describe("a lock that a caller has waited for longer than a minute", () => {
  it("is reported with its holder, once however many wait", async () => {
    const server = new FakeLeaseServer();
    const name = lockName();
    const held = await run(locksOn(server, "host-7").acquire(name));
    const waiting = [1, 2, 3].map(() => locksOn(server).acquire(name));
    await pass(59_000);
    expect(messages()).toEqual([]);
    await pass(3_000);
    expect(messages()).toHaveLength(1);
    expect(messages()[0]).toMatch(new RegExp(`the lock "${name}" in https://account.test/container for longer than 60 s\\. Its holder is host-7 since 20`));
    await pass(300_000);
    expect(messages()).toHaveLength(1);
    await run(held.release());
    for (const next of waiting) await run((await run(next, 60_000)).release());
  });

  it.each(["\n[error] forged line", "\r\u001b[2K", "\u009b2J", "\u007f", "\u202egnp.exe", "\u2028x"])("names it on one line, without control characters, in the log and in the report: %j", async (text) => {
    const logged = vi.spyOn(logger, "warning").mockReturnValue(undefined);
    const server = new FakeLeaseServer();
    const name = `${lockName()}${text}`;
    const held = await run(locksOn(server, `host${text}`).acquire(name));
    const waiting = outcomeOf(locksOn(server).acquire(name));
    await pass(62_000);
    const said = [...messages(), ...logged.mock.calls.map(([line]) => String(line))].filter((line) => line.includes("has waited"));
    logged.mockRestore();
    expect(said).toHaveLength(2);
    for (const line of said) {
      expect(line).toContain("Its holder is host ");
      expect(line).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
    }
    await run(held.release(), 10_000);
    await run((waiting.value as { release(): Promise<void> }).release(), 10_000);
  });

  it("names the next holder as well, and this process if it is the holder", async () => {
    const server = new FakeLeaseServer();
    const name = lockName();
    const mine = locksOn(server, "this-host");
    const held = await run(locksOn(server, "host-8").acquire(name));
    const first = outcomeOf(mine.acquire(name));
    await pass(62_000);
    await run(held.release(), 10_000);
    const second = outcomeOf(mine.acquire(name));
    await pass(62_000);
    expect(messages()).toHaveLength(2);
    expect(messages()[1]).toContain("Its holder is this-host since");
    expect(messages()[1]).toContain(", which is this process.");
    for (const { value } of [first, second]) {
      await run((value as { release(): Promise<void> }).release(), 10_000);
      await pass(5_000);
    }
  });

  it("is not reported if the caller has it by then, or does not wait that long", async () => {
    const server = new FakeLeaseServer();
    const name = lockName();
    const held = await run(locksOn(server).acquire(name));
    const patient = outcomeOf(locksOn(server).acquire(name));
    const impatient = outcomeOf(locksOn(server).acquire(name, { waitInMs: 60_000 }));
    await pass(40_000);
    await run(held.release(), 15_000);
    await pass(60_000);
    expect(impatient.error ?? impatient.value).toBeDefined();
    for (const { value } of [patient, impatient]) await run((value as { release(): Promise<void> } | undefined)?.release() ?? Promise.resolve());
    expect(messages()).toEqual([]);
  });

  it("is not what the candidates of an election do, nor the callers of a semaphore: they wait for as long as there is a holder", async () => {
    const server = new FakeLeaseServer();
    const elections = [1, 2].map(() => new LeaderElection(locksOn(server), lockName().replace(/\d+/, "of all"), () => undefined));
    for (const election of elections) void election.start();
    const slot = await run(new Semaphore(locksOn(server), "one", 1).acquire());
    const waiting = outcomeOf(new Semaphore(new BlobLocks(server.container()), "one", 1).acquire());
    await pass(200_000);
    expect(messages()).toEqual([]);
    await run(slot.release());
    await run(Promise.all(elections.map((election) => election.stop())));
    await pass(30_000);
    await run((waiting.value as { release(): Promise<void> }).release());
  });
});

describe("reportFailuresTo", () => {
  const throwing = async (): Promise<void> => {
    const election = new LeaderElection(locksOn(new FakeLeaseServer()), "scheduler", () => Promise.reject(new RangeError("secret")));
    void election.start();
    await pass(30_000);
    await run(election.stop());
  };

  it("is not needed: an election whose work throws is written to the console, once, without the message of the error", async () => {
    await throwing();
    expect(messages()).toEqual([
      'azure-storage-concurrency: LeaderElection "scheduler" reported an error (RangeError), and no listener is registered. Add one with on("error", listener). Further errors of this kind are not reported.',
    ]);
  });

  it("gives failures to a function, with the error", async () => {
    const failures: UnhandledFailure[] = [];
    reportFailuresTo((failure) => failures.push(failure));
    await throwing();
    expect(failures).toEqual([{ component: 'LeaderElection "scheduler"', message: expect.stringContaining("RangeError") as string, error: new RangeError("secret") }]);
    expect(messages()).toEqual([]);
  });

  it.each<[string, Parameters<typeof reportFailuresTo>[0]]>([
    ["silences them", "none"],
    ["survives a function that throws", () => {
      throw new Error("reporter");
    }],
    ["survives one that rejects", () => Promise.reject(new Error("reporter")) as never],
  ])("%s", async (_, target) => {
    reportFailuresTo(target);
    await throwing();
    expect(messages()).toEqual([]);
    reportFailuresTo("console");
    await throwing();
    expect(messages()).toHaveLength(1);
  });

  it.each([undefined, null, "nowhere", {}])("rejects %o", (target) => {
    expect(() => reportFailuresTo(target as never)).toThrow(TypeError);
  });
});
