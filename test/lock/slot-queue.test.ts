import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import type { LockHandle } from "../../src/lease/lease-handle.js";
import { Semaphore } from "../../src/lock/semaphore.js";
import { hang, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, run } from "./support.js";

useFakeClock();

/** Of a process of its own. */
function semaphoreOn(server: FakeLeaseServer, slots: number): Semaphore {
  return new Semaphore(new BlobLocks(server.container()), "exports", slots);
}

async function hold(semaphore: Semaphore, count: number): Promise<LockHandle[]> {
  return run(Promise.all(Array.from({ length: count }, () => semaphore.acquire())), 2_000);
}

async function release(slots: readonly (LockHandle | null | undefined)[]): Promise<void> {
  await run(Promise.all(slots.map(async (slot) => slot?.release())));
}

/** How many are inside, and how many were at most. */
class Inside {
  now = 0;
  most = 0;
  total = 0;

  async stay(ms: number): Promise<void> {
    this.most = Math.max(this.most, ++this.now);
    this.total++;
    await later(ms);
    this.now--;
  }
}

describe("the slots of a semaphore", () => {
  it("are all in use at once: 150 callers of 200 ms and 50 slots take about a second at 20 ms a request", async () => {
    const server = new FakeLeaseServer();
    server.latencyInMs = 20;
    const semaphore = semaphoreOn(server, 50);
    const inside = new Inside();
    let endedAt = 0;
    const all = Promise.all(Array.from({ length: 150 }, () => semaphore.withSlot(() => inside.stay(200)))).then(() => (endedAt = elapsed()));
    await run(all, 20_000);
    // 0.6 s of work; each slot is created, leased and numbered first.
    expect(endedAt).toBeLessThan(1_500);
    expect(inside.most).toBe(50);
  });

  it("cost nothing to hand over, and each holder has a larger epoch", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 1);
    await release(await hold(semaphore, 1));
    const first = await run(semaphore.acquire());
    const { length } = server.requests;
    const epochs = [first.epoch];
    const others = Array.from({ length: 20 }, () => semaphore.withSlot((slot) => void epochs.push(slot.epoch)));
    await first.release();
    await run(Promise.all(others), 200);
    expect(server.requests.slice(length).map(({ operation }) => operation)).toEqual(["release"]);
    expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
    expect(epochs).toHaveLength(21);
  });

  it("are handed over in the order of the callers, whatever their options", async () => {
    const semaphore = semaphoreOn(new FakeLeaseServer(), 2);
    const order: number[] = [];
    const all = Array.from({ length: 20 }, (_, n) =>
      semaphore.withSlot(
        async () => {
          order.push(n);
          await later(30);
        },
        { durationInSeconds: n % 3 === 0 ? 15 : 30 },
      ),
    );
    await run(Promise.all(all), 5_000);
    // Two slots: neighbours may swap while one of them needs a request.
    for (const [place, n] of order.entries()) expect(Math.abs(place - n)).toBeLessThanOrEqual(1);
  });

  it("are shared by all objects of a process that name the same semaphore", async () => {
    const container = new FakeLeaseServer().container();
    const [one, other] = [new Semaphore(new BlobLocks(container), "s", 1), new Semaphore(new BlobLocks(container), "s", 1)];
    const slot = await run(one.acquire());
    const next = outcomeOf(other.acquire());
    await pass(5_000);
    await release([slot]);
    expect(next.value).toBeDefined();
    await release([next.value]);
  });

  it("are released, if nobody wants them any more by the time they are acquired", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 3);
    await release(await hold(semaphore, 3));
    const caller = new AbortController();
    server.latencyInMs = 50;
    const all = Array.from({ length: 3 }, () => outcomeOf(semaphore.acquire({ abortSignal: caller.signal })));
    await pass(30); // The requests are in flight: with the epochs that this process has reserved, one request is all it takes.
    caller.abort();
    await pass(1_000);
    for (const { value } of all) await release([value]);
    await pass(1_000);
    for (const name of server.blobs.keys()) expect(server.isLeased(name), name).toBe(false);
  });
});

