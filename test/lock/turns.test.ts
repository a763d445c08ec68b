import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import type { LockHandle } from "../../src/lease/lease-handle.js";
import { after, hang, ok, resent, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { countedAbort, elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { isStrictlyIncreasing, later, run } from "./support.js";

useFakeClock();

const blob = "locks/a";
const tickets = `${blob}.tickets`;

/** Locks of a process of its own. */
function processOn(server: FakeLeaseServer, fair = false): BlobLocks {
  return new BlobLocks(server.container(), { fair });
}

/** Loops of several processes until `stop`: how often each has had its turn. */
function loops(processes: readonly BlobLocks[], holdInMs: number, pauseInMs = 0): { turns: number[]; stop: () => Promise<void> } {
  const turns = processes.map(() => 0);
  let stopped = false;
  const all = processes.map(async (locks, i) => {
    while (!stopped) {
      const turn = locks.withLock("a", () => {
        turns[i]!++;
        return later(holdInMs);
      });
      // The holder of a lock that is deleted has lost it.
      await turn.catch((error: unknown) => expect(error).toMatchObject({ code: "LEASE_LOST" }));
      if (pauseInMs > 0) await later(pauseInMs);
    }
  });
  return {
    turns,
    stop: async () => {
      stopped = true;
      await run(Promise.all(all), 30_000);
    },
  };
}

describe.each([["a lock", false], ["a fair lock", true]])("%s in a loop of one process", (_, fair) => {
  it.each([
    [1_000, 0],
    [1_000, 20],
    [200, 0],
    [5, 0],
  ])("with sections of %s ms and pauses of %s ms lets another process in", async (holdInMs, pauseInMs) => {
    const server = new FakeLeaseServer();
    const { stop, turns } = loops([processOn(server, fair)], holdInMs, pauseInMs);
    await pass(Math.min(10_000, 200 * holdInMs));
    expect(turns[0]).toBeGreaterThan(8);
    const begin = elapsed();
    const other = outcomeOf(processOn(server, fair).acquire("a"));
    await pass(2 * holdInMs + 1_500);
    expect(other.at! - begin).toBeLessThan(2 * holdInMs + 1_500);
    await run(other.value!.release());
    await stop();
  });

  it("with sections of a second alternates with a loop in another process", async () => {
    const server = new FakeLeaseServer();
    const { stop, turns } = loops([processOn(server, fair), processOn(server, fair)], 1_000);
    await pass(30_000);
    expect(turns[0]! + turns[1]!).toBeGreaterThan(22);
    expect(Math.abs(turns[0]! - turns[1]!)).toBeLessThanOrEqual(3);
    await stop();
  });
});

describe("callers with different options", () => {
  it.each([false, true])("are served in the order in which they came, fair: %s", async (fair) => {
    const server = new FakeLeaseServer();
    const container = server.container();
    const [locks, others] = ["one", "two"].map((holder) => new BlobLocks(container, { holder, fair }));
    const order: number[] = [];
    const options = [{ durationInSeconds: 15 }, { durationInSeconds: 60 }, { data: "x" }, {}, { autoRenew: false }, { durationInSeconds: 15 }, {}, { waitInMs: 60_000 }];
    const all = options.flatMap((given, i) =>
      [locks!, others!].map((from, j) =>
        from.withLock("a", async () => {
          order.push(2 * i + j);
          await later(5);
        }, given),
      ),
    );
    await run(Promise.all(all), 20_000);
    expect(order).toEqual(Array.from({ length: 2 * options.length }, (__, i) => i));
  });

  it("are served in their order also while another process contends", async () => {
    const server = new FakeLeaseServer();
    const locks = processOn(server);
    const { stop } = loops([processOn(server), processOn(server)], 20);
    const order: number[] = [];
    for (let i = 0; i < 12; i++) void locks.withLock("a", () => void order.push(i), { durationInSeconds: i % 2 === 0 ? 15 : 30 });
    await pass(10_000);
    expect(order).toEqual(Array.from({ length: 12 }, (_, i) => i));
    await stop();
  });
});

describe("the tickets of a lock", () => {
  const contenders = 3;

  /** Contention over a time, with `disturb` in its middle: nobody may starve, and the epochs grow. */
  async function survives(
    disturb: ((server: FakeLeaseServer) => void) | undefined,
    { fair = false, newcomer = false, prepare }: { fair?: boolean; newcomer?: boolean; prepare?: (server: FakeLeaseServer) => void } = {},
  ): Promise<FakeLeaseServer> {
    const server = new FakeLeaseServer();
    prepare?.(server);
    const { stop, turns } = loops(Array.from({ length: contenders }, () => processOn(server, fair)), 50);
    await pass(8_000);
    expect(Math.min(...turns)).toBeGreaterThan(10);
    disturb?.(server);
    const fresh = outcomeOf(newcomer ? processOn(server, fair).withLock("a", () => undefined) : Promise.resolve());
    turns.fill(0);
    await pass(10_000);
    expect(Math.min(...turns), turns.join()).toBeGreaterThan(Math.max(...turns) / 2);
    expect(Math.max(...turns)).toBeGreaterThan(20);
    expect(fresh.at).toBeLessThan(13_000);
    await stop();
    return server;
  }

  /** So many tickets were drawn and served before. */
  function startAt(server: FakeLeaseServer, served: number, fair: boolean): void {
    server.addBlob(tickets).blocks = served;
    server.addBlob(blob).metadata = { asc_epoch: "5", asc_served: String(served), ...(fair && { asc_fair: "1" }) };
  }

  it.each([false, true])("may be deleted in between, fair: %s", async (fair) => {
    await survives((server) => void server.blobs.delete(tickets), { fair });
  });

  it.each([false, true])("may be replaced by a foreign program, fair: %s", async (fair) => {
    await survives((server) => void server.addBlob(tickets), { fair, newcomer: true });
  });

  it.each([false, true])("may be deleted together with the lock, fair: %s", async (fair) => {
    const prepare = (server: FakeLeaseServer): void => startAt(server, 20_000, fair);
    await survives((server) => {
      server.blobs.delete(tickets);
      server.blobs.delete(blob);
    }, { fair, prepare });
  });

  it.each([false, true])("go on where they were if the lock is deleted, fair: %s", async (fair) => {
    await survives((server) => void server.blobs.delete(blob), { fair, newcomer: true, prepare: (server) => startAt(server, 700, fair) });
  });

  it.each([false, true])("are continued in another blob after 50,000, fair: %s", async (fair) => {
    const server = await survives(undefined, { fair, newcomer: true, prepare: (it) => startAt(it, 49_960, fair) });
    expect(server.blobs.get(tickets)!.blocks).toBe(50_000);
    expect(server.blobs.get(`${tickets}-1`)!.blocks).toBeGreaterThan(10);
    const served = Number(server.blobs.get(blob)!.metadata["asc_served"]);
    expect(served).toBeGreaterThan(50_000);
    expect(served).toBeLessThanOrEqual(50_000 + server.blobs.get(`${tickets}-1`)!.blocks);
    // A process that comes later finds the blob with a request more at most.
    server.requests.length = 0;
    const here = await run(processOn(server, fair).acquire("a"), 5_000);
    const there = outcomeOf(processOn(server, fair).acquire("a"));
    await pass(1_000);
    await run(here.release());
    await pass(2_000);
    await run(there.value!.release());
    expect(server.count("append", tickets)).toBeLessThanOrEqual(2);
  });

  it("are done without if the client may not append: waiters poll, and ask once", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation, name) => (name === tickets && operation !== "properties" ? status(403, "AuthorizationPermissionMismatch") : undefined);
    const locks = Array.from({ length: contenders }, () => processOn(server));
    const holder = await run(locks[0]!.acquire("a"));
    const waiters = locks.slice(1).map((it) => outcomeOf(it.acquire("a")));
    await pass(10_000);
    expect(server.count("append", tickets)).toBe(2);
    await run(holder.release());
    await pass(2_000);
    const [first] = waiters.filter(({ value }) => value);
    expect(first).toBeDefined();
    await run(first!.value!.release());
    await pass(2_000);
    const epochs = [holder, ...waiters.map(({ value }) => value!)].map(({ epoch }) => epoch).sort((a, b) => a - b);
    expect(epochs).toSatisfy(isStrictlyIncreasing);
    await run(Promise.all(waiters.map(({ value }) => value!.release())));
    expect(server.count("append", tickets)).toBe(2);
  });

  it("are not waited for if their count gets no response: a process that comes back tries after five seconds", async () => {
    const server = new FakeLeaseServer();
    const locks = processOn(server);
    await run((await run(locks.acquire("a"))).release());
    server.intercept = (operation, name) => (name === tickets && operation === "properties" && server.count("properties", tickets) === 1 ? hang : undefined);
    const waiter = outcomeOf(locks.acquire("a", { waitInMs: 10_000 }));
    await pass(6_000);
    expect(server.count("properties", tickets)).toBeGreaterThan(0);
    expect(waiter.value).toBeDefined();
    await run(waiter.value!.release());
  });

  it("are what a fair lock cannot do without: the caller is told why", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation, name) => (name === tickets && operation !== "properties" ? status(403, "AuthorizationPermissionMismatch") : undefined);
    await expect(run(processOn(server, true).acquire("a"), 1_000)).rejects.toMatchObject({ statusCode: 403 });
    expect(server.isLeased(blob)).toBe(false);
  });

  it.each([false, true])("may be deleted between the creation of their blob and the append, fair: %s", async (fair) => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, fair).acquire("a"));
    server.blobs.delete(tickets);
    let deletions = 3;
    server.disturb = (operation, name) => {
      if (name === tickets && operation === "create" && deletions-- > 0) server.blobs.delete(tickets);
      return undefined;
    };
    const waiter = outcomeOf(processOn(server, fair).acquire("a", { waitInMs: 5_000 }));
    await pass(1_000);
    expect(server.blobs.get(tickets)!.blocks).toBe(1);
    await run(holder.release());
    await pass(3_000);
    await run(waiter.value!.release());
  });

  it("are not drawn from a blob of another program: a fair lock says so, the others have no order", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation, name) => (name === tickets && operation === "append" ? status(409, "InvalidBlobType") : undefined);
    const waiting = outcomeOf(processOn(server, true).acquire("a", { waitInMs: 5_000 }));
    await pass(1_000);
    expect(waiting.error).toMatchObject({ code: "LOCK_MODE_MISMATCH", setting: "tickets", committed: false, cause: { statusCode: 409 } });
    expect((waiting.error as Error).message).toContain("a.tickets is a blob of another program");
    expect(server.isLeased(blob)).toBe(false);
    const holder = await run(processOn(server).acquire("a"));
    const other = outcomeOf(processOn(server).acquire("a"));
    await pass(1_000);
    await run(holder.release());
    await pass(2_000);
    await run(other.value!.release());
  });

  it("are not drawn from a blob that another program has leased: a fair lock says so, the others have no order", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation, name) => (name === tickets && operation === "append" ? status(412, "LeaseIdMissing") : undefined);
    const waiting = outcomeOf(processOn(server, true).acquire("a", { waitInMs: 5_000 }));
    await pass(1_000);
    expect(waiting.error).toMatchObject({ code: "LOCK_MODE_MISMATCH", setting: "tickets", committed: false, cause: { statusCode: 412 } });
    expect((waiting.error as Error).message).toContain("a.tickets is a blob of another program, or leased by one");
    expect(server.isLeased(blob)).toBe(false);
    const holder = await run(processOn(server).acquire("a"));
    const other = outcomeOf(processOn(server).acquire("a"));
    await pass(1_000);
    await run(holder.release());
    await pass(2_000);
    await run(other.value!.release());
  });

  it.each([
    ["aborts", false],
    ["aborts", true],
    ["has waited long enough", false],
    ["has waited long enough", true],
  ])("do not block if a waiter %s, fair: %s", async (why, fair) => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, fair).acquire("a"));
    const caller = countedAbort();
    const gone = Array.from({ length: 3 }, () => outcomeOf(processOn(server, fair).acquire("a", why === "aborts" ? { abortSignal: caller.signal } : { waitInMs: 1_000 })));
    await pass(500);
    const waiter = outcomeOf(processOn(server, fair).acquire("a"));
    await pass(500);
    caller.abort();
    await pass(1_500);
    for (const { error } of gone) expect(error).toBeDefined();
    const released = elapsed();
    await run(holder.release());
    await pass(10_000);
    expect(waiter.at! - released).toBeLessThan(fair ? 5_000 : 2_500);
    await run(waiter.value!.release());
    // Nor is the next one delayed.
    const begin = elapsed();
    const next = outcomeOf(processOn(server, fair).acquire("a"));
    await pass(3_000);
    expect(next.at! - begin).toBeLessThan(100);
    await run(next.value!.release());
  });
});

