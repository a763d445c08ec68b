import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { Semaphore } from "../../src/lock/semaphore.js";
import { withLease } from "../../src/lease/with-lease.js";
import { jsonBlob } from "../../src/target/blob-content.js";
import { optimisticUpdate } from "../../src/update/optimistic-update.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();

describe("inside a function that holds a lock, a call that waits for the same lock", () => {
  it.each<[string, string, (locks: BlobLocks) => Promise<unknown>]>([
    ["withLock in withLock", 'BlobLocks.withLock would wait forever: the BlobLocks.withLock around it holds the lock "a"', (locks) => locks.withLock("a", () => locks.withLock("a", () => 1))],
    ["acquire in withLock", 'BlobLocks.acquire would wait forever: the BlobLocks.withLock around it holds the lock "a"', (locks) => locks.withLock("a", () => locks.acquire("a"))],
    ["withLocks in withLock", 'BlobLocks.withLocks would wait forever: the BlobLocks.withLock around it holds the lock "a"', (locks) => locks.withLock("a", () => locks.withLocks(["0", "a"], () => 1))],
    ["acquireAll in withLock", 'BlobLocks.acquireAll would wait forever: the BlobLocks.withLock around it holds the lock "a"', (locks) => locks.withLock("a", () => locks.acquireAll(["0", "a"]))],
    ["withLock in withLocks", 'BlobLocks.withLock would wait forever: the BlobLocks.withLocks around it holds the lock "b"', (locks) => locks.withLocks(["a", "b"], () => locks.withLock("b", () => 1))],
  ])("rejects at once: %s", async (_, message, call) => {
    const server = new FakeLeaseServer();
    const outcome = outcomeOf(call(locksOn(server)));
    await pass(50);
    expect(outcome.error).toBeInstanceOf(TypeError);
    expect((outcome.error as Error).message).toContain(message);
    expect((outcome.error as Error).message).toContain("or move");
    // Neither the lock itself nor one that comes before it in the order was left behind.
    expect(["0", "a", "b"].filter((name) => server.isLeased(`locks/${name}`))).toEqual([]);
  });

  it("rejects also through another object for the same container and prefix", async () => {
    const server = new FakeLeaseServer();
    const outcome = outcomeOf(locksOn(server).withLock("a", () => locksOn(server).acquire("a")));
    await pass(50);
    expect(outcome.error).toBeInstanceOf(TypeError);
  });

  it("rejects also if it is the lease of the lock's blob", async () => {
    const server = new FakeLeaseServer();
    const outcome = outcomeOf(locksOn(server).withLock("a", () => withLease(server.blob("locks/a"), () => 1)));
    await pass(50);
    expect((outcome.error as Error).message).toContain("withLease would wait forever: the BlobLocks.withLock around it");
  });

  it("gets undefined from tryAcquire", async () => {
    const locks = locksOn(new FakeLeaseServer());
    expect(await run(locks.withLock("a", () => locks.tryAcquire("a")))).toBeUndefined();
  });
});

describe("inside functions that hold all slots of a semaphore, a call that waits for one", () => {
  it.each<[string, number, string, (semaphore: Semaphore, locks: BlobLocks) => Promise<unknown>]>([
    ["withSlot in withSlot", 1, "Semaphore.withSlot would wait forever: the Semaphore.withSlot around it holds the only slot", (semaphore) => semaphore.withSlot(() => semaphore.withSlot(() => 1))],
    ["acquire in withSlot", 1, "Semaphore.acquire would wait forever: the Semaphore.withSlot around it holds the only slot", (semaphore) => semaphore.withSlot(() => semaphore.acquire())],
    ["withSlot in two withSlot", 2, "holds the last slot", (semaphore) => semaphore.withSlot(() => semaphore.withSlot(() => semaphore.withSlot(() => 1)))],
    ["withSlot in withLock of the slot", 1, "Semaphore.withSlot would wait forever: the BlobLocks.withLock around it holds the only slot", (semaphore, locks) => locks.withLock("s/0", () => semaphore.withSlot(() => 1))],
  ])("rejects at once: %s", async (_, slots, message, call) => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const outcome = outcomeOf(call(new Semaphore(locks, "s", slots), locks));
    await pass(100);
    expect(outcome.error).toBeInstanceOf(TypeError);
    expect((outcome.error as Error).message).toContain(message);
    expect(["s/0", "s/1"].filter((name) => server.isLeased(`locks/${name.replace("/", "~2F")}`))).toEqual([]);
  });

  it("resolves while a slot is left, and with undefined if it does not wait", async () => {
    const semaphore = new Semaphore(locksOn(new FakeLeaseServer()), "s", 2);
    expect(await run(semaphore.withSlot(() => semaphore.withSlot(() => semaphore.tryAcquire())), 1_000)).toBeUndefined();
    const other = new Semaphore(locksOn(new FakeLeaseServer()), "s", 12);
    expect(await run(semaphore.withSlot(() => other.withSlot(() => "done")), 1_000)).toBe("done");
  });
});