describe("a full semaphore", () => {
  it("costs one process about two requests a second, however many callers wait and however many slots there are", async () => {
    for (const [slots, callers] of [[1, 1], [4, 1], [50, 1], [50, 100]] as const) {
      const server = new FakeLeaseServer();
      server.latencyInMs = 20;
      const held = await hold(semaphoreOn(server, slots), slots);
      const semaphore = semaphoreOn(server, slots);
      const waiting = Array.from({ length: callers }, () => outcomeOf(semaphore.acquire({ waitInMs: 30_000 })));
      const { length } = server.requests;
      await pass(30_100);
      const renewals = server.requests.slice(length).filter(({ operation }) => operation === "renew").length;
      expect((server.requests.length - length - renewals) / 30, `${slots} slots, ${callers} callers`).toBeLessThan(3.5);
      for (const { error } of waiting) expect(error).toMatchObject({ name: "LeaseUnavailableError", message: expect.stringContaining("Other clients still hold all") as string });
      await release(held);
    }
  });

  it("is polled without a listing if that is not allowed: a few slots for each poll", async () => {
    const server = new FakeLeaseServer();
    const held = await hold(semaphoreOn(server, 20), 20);
    server.intercept = (operation) => (operation === "list" ? status(403) : undefined);
    const next = outcomeOf(semaphoreOn(server, 20).acquire());
    const { length } = server.requests;
    await pass(10_000);
    const polls = server.requests.slice(length).filter(({ operation }) => operation === "acquire").length;
    expect(polls / 10).toBeLessThan(20);
    await release(held.slice(0, 10));
    await pass(3_000);
    expect(next.value).toBeDefined();
    await release([...held.slice(10), next.value]);
  });

  it.each([
    ["has callers all the time", 4, 12, 50, 1_600],
    ["calls in a loop", 1, 1, 100, 130],
  ])("gives each of two processes its share, though each of them %s", async (_, slots, callers, ms, least) => {
    const server = new FakeLeaseServer();
    server.latencyInMs = 10;
    const until = 40_000;
    const start = async (): Promise<number> => {
      const semaphore = semaphoreOn(server, slots);
      const inside = new Inside();
      const work = async (): Promise<void> => {
        while (elapsed() < until) await semaphore.withSlot(() => inside.stay(ms));
      };
      await Promise.all(Array.from({ length: callers }, work));
      return inside.total;
    };
    const totals = Promise.all([start(), start()]);
    await pass(until + 3_000);
    const [a, b] = await totals;
    expect(Math.min(a, b) / Math.max(a, b), `${a} and ${b} turns`).toBeGreaterThan(1 / 3);
    // Half of what is possible without changing hands.
    expect(a + b, `${a} and ${b} turns`).toBeGreaterThan(least);
  });
});

describe("the processes that wait for a full semaphore", () => {
  it.each([
    ["six call in a loop, for longer than a waiter is believed in", 6, 1, 3_000, 20_000, 90_000],
    ["six have two callers all the time, for as long", 6, 2, 3_000, 40_000, 90_000],
    ["four have callers all the time, for a moment", 4, 4, 20, 8_000, 30_000],
  ])("have their turn before long: %s", async (_, processes, callers, ms, limitInMs, until) => {
    const server = new FakeLeaseServer();
    server.latencyInMs = 5;
    let longest = 0;
    const work = async (semaphore: Semaphore): Promise<void> => {
      while (elapsed() < until) {
        const from = elapsed();
        await semaphore.withSlot(() => {
          longest = Math.max(longest, elapsed() - from);
          return later(ms);
        });
      }
    };
    const all = Promise.all(
      Array.from({ length: processes }, async (__, n) => {
        const semaphore = semaphoreOn(server, 2);
        await later(7 * n);
        await Promise.all(Array.from({ length: callers }, () => work(semaphore)));
      }),
    );
    await pass(until + 60_000);
    await all;
    expect(longest).toBeLessThan(limitInMs);
    for (const name of server.blobs.keys()) expect(server.isLeased(name), name).toBe(false);
  });
});