describe("a caller with a short wait, behind tickets of processes that died", () => {
  /** The lock is free, and the tickets of `dead` processes come first. */
  async function withDeadWaiters(fair: boolean, dead: number): Promise<FakeLeaseServer> {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, fair).acquire("a"));
    const waiting = Array.from({ length: dead }, () => outcomeOf(processOn(server, fair).acquire("a", { waitInMs: 1_000 })));
    await pass(2_000);
    for (const { error } of waiting) expect(error).toBeDefined();
    await run(holder.release());
    expect(server.isLeased(blob)).toBe(false);
    return server;
  }

  it.each([0, 100, 300, 1_000])("gets a lock that is free at once, although its process has an old ticket: waitInMs %s", async (waitInMs) => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server).acquire("a"));
    const dead = Array.from({ length: 3 }, () => outcomeOf(processOn(server).acquire("a", { waitInMs: 1_000 })));
    await pass(300);
    const here = processOn(server);
    const left = outcomeOf(here.acquire("a", { waitInMs: 500 }));
    await pass(2_000);
    for (const { error } of [...dead, left]) expect(error).toMatchObject({ name: "LeaseUnavailableError" });
    await run(holder.release());
    const lock = await run(here.acquire("a", { waitInMs }), 50);
    await run(lock.release());
  });

  it.each([
    [0, 1],
    [0, 40],
    [500, 3],
    [1_000, 1],
    [2_000, 40],
    [4_000, 400],
    [6_000, 40],
  ])("gets a fair lock that is free, in a process of its own: waitInMs %s, %s dead", async (waitInMs, dead) => {
    const server = await withDeadWaiters(true, Math.min(dead, 40));
    server.blobs.get(tickets)!.blocks += dead - Math.min(dead, 40);
    const begin = elapsed();
    const caller = outcomeOf(processOn(server, true).acquire("a", { waitInMs }));
    await pass(10_000);
    expect(caller.error).toBeUndefined();
    expect(caller.at! - begin).toBeLessThan(Math.max(3_500, waitInMs));
    await run(caller.value!.release());
    // The tickets of the dead are served with its own.
    const next = outcomeOf(processOn(server, true).acquire("a", { waitInMs: 0 }));
    await pass(100);
    await run(next.value!.release());
  });

  it("does not get a fair lock before those who are alive", async () => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, true).acquire("a"));
    const waiters = Array.from({ length: 4 }, () => outcomeOf(processOn(server, true).withLock("a", () => later(100))));
    await pass(20_000);
    await run(holder.release(), 1);
    const impatient = outcomeOf(processOn(server, true).acquire("a", { waitInMs: 100 }));
    await pass(10_000);
    expect(impatient.error).toMatchObject({ name: "LeaseUnavailableError", message: expect.stringContaining("still holds") as string });
    for (const { error } of waiters) expect(error).toBeUndefined();
    const last = await run(processOn(server, true).acquire("a"), 5_000);
    await run(last.release());
  });

  it("does not wait for longer once others have taken a fair lock that was free", async () => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, true).acquire("a"));
    const alive: { value?: number }[] = [];
    for (let i = 0; i < 3; i++) {
      const dead = outcomeOf(processOn(server, true).acquire("a", { waitInMs: 100 }));
      await pass(500);
      expect(dead.error).toBeDefined();
      alive.push(outcomeOf(processOn(server, true).withLock("a", () => later(5).then(() => i))));
      await pass(500);
    }
    await run(holder.release(), 1);
    const begin = elapsed();
    const caller = outcomeOf(processOn(server, true).acquire("a", { waitInMs: 0 }));
    await pass(20_000);
    expect(alive.map(({ value }) => value)).toEqual([0, 1, 2]);
    expect(caller.error).toMatchObject({ name: "LeaseUnavailableError", message: expect.stringContaining("still holds") as string });
    expect(caller.at! - begin).toBeLessThan(4_000);
  });
});

