import { describe, expect, it } from "vitest";
import { Semaphore } from "../../src/lock/semaphore.js";
import { hang } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { countedAbort, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { locksOn, run } from "./support.js";

useFakeClock();

async function namesOf(items: AsyncIterable<{ readonly name: string }>): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of items) names.push(name);
  return names.sort();
}

describe("list", () => {
  it("shows the locks whose names begin with a prefix, whatever is in it", async () => {
    const locks = locksOn(new FakeLeaseServer());
    for (const name of ["orders/1", "orders/2", "order", "a.b/c", "a.bc", "ä~1"]) await run(locks.withLock(name, () => undefined));
    expect(await run(namesOf(locks.list({ prefix: "orders/" })))).toEqual(["orders/1", "orders/2"]);
    expect(await run(namesOf(locks.list({ prefix: "a.b" })))).toEqual(["a.b/c", "a.bc"]);
    expect(await run(namesOf(locks.list({ prefix: "ä" })))).toEqual(["ä~1"]);
    expect(await run(namesOf(locks.list({ prefix: "none" })))).toEqual([]);
    expect(await run(namesOf(locks.list()))).toHaveLength(6);
  });

  it("ends if the service does not respond", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation) => (operation === "list" ? hang : undefined);
    const listing = outcomeOf(namesOf(locksOn(server).list()));
    const inspecting = outcomeOf(new Semaphore(locksOn(server), "s", 2).inspect());
    await pass(30_000);
    for (const { error } of [listing, inspecting]) expect(error).toMatchObject({ code: "OPERATION_TIMEOUT", committed: false });
  });

  it("is cancelled with the reason of the caller while a request hangs, and leaves no listener", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation) => (operation === "list" ? hang : undefined);
    const caller = countedAbort();
    const outcome = outcomeOf(namesOf(locksOn(server).list({ abortSignal: caller.signal })));
    await pass(50);
    expect(outcome.error).toBeUndefined();
    const reason = new Error("no longer wanted");
    caller.abort(reason);
    await pass(1);
    expect(outcome.error).toBe(reason);
    expect(caller.listeners()).toBe(0);
  });

  it("is cancelled between two locks, and sends nothing if it was cancelled before", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    for (const name of ["a", "b"]) await run(locks.withLock(name, () => undefined));
    const caller = new AbortController();
    const seen: string[] = [];
    const list = async (): Promise<void> => {
      for await (const { name } of locks.list({ abortSignal: caller.signal })) {
        seen.push(name);
        caller.abort(new Error("enough"));
      }
    };
    await expect(run(list())).rejects.toThrow("enough");
    expect(seen).toEqual(["a"]);
    const before = server.count("list");
    await expect(list()).rejects.toThrow("enough");
    expect(server.count("list")).toBe(before);
  });
});

describe("Semaphore.inspect", () => {
  it("shows the holders of slots, and nothing else", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server, "this process");
    const semaphore = new Semaphore(locks, "s", 3);
    expect(await run(semaphore.inspect())).toEqual({ slots: 3, holders: [] });
    const slots = [await run(semaphore.acquire(), 50), await run(semaphore.acquire(), 50)];
    // Neither the lock of a similar name nor a slot of another semaphore counts.
    const others = [await run(locks.acquire("s/x")), await run(locks.acquire("s/0/0")), await run(locks.acquire("st/0"))];
    const { holders } = await run(semaphore.inspect());
    expect(holders.map(({ name }) => name).sort()).toEqual(slots.map(({ name }) => name).sort());
    for (const holder of holders) {
      expect(holder).toMatchObject({ state: "leased", holder: "this process", epoch: slots.find(({ name }) => name === holder.name)!.epoch });
    }
    await run(slots[0]!.release());
    expect((await run(semaphore.inspect())).holders.map(({ name }) => name)).toEqual([slots[1]!.name]);
    for (const lock of [slots[1]!, ...others]) await run(lock.release());
  });

  it("costs 1 request", async () => {
    const server = new FakeLeaseServer();
    await run(new Semaphore(locksOn(server), "s", 100).inspect());
    expect(server.requests.map(({ operation }) => operation)).toEqual(["list"]);
  });
});