describe("the first in line that does not take its turn", () => {
  it("keeps the others from a slot that is free for a few seconds only", async () => {
    const server = new FakeLeaseServer();
    const held = await hold(semaphoreOn(server, 2), 2);
    const first = await run(new BlobLocks(server.container()).acquireInLine("exports/line", {}), 100);
    const next = outcomeOf(semaphoreOn(server, 2).acquire());
    await pass(5_000);
    const begin = elapsed();
    await release(held.slice(0, 1));
    await pass(13_000);
    expect(next.at! - begin).toBeLessThan(12_500);
    await release([...held.slice(1), next.value, first]);
    await pass(5_000);
  });
});

describe("a process that loses the first place in line without a slot", () => {
  it("stands in line again", async () => {
    const server = new FakeLeaseServer();
    const held = await hold(semaphoreOn(server, 1), 1);
    const line = "locks/exports~2Fline";
    const next = outcomeOf(semaphoreOn(server, 1).acquire());
    await pass(5_000);
    expect(server.isLeased(line)).toBe(true);
    await run(new BlobLocks(server.container()).break("exports/line"));
    expect(server.isLeased(line)).toBe(false);
    await pass(10_000);
    expect(server.isLeased(line)).toBe(true);
    await release(held);
    await pass(2_000);
    await release([next.value]);
    await pass(5_000);
    expect(server.isLeased(line)).toBe(false);
  });
});

describe("a slot that cannot be used", () => {
  it.each([
    ["is forbidden", status(403)],
    ["hangs", hang],
    ["fails", status(503)],
  ])("and %s is left out", async (_, answer) => {
    const server = new FakeLeaseServer();
    await release(await hold(semaphoreOn(server, 3), 3));
    server.intercept = (operation, blob) => (blob.endsWith("~2F1") && operation !== "release" ? answer : undefined);
    for (let n = 0; n < 5; n++) {
      const semaphore = semaphoreOn(server, 3);
      const slots = [outcomeOf(semaphore.acquire()), outcomeOf(semaphore.acquire())];
      await pass(1_500);
      expect(slots.map(({ value }) => value?.name).sort()).toEqual(["exports/0", "exports/2"]);
      await release(slots.map(({ value }) => value));
    }
    await pass(31_000);
  });

  it("does not count as free for callers that do not wait", async () => {
    const server = new FakeLeaseServer();
    await release(await hold(semaphoreOn(server, 2), 2));
    server.intercept = (operation, blob) => (blob.endsWith("~2F1") && operation === "acquire" ? status(403) : undefined);
    const one = semaphoreOn(server, 2);
    const first = await run(one.acquire());
    expect(first.name).toBe("exports/0");
    expect(await run(semaphoreOn(server, 2).tryAcquire(), 100)).toBeUndefined();
    await release([first]);
  });

  it("is reported if there is no other", async () => {
    const server = new FakeLeaseServer();
    await release(await hold(semaphoreOn(server, 3), 3));
    server.intercept = (operation) => (operation === "acquire" ? status(403) : undefined);
    await expect(run(semaphoreOn(server, 3).acquire(), 500)).rejects.toMatchObject({ statusCode: 403 });
    await expect(run(semaphoreOn(server, 3).tryAcquire(), 500)).rejects.toMatchObject({ statusCode: 403 });
    const { length } = server.requests;
    await expect(run(semaphoreOn(server, 10_000).acquire(), 500)).rejects.toBeDefined();
    expect(server.requests.length - length).toBeLessThan(20);
  });

  it("is waited for if it does not respond for a while, and there is no other", async () => {
    const server = new FakeLeaseServer();
    await release(await hold(semaphoreOn(server, 1), 1));
    server.intercept = (operation) => (operation === "acquire" ? hang : undefined);
    const semaphore = semaphoreOn(server, 1);
    const waiting = outcomeOf(semaphore.acquire());
    await pass(12_000);
    expect(waiting.at).toBeUndefined();
    server.intercept = undefined;
    await pass(15_000);
    await release([waiting.value]);
    // One that does not wait is told.
    server.intercept = (operation) => (operation === "acquire" ? hang : undefined);
    const attempt = outcomeOf(semaphoreOn(server, 1).tryAcquire());
    await pass(15_000);
    expect(attempt.error).toMatchObject({ name: "OperationTimeoutError" });
    await pass(31_000);
  });

  it("is found to be free although a listing gets no response", async () => {
    const server = new FakeLeaseServer();
    const held = await hold(semaphoreOn(server, 2), 2);
    server.intercept = (operation) => (operation === "list" && server.count("list") === 1 ? hang : undefined);
    const waiting = outcomeOf(semaphoreOn(server, 2).acquire());
    await pass(2_000);
    await release(held);
    await pass(5_000);
    expect(waiting.value).toBeDefined();
    await release([waiting.value]);
    await pass(31_000);
  });

  it("is not followed by more and more others while the service does not respond: their number does not count", async () => {
    const sent = async (slots: number): Promise<number> => {
      const server = new FakeLeaseServer();
      server.intercept = () => hang;
      const waiting = outcomeOf(semaphoreOn(server, slots).acquire({ waitInMs: 20_000 }));
      await pass(20_300);
      expect(waiting.error).toMatchObject({ name: "LeaseUnavailableError" });
      const { length } = server.requests;
      await pass(31_000);
      return length;
    };
    expect(await sent(40)).toBeLessThanOrEqual((await sent(2)) + 5);
  });

  it("and two others do not hide the one that is free", async () => {
    const server = new FakeLeaseServer();
    await release(await hold(semaphoreOn(server, 4), 4));
    server.intercept = (operation, blob) => (!blob.endsWith("~2F3") && operation === "acquire" ? hang : undefined);
    for (let n = 0; n < 5; n++) {
      const waiting = outcomeOf(semaphoreOn(server, 4).acquire());
      await pass(6_000);
      expect(waiting.value?.name).toBe("exports/3");
      await release([waiting.value]);
    }
    await pass(31_000);
  });

  it("does not make a call without time to wait wait for long", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => hang;
    const waiting = outcomeOf(semaphoreOn(server, 4).acquire({ waitInMs: 0 }));
    await pass(5_000);
    expect(waiting.error).toMatchObject({ name: "LeaseUnavailableError" });
    await pass(31_000);
  });
});