it("a fair lock does not wait for callers of the same process that have left", async () => {
  const server = new FakeLeaseServer();
  const locks = processOn(server, true);
  const holder = await run(locks.acquire("a"));
  const caller = countedAbort();
  const order: number[] = [];
  const all = Array.from({ length: 60 }, (_, i) =>
    outcomeOf(locks.withLock("a", () => void order.push(i), i % 20 === 19 ? {} : { abortSignal: caller.signal })),
  );
  await pass(2_000);
  caller.abort();
  await pass(100);
  const released = elapsed();
  await run(holder.release());
  await pass(1_000);
  expect(order).toEqual([19, 39, 59]);
  expect(Math.max(...[19, 39, 59].map((i) => all[i]!.at!)) - released).toBeLessThan(200);
  expect(await run(locks.withLock("a", () => "next"), 100)).toBe("next");
});

describe("while callers of the process wait in line, far back", () => {
  async function farBack(): Promise<{ server: FakeLeaseServer; locks: BlobLocks; end: () => Promise<void> }> {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server).acquire("a"));
    server.addBlob(tickets).blocks = 400;
    const locks = processOn(server);
    const caller = countedAbort();
    const waiting = outcomeOf(locks.acquire("a", { abortSignal: caller.signal }));
    await pass(3_000);
    return {
      server,
      locks,
      end: async () => {
        expect(waiting.at).toBeUndefined();
        caller.abort();
        await run(holder.release());
        await pass(5_000);
      },
    };
  }

  it.each([0, 200])("another caller leaves after its waitInMs of %s ms, and is told why", async (waitInMs) => {
    const { locks, end } = await farBack();
    const begin = elapsed();
    const outcome = outcomeOf(locks.acquire("a", { waitInMs }));
    await pass(waitInMs + 50);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", message: expect.stringContaining("still holds") as string });
    expect(outcome.at! - begin).toBeLessThanOrEqual(waitInMs + 50);
    await end();
  });

  it("a try does not wait for the next poll", async () => {
    const { locks, end } = await farBack();
    expect(await run(locks.tryAcquire("a"), 20)).toBeUndefined();
    await end();
  });
});

