import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import type { LockHandle } from "../../src/lease/lease-handle.js";
import { Semaphore } from "../../src/lock/semaphore.js";
import { after, hang, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { countedAbort, elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, run } from "./support.js";

useFakeClock();

function semaphoreOn(server: FakeLeaseServer, slots: number): Semaphore {
  return new Semaphore(new BlobLocks(server.container()), "exports", slots);
}

async function hold(semaphore: Semaphore, count: number): Promise<LockHandle[]> {
  const slots: LockHandle[] = [];
  for (let i = 0; i < count; i++) slots.push(await run(semaphore.acquire()));
  return slots;
}

async function giveBack(slots: readonly (LockHandle | null | undefined)[]): Promise<void> {
  await run(Promise.all(slots.map(async (slot) => slot?.release())));
}

describe("a semaphore", () => {
  it("looks once for everybody, also for those without time to wait", async () => {
    const semaphore = semaphoreOn(new FakeLeaseServer(), 4);
    const slots = await run(Promise.all(Array.from({ length: 4 }, () => semaphore.acquire({ waitInMs: 0 }))), 1_000);
    expect(new Set(slots.map((slot) => slot.name)).size).toBe(4);
    await giveBack(slots);
  });

  it("never lets in more than it has slots, over several processes", async () => {
    const server = new FakeLeaseServer();
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await later(40);
      inside--;
    };
    const semaphores = Array.from({ length: 3 }, () => semaphoreOn(server, 4));
    const all = Promise.all(Array.from({ length: 30 }, (_, i) => semaphores[i % 3]!.withSlot(work)));
    await run(all, 20_000);
    expect(most).toBe(4);
  });

  it("is full when all slots are held, and free again when one is given back", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 2);
    const slots = await hold(semaphore, 2);
    expect(new Set(slots.map((slot) => slot.name))).toEqual(new Set(["exports/0", "exports/1"]));
    expect(await run(semaphore.tryAcquire())).toBeUndefined();
    expect(await run(semaphoreOn(server, 2).tryAcquire())).toBeUndefined();
    await giveBack(slots.slice(0, 1));
    const next = await run(semaphoreOn(server, 2).tryAcquire());
    expect(next!.name).toBe(slots[0]!.name);
    await giveBack([slots[1], next]);
  });

  it("gets the slot of a holder that died back when its lease has run out", async () => {
    const server = new FakeLeaseServer();
    await hold(semaphoreOn(server, 1), 1);
    server.intercept = (operation) => (operation === "renew" ? hang : undefined);
    const next = outcomeOf(semaphoreOn(server, 1).acquire());
    await pass(32_000);
    expect(next.at).toBeGreaterThanOrEqual(30_000);
    server.intercept = undefined;
    await giveBack([next.value]);
  });

  it("gives the result, and the error of the work", async () => {
    const semaphore = semaphoreOn(new FakeLeaseServer(), 1);
    const first = await run(semaphore.withSlot((slot) => slot.epoch));
    await expect(run(semaphore.withSlot(() => Promise.reject(new Error("work"))))).rejects.toThrow("work");
    await expect(run(semaphore.withSlot((slot) => slot.epoch))).resolves.toBeGreaterThan(first);
  });
});