describe("the number of slots", () => {
  it("is recorded by the first process, and others that differ are refused", async () => {
    const server = new FakeLeaseServer();
    await release(await hold(semaphoreOn(server, 3), 1));
    const other = semaphoreOn(server, 4);
    const mismatch = { name: "LockModeMismatchError", setting: "slots", expected: "4", found: "3" };
    await expect(run(other.acquire())).rejects.toMatchObject(mismatch);
    await expect(run(other.tryAcquire())).rejects.toMatchObject(mismatch);
    await expect(run(other.withSlot(() => undefined))).rejects.toMatchObject(mismatch);
    await release(await hold(semaphoreOn(server, 3), 3));
    // An operator has decided for the other number.
    server.blobs.delete("locks/exports.slots");
    await release([await run(other.acquire())]);
    await expect(run(semaphoreOn(server, 3).acquire())).rejects.toMatchObject({ name: "LockModeMismatchError", found: "4" });
  });

  it("is decided once if two processes come at the same time", async () => {
    const server = new FakeLeaseServer();
    const both = [outcomeOf(semaphoreOn(server, 3).acquire()), outcomeOf(semaphoreOn(server, 4).acquire())];
    await pass(100);
    expect(both.map(({ value }) => value?.name !== undefined)).toEqual([true, false]);
    expect(both[1]!.error).toMatchObject({ name: "LockModeMismatchError" });
    await release([both[0]!.value]);
  });

  it("costs each process one request, once", async () => {
    const server = new FakeLeaseServer();
    await release(await hold(semaphoreOn(server, 2), 2));
    const { length } = server.requests;
    const semaphore = semaphoreOn(server, 2);
    for (let n = 0; n < 5; n++) await run(semaphore.withSlot(() => undefined));
    const about = server.requests.slice(length).filter(({ blob }) => blob === "locks/exports.slots");
    expect(about.map(({ operation }) => operation)).toEqual(["properties"]);
  });

  it("is not needed to use the semaphore", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (_, blob) => (blob.endsWith(".slots") ? hang : undefined);
    const slot = await run(semaphoreOn(server, 2).acquire(), 1_100);
    await release([slot]);
  });
});