describe.each([["a lock", false], ["a fair lock", true]])("a draw of a ticket of %s that gets no response", (_, fair) => {
  it("is given up, and costs no more than other requests do", async () => {
    const server = new FakeLeaseServer();
    server.addBlob(tickets);
    const holder = await run(processOn(server, fair).acquire("a"));
    const appends = server.count("append", tickets);
    server.intercept = (operation) => (operation === "append" && server.count("append", tickets) === appends + 1 ? hang : undefined);
    const waiting = outcomeOf(processOn(server, fair).acquire("a"));
    await pass(500);
    await run(holder.release());
    const released = elapsed();
    await pass(9_000);
    expect(waiting.at! - released).toBeLessThan(8_000);
    await run(waiting.value!.release());
  });

  it("may be sent again by the SDK for longer: what is drawn is not left behind", async () => {
    const server = new FakeLeaseServer();
    server.addBlob(tickets);
    const holder = await run(processOn(server, fair).acquire("a"));
    const appends = server.count("append", tickets);
    server.disturb = (operation) => (operation === "append" && server.count("append", tickets) === appends + 1 ? resent(after(8_000, ok)) : undefined);
    const waiting = outcomeOf(processOn(server, fair).acquire("a"));
    await pass(7_500);
    await run(holder.release());
    await pass(3_000);
    expect(server.count("append", tickets)).toBe(appends + 1);
    await run(waiting.value!.release());
  });
});