describe("the line for a slot", () => {
  it("is first come, first served", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 2);
    const order: number[] = [];
    const all = Array.from({ length: 20 }, (_, i) =>
      semaphore.withSlot(async () => {
        order.push(i);
        await later(10);
      }),
    );
    await run(Promise.all(all), 3_000);
    expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  it("moves on at once when a slot is given back here, without waiting for the next look", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 1);
    const [first] = await hold(semaphore, 1);
    const next = outcomeOf(semaphore.acquire());
    await pass(20_000);
    const released = elapsed();
    await giveBack([first]);
    expect(next.at! - released).toBeLessThanOrEqual(5);
    await giveBack([next.value]);
  });

  it("costs no request while all slots are held here", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 2);
    const slots = await hold(semaphore, 2);
    const { length } = server.requests;
    const waiting = Array.from({ length: 10 }, () => outcomeOf(semaphore.acquire({ waitInMs: 5_000 })));
    await pass(5_000);
    expect(server.requests).toHaveLength(length);
    for (const { error, at } of waiting) {
      expect(error).toMatchObject({ name: "LeaseUnavailableError", waitedInMs: 5_000 });
      expect(at).toBe(waiting[0]!.at);
    }
    await giveBack(slots);
  });

  it("closes up when somebody in the middle aborts or has waited long enough", async () => {
    const semaphore = semaphoreOn(new FakeLeaseServer(), 1);
    const [first] = await hold(semaphore, 1);
    const order: string[] = [];
    const caller = countedAbort();
    const a = outcomeOf(semaphore.withSlot(() => void order.push("a")));
    const b = outcomeOf(semaphore.withSlot(() => void order.push("b"), { abortSignal: caller.signal }));
    const c = outcomeOf(semaphore.withSlot(() => void order.push("c"), { waitInMs: 300 }));
    const d = outcomeOf(semaphore.withSlot(() => void order.push("d")));
    await pass(100);
    caller.abort(new Error("enough"));
    await pass(0);
    expect(b.error).toMatchObject({ message: "enough" });
    expect(caller.listeners()).toBe(0);
    await pass(400);
    expect(c.error).toMatchObject({ name: "LeaseUnavailableError" });
    expect(order, "nobody overtakes").toEqual([]);
    await giveBack([first]);
    await pass(1_000);
    expect(order).toEqual(["a", "d"]);
    expect([a.error, d.error]).toEqual([undefined, undefined]);
  });

  it("lets nobody behind one who left it overtake those before", async () => {
    for (let wait = 1_000; wait <= 10_000; wait += 1_000) {
      const semaphore = semaphoreOn(new FakeLeaseServer(), 1);
      const [first] = await hold(semaphore, 1);
      const order: string[] = [];
      const caller = countedAbort();
      const enter = (name: string, abortSignal?: AbortSignal) =>
        outcomeOf(semaphore.withSlot(() => void order.push(name), { abortSignal }));
      enter("a");
      enter("b", caller.signal);
      for (const name of ["c", "d", "e"]) enter(name);
      caller.abort();
      await pass(wait);
      await giveBack([first]);
      await pass(5_000);
      expect(order).toEqual(["a", "c", "d", "e"]);
    }
  });

  it("is left at once by its first, who looks, when it aborts", async () => {
    const server = new FakeLeaseServer();
    const others = await hold(semaphoreOn(server, 2), 2);
    const caller = countedAbort();
    const semaphore = semaphoreOn(server, 2);
    const first = outcomeOf(semaphore.acquire({ abortSignal: caller.signal }));
    const second = outcomeOf(semaphore.acquire());
    await pass(1_000);
    caller.abort(new Error("enough"));
    await pass(5);
    expect(first.error).toMatchObject({ message: "enough" });
    expect(caller.listeners()).toBe(0);
    await giveBack(others);
    await pass(2_000);
    await giveBack([second.value]);
  });

  it("looks once for whoever does not want to wait", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 1);
    const slot = await run(semaphore.acquire({ waitInMs: 0 }));
    await expect(run(semaphoreOn(server, 1).acquire({ waitInMs: 0 }))).rejects.toMatchObject({ name: "LeaseUnavailableError" });
    await giveBack([slot]);
  });

  it("goes on after a look has failed for one", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 1);
    server.intercept = () => status(403);
    const first = outcomeOf(semaphore.acquire());
    await pass(0);
    server.intercept = undefined;
    const second = await run(semaphore.acquire());
    expect(first.error).toMatchObject({ statusCode: 403 });
    await giveBack([second]);
  });

  it("outlasts failures that pass", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(503);
    const outcome = outcomeOf(semaphoreOn(server, 2).acquire());
    await pass(9_000);
    server.intercept = undefined;
    await pass(2_000);
    expect(outcome.error).toBeUndefined();
    await giveBack([outcome.value]);
  });

  it("gives up after ten seconds of failures, and at once after one that will not pass", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(503);
    const outcome = outcomeOf(semaphoreOn(server, 2).acquire());
    await pass(12_000);
    expect(outcome.error).toMatchObject({ statusCode: 503 });
    expect(outcome.at).toBeGreaterThanOrEqual(10_000);
    server.intercept = () => status(404, "ContainerNotFound");
    const before = elapsed();
    const hopeless = outcomeOf(semaphoreOn(server, 2).acquire());
    await pass(12_000);
    expect(hopeless.error).toMatchObject({ name: "TargetNotFoundError" });
    expect(hopeless.at! - before).toBeLessThan(100);
  });

  it("says that the last request failed if its time is over meanwhile", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => after(100, status(503));
    const outcome = outcomeOf(semaphoreOn(server, 2).acquire({ waitInMs: 500 }));
    await pass(12_000);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError", cause: { statusCode: 503 }, message: expect.stringContaining("the last request failed") as string });
  });

  it("honours the defaults of the locks", async () => {
    const server = new FakeLeaseServer();
    const semaphore = new Semaphore(new BlobLocks(server.container(), { defaults: { waitInMs: 200 } }), "s", 1);
    const slots = await hold(semaphore, 1);
    const next = outcomeOf(semaphore.acquire());
    await pass(250);
    expect(next.error).toMatchObject({ name: "LeaseUnavailableError" });
    await giveBack(slots);
  });
});

describe("misuse of a semaphore", () => {
  it.each([0, -1, 1.5, NaN, 10_001])("%s slots are refused", (slots) => {
    expect(() => semaphoreOn(new FakeLeaseServer(), slots)).toThrow("slots");
  });

  it("is found out before anything is sent", async () => {
    const server = new FakeLeaseServer();
    const semaphore = semaphoreOn(server, 1);
    expect(() => new Semaphore(new BlobLocks(server.container()), "", 1)).toThrow(RangeError);
    await expect(semaphore.acquire({ waitInMs: -1 })).rejects.toThrow("waitInMs");
    await expect(semaphore.acquire({ durationInSeconds: 5 })).rejects.toThrow("durationInSeconds");
    await expect(semaphore.withSlot("fn" as unknown as () => void)).rejects.toThrow("fn must be a function");
    expect(server.requests).toEqual([]);
  });
});