describe("functions of callers that share requests", () => {
  it("have their own holds: the mutator of another caller is not nested, that of the holder is", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const blob = new FakeBlockBlob(new FakeService());
    const outcomes: Record<string, { value?: unknown; error?: unknown }> = {};
    const update = (name: string, mutator: () => Promise<number>): Promise<unknown> => {
      const updating = optimisticUpdate(jsonBlob<number>(blob), mutator, { initial: 0 });
      outcomes[name] = outcomeOf(updating);
      return updating.catch(() => undefined);
    };
    // The holder begins: its call runs the shared batch, in which the mutator of the other caller waits for the lock.
    const holder = locks.withLock("a", async () => {
      const own = update("holder", () => locks.acquire("a").then(() => 1));
      tellOther();
      await own;
      // Still held when the mutator of the other caller runs.
      await later(500);
    });
    let tellOther!: () => void;
    const other = new Promise<void>((resolve) => (tellOther = resolve)).then(() => update("other", () => locks.withLock("a", () => 2)));
    await run(Promise.all([holder, other]), 10_000);
    expect(outcomes["holder"]!.error).toBeInstanceOf(TypeError);
    expect(outcomes["other"]!.error).toBeUndefined();
    expect(outcomes["other"]!.value).toMatchObject({ value: 2 });
  });
});

describe("is never mistaken for nested", () => {
  it("another name, or the same name with another prefix", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const others = new BlobLocks(server.container(), { prefix: "others/" });
    expect(await run(locks.withLock("a", () => locks.withLock("b", () => others.withLock("a", () => "all"))), 100)).toBe("all");
  });

  it("a slot inside a slot", async () => {
    const semaphore = new Semaphore(locksOn(new FakeLeaseServer()), "s", 2);
    expect(await run(semaphore.withSlot(() => semaphore.withSlot(() => "both")), 200)).toBe("both");
  });

  it("unrelated callers at the same time, however they take turns", async () => {
    const locks = locksOn(new FakeLeaseServer());
    let running = 0;
    const turn = async (n: number): Promise<number> => {
      expect(++running).toBe(1);
      await later(n % 3);
      // Another lock, so that the contexts are mixed as much as can be.
      await locks.withLock(`own-${n}`, () => later(1));
      running--;
      return n;
    };
    const results = run(Promise.all(Array.from({ length: 20 }, (_, n) => locks.withLock("a", () => turn(n)))), 5_000);
    expect(await results).toEqual(Array.from({ length: 20 }, (_, n) => n));
  });

  it("work that was started inside, and calls after the release", async () => {
    const locks = locksOn(new FakeLeaseServer());
    let background: Promise<string> | undefined;
    await run(locks.withLock("a", () => void (background = later(100).then(() => locks.withLock("a", () => "later")))));
    expect(await run(background!, 200)).toBe("later");
  });

  it("a caller whose wait began outside, and ends while another function holds the lock", async () => {
    const locks = locksOn(new FakeLeaseServer());
    const first = outcomeOf(locks.withLock("a", () => later(50)));
    const second = outcomeOf(locks.withLock("a", () => "second"));
    await pass(200);
    expect(first.error ?? second.error).toBeUndefined();
    expect(second.value).toBe("second");
  });
});