describe("waiting on a dead network", () => {
  it.each([
    [0, false, 5_000],
    [0, true, 5_000],
    [1_000, false, 1_200],
    [1_000, true, 1_200],
    [20_000, true, 20_200],
  ])("with waitInMs %s, fair: %s, ends after %s ms", async (waitInMs, fair, endsAt) => {
    const server = new FakeLeaseServer();
    server.intercept = () => hang;
    const outcome = outcomeOf(processOn(server, fair).acquire("a", { waitInMs }));
    await pass(endsAt + 10);
    expect(outcome.at).toBeLessThanOrEqual(endsAt);
    expect(outcome.at).toBeGreaterThanOrEqual(Math.min(endsAt, Math.max(waitInMs, 1_000)));
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", cause: { name: "RequestTimeoutError" } });
    await pass(20_000);
  });

  it("ends when waitInMs is over, if the service has responded before", async () => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server).acquire("a"));
    const outcome = outcomeOf(processOn(server).acquire("a", { waitInMs: 3_000 }));
    await pass(1_000);
    server.intercept = (operation) => (operation === "renew" ? undefined : hang);
    await pass(5_000);
    expect(outcome.at).toBeLessThanOrEqual(4_050);
    server.intercept = undefined;
    await pass(10_000);
    await run(holder.release());
  });
});

describe("a fair lock", () => {
  it("serves the callers of all processes in the order in which they came", async () => {
    const server = new FakeLeaseServer();
    const processes = Array.from({ length: 4 }, () => processOn(server, true));
    const holder = await run(processes[0]!.acquire("a"));
    const order: number[] = [];
    const all: Promise<void>[] = [];
    for (let i = 0; i < 24; i++) {
      // Two of each process come one after the other.
      all.push(processes[(i >> 1) % 4]!.withLock("a", async ({ epoch }) => {
        expect(epoch).toBeGreaterThan(holder.epoch);
        order.push(i);
        await later(10);
      }));
      await pass(50);
    }
    await run(holder.release());
    await run(Promise.all(all), 60_000);
    expect(order).toEqual(Array.from({ length: 24 }, (_, i) => i));
  });

  it("serves callers of one process that come at the same time in their order, although the responses to their draws are not", async () => {
    const server = new FakeLeaseServer();
    let draws = 0;
    server.disturb = (operation) => (operation === "append" ? { kind: "ok", afterInMs: 40 - 13 * (draws++ % 4) } : undefined);
    const processes = Array.from({ length: 3 }, () => processOn(server, true));
    const order: number[][] = processes.map(() => []);
    const all = processes.flatMap((locks, p) => Array.from({ length: 8 }, (_, i) => locks.withLock("a", () => void order[p]!.push(i))));
    const begin = elapsed();
    const done = outcomeOf(Promise.all(all));
    await pass(20_000);
    for (const turns of order) expect(turns).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    // No pause in which everybody waits for a ticket whose caller stands behind another one.
    expect(done.at! - begin).toBeLessThan(3_000);
  });

  it("never lets a caller in that came later, even if it polls at the right moment", async () => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, true).acquire("a"));
    const waiter = outcomeOf(processOn(server, true).acquire("a"));
    await pass(20_000);
    await run(holder.release(), 5);
    const late = outcomeOf(processOn(server, true).acquire("a", { waitInMs: 0 }));
    await pass(1_000);
    expect(late.error).toMatchObject({ name: "LeaseUnavailableError" });
    expect(waiter.value).toBeDefined();
    await run(waiter.value!.release());
  });

  it("is not acquired by a try while others wait, although it is free at this moment", async () => {
    const server = new FakeLeaseServer();
    const [here, there] = [processOn(server, true), processOn(server, true)];
    const holder = await run(here.acquire("a"));
    const waiter = outcomeOf(there.acquire("a"));
    await pass(20_000);
    await run(holder.release(), 3);
    expect(server.isLeased(blob)).toBe(false);
    expect(await run(processOn(server, true).tryAcquire("a"), 2_000)).toBeUndefined();
    expect(waiter.value).toBeDefined();
    await run(waiter.value!.release());
    const lock = await run(processOn(server, true).tryAcquire("a"), 100);
    await run(lock!.release());
  });

  it("is acquired by a try if those who wait are dead, and from then on without a pause", async () => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, true).acquire("a"));
    for (let i = 0; i < 3; i++) await run(processOn(server, true).acquire("a", { waitInMs: 0 }).catch(() => undefined));
    await run(holder.release());
    const first = await run(processOn(server, true).tryAcquire("a"), 2_000);
    expect(first).toBeDefined();
    await run(first!.release());
    const second = await run(processOn(server, true).tryAcquire("a"), 20);
    expect(second!.epoch).toBeGreaterThan(first!.epoch);
    await run(second!.release());
  });

  it.each([[false, true], [true, false]])("is not mixed with others: used with fair %s, then with %s", async (before, after) => {
    const server = new FakeLeaseServer();
    const lock = await run(processOn(server, before).acquire("a"));
    await run(lock.release());
    const wrong = processOn(server, after);
    const calls: (() => Promise<LockHandle | undefined>)[] = [() => wrong.acquire("a"), () => wrong.acquire("a", { waitInMs: 0 }), () => wrong.tryAcquire("a")];
    for (const call of calls) {
      await expect(run(call(), 2_000)).rejects.toMatchObject({
        name: "LockModeMismatchError",
        code: "LOCK_MODE_MISMATCH",
        setting: "fair",
        expected: String(after),
        found: String(before),
        url: "https://account.test/container/locks/a",
      });
      expect(server.isLeased(blob)).toBe(false);
    }
    // Those who agree go on.
    const next = await run(processOn(server, before).acquire("a"), 2_000);
    expect(next.epoch).toBeGreaterThan(lock.epoch);
    await run(next.release());
  });

  it("tells a waiter of the other mode when it is its turn, and the others are served", async () => {
    const server = new FakeLeaseServer();
    const holder = await run(processOn(server, true).acquire("a"));
    const wrong = outcomeOf(processOn(server, false).acquire("a"));
    await pass(500);
    const waiter = outcomeOf(processOn(server, true).acquire("a"));
    await pass(1_000);
    await run(holder.release());
    await pass(5_000);
    expect(wrong.error).toMatchObject({ name: "LockModeMismatchError" });
    await run(waiter.value!.release());
  });
});
