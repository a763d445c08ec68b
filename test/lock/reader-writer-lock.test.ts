import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { readerGroupFor } from "../../src/lock/reader-group.js";
import { ReaderWriterLock } from "../../src/lock/reader-writer-lock.js";
import type { LockHandleLike } from "../../src/lease/lease-handle.js";
import { after, hang, ok, resent, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { blockEventLoop, countedAbort, elapsed, outcomeOf, pass, suspendMachine, useFakeClock } from "../lease/fakes/time.js";
import { later, run } from "./support.js";

useFakeClock();

/** Of a process of its own. */
function lockOn(server: FakeLeaseServer, holder?: string): ReaderWriterLock {
  return new ReaderWriterLock(new BlobLocks(server.container(), { holder, defaults: { durationInSeconds: 15 } }), "orders");
}

function operations(server: FakeLeaseServer, from = 0): string[] {
  return server.requests.slice(from).map(({ operation }) => operation);
}

function readerBlobs(server: FakeLeaseServer): string[] {
  return [...server.blobs.keys()].filter((name) => name.startsWith("locks/orders~2Fread~2F"));
}

async function release(...locks: (LockHandleLike | null | undefined)[]): Promise<void> {
  await run(Promise.all(locks.map(async (lock) => lock?.release())));
}

/** Overlaps of readers with writers, and of writers. */
class Section {
  readers = 0;
  writers = 0;
  mostReaders = 0;
  turns = 0;

  readonly read = async (ms: number): Promise<void> => {
    expect(this.writers, "a reader beside a writer").toBe(0);
    this.mostReaders = Math.max(this.mostReaders, ++this.readers);
    await later(ms);
    this.readers--;
    this.turns++;
  };

  readonly write = async (ms: number): Promise<void> => {
    expect([this.readers, this.writers], "a writer beside others").toEqual([0, 0]);
    this.writers++;
    await later(ms);
    this.writers--;
    this.turns++;
  };
}

describe("a reader-writer lock", () => {
  it("has many readers or one writer, over several processes", async () => {
    const server = new FakeLeaseServer();
    const section = new Section();
    const locks = Array.from({ length: 4 }, () => lockOn(server));
    const work = async (lock: ReaderWriterLock, n: number): Promise<void> => {
      for (let i = 0; i < 6; i++) {
        if ((n + i) % 4 === 0) await lock.withWriteLock(() => section.write(20));
        else await lock.withReadLock(() => section.read(30));
        await later(n * 3);
      }
    };
    await run(Promise.all(Array.from({ length: 12 }, (_, n) => work(locks[n % 4]!, n))), 60_000);
    expect(section.turns).toBe(72);
    expect(section.mostReaders).toBeGreaterThan(3);
    expect(readerBlobs(server)).toEqual([]);
  });

  it("gives each writer a larger epoch", async () => {
    const server = new FakeLeaseServer();
    const epochs: number[] = [];
    for (let n = 0; n < 5; n++) epochs.push(await run(lockOn(server).withWriteLock((lock) => lock.epoch), 100));
    expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
  });

  it("gives the result, and the error of the work", async () => {
    const lock = lockOn(new FakeLeaseServer());
    expect(await run(lock.withReadLock(() => "read"))).toBe("read");
    expect(await run(lock.withWriteLock(() => "written"))).toBe("written");
    await expect(run(lock.withReadLock(() => Promise.reject(new Error("work"))))).rejects.toThrow("work");
    await expect(run(lock.withWriteLock(() => Promise.reject(new Error("work"))))).rejects.toThrow("work");
    await release(await run(lock.acquireWriteLock()));
  });

  it("costs 4 requests for a reader, none for others of its process, and 3 for a writer", async () => {
    const server = new FakeLeaseServer();
    const lock = lockOn(server);
    await run(lock.withReadLock(() => undefined));
    expect(operations(server)).toEqual(["create", "acquire", "properties", "delete"]);
    const first = await run(lock.acquireReadLock());
    let before = server.requests.length;
    const others = await run(Promise.all(Array.from({ length: 20 }, () => lock.acquireReadLock())));
    await release(...others);
    expect(operations(server, before)).toEqual([]);
    // Half a second later, one request for all: does a writer wait?
    await pass(600);
    before = server.requests.length;
    const later_ = await run(Promise.all(Array.from({ length: 20 }, () => lock.acquireReadLock())));
    expect(operations(server, before)).toEqual(["properties"]);
    await release(first, ...later_);
    expect(readerBlobs(server)).toEqual([]);
    await run(lock.withWriteLock(() => undefined), 100);
    before = server.requests.length;
    await run(lock.withWriteLock(() => undefined), 100);
    // The epoch of this process is known, if the response to acquire says that the record has not changed.
    expect(operations(server, before).filter((operation) => operation !== "properties" && operation !== "metadata")).toEqual(["acquire", "list", "release"]);
  });

  it("shows who holds it, with 1 request", async () => {
    const server = new FakeLeaseServer();
    expect(await run(lockOn(server).inspect())).toEqual({ writer: undefined, readers: [] });
    const readers = [await run(lockOn(server, "a").acquireReadLock({ data: "export" })), await run(lockOn(server, "b").acquireReadLock())];
    const writing = outcomeOf(lockOn(server, "c").acquireWriteLock());
    await pass(50);
    const before = server.requests.length;
    const { writer, readers: seen } = await run(lockOn(server).inspect(), 2);
    expect(operations(server, before).filter((operation) => operation === "list").length).toBeLessThanOrEqual(2);
    expect(writer).toMatchObject({ name: "orders/write", holder: "c", state: "leased" });
    expect(seen.map(({ holder, data }) => [holder, data]).sort()).toEqual([["a", "export"], ["b", undefined]]);
    await release(...readers);
    await pass(1_000);
    await release(writing.value);
  });
});

describe("a writer that waits", () => {
  it("keeps new readers out, of all processes, until it is done", async () => {
    const server = new FakeLeaseServer();
    const [a, b, c] = [lockOn(server), lockOn(server), lockOn(server)];
    const reader = await run(a.acquireReadLock());
    const writing = outcomeOf(b.acquireWriteLock());
    await pass(600);
    const others = [outcomeOf(a.acquireReadLock()), outcomeOf(c.acquireReadLock())];
    await pass(3_000);
    expect(writing.value).toBeUndefined();
    expect(others.map(({ value }) => value)).toEqual([undefined, undefined]);
    await release(reader);
    await pass(1_500);
    expect(writing.value).toBeDefined();
    expect(others.map(({ value }) => value)).toEqual([undefined, undefined]);
    await release(writing.value);
    await pass(2_000);
    expect(others.every(({ value }) => value !== undefined)).toBe(true);
    await release(...others.map(({ value }) => value));
  });

  it("is not kept out by readers that come all the time", async () => {
    const server = new FakeLeaseServer();
    const section = new Section();
    let stopped = false;
    const reading = [lockOn(server), lockOn(server)].flatMap((lock) =>
      Array.from({ length: 5 }, async (_, n) => {
        await later(n * 40);
        while (!stopped) await lock.withReadLock(() => section.read(200));
      }),
    );
    await pass(2_000);
    const writing = outcomeOf(lockOn(server).withWriteLock(() => section.write(10)));
    const since = elapsed();
    await pass(5_000);
    expect(writing.at! - since).toBeLessThan(2_500);
    stopped = true;
    await run(Promise.all(reading), 5_000);
  });

  it("gives up after waitInMs, names a reader, and lets the next readers in", async () => {
    const server = new FakeLeaseServer();
    const reader = await run(lockOn(server, "the reader").acquireReadLock());
    const waiting = outcomeOf(lockOn(server).acquireWriteLock({ waitInMs: 2_000 }));
    await pass(2_100);
    expect(waiting.error).toMatchObject({ name: "LeaseUnavailableError", holder: "the reader", message: expect.stringContaining("the reader still reads") as string });
    await release(await run(lockOn(server).acquireReadLock({ waitInMs: 0 })));
    await release(reader);
  });

  it("can be cancelled while it waits for readers, and leaves nothing behind", async () => {
    const server = new FakeLeaseServer();
    const reader = await run(lockOn(server).acquireReadLock());
    const caller = countedAbort();
    const waiting = outcomeOf(lockOn(server).acquireWriteLock({ abortSignal: caller.signal }));
    await pass(1_000);
    caller.abort(new Error("enough"));
    await pass(10);
    expect(waiting.error).toMatchObject({ message: "enough" });
    expect(caller.listeners()).toBe(0);
    expect(server.isLeased("locks/orders~2Fwrite")).toBe(false);
    await release(reader);
  });

  it("continues to wait if the gate is lost meanwhile", async () => {
    const server = new FakeLeaseServer();
    const reader = await run(lockOn(server).acquireReadLock());
    const writing = outcomeOf(lockOn(server).acquireWriteLock());
    await pass(1_000);
    server.blobs.get("locks/orders~2Fwrite")!.lease = undefined;
    await pass(6_000);
    expect(writing.error).toBeUndefined();
    expect(server.isLeased("locks/orders~2Fwrite")).toBe(true);
    await release(reader);
    await pass(2_000);
    await release(writing.value);
  });

  it.each([
    ["the event loop is blocked", blockEventLoop],
    ["the machine is suspended", suspendMachine],
  ])("does not begin if %s past its lease while it looks for readers, and waits anew", async (_, stop) => {
    const server = new FakeLeaseServer();
    let looks = 0;
    server.intercept = (operation) => (operation === "list" && looks++ === 0 ? after(50, ok) : undefined);
    const writing = outcomeOf(lockOn(server).acquireWriteLock());
    while (looks === 0) await pass(1);
    await pass(20);
    // The response finds no readers, and arrives before any timer has run.
    stop(16_000);
    await pass(40);
    expect(() => writing.value?.assertHeld()).not.toThrow();
    // By the clock of the service the lease may have just begun.
    await pass(20_000);
    writing.value!.assertHeld();
    expect(looks).toBe(2);
    await release(writing.value);
    expect(server.isLeased("locks/orders~2Fwrite")).toBe(false);
    await pass(20_000);
  });
});

describe("calls that do not wait", () => {
  it("get the lock if it is free, and nothing if it is not", async () => {
    const server = new FakeLeaseServer();
    const [a, b] = [lockOn(server), lockOn(server)];
    const reader = await run(a.tryAcquireReadLock());
    const other = await run(b.tryAcquireReadLock());
    expect(await run(b.tryAcquireWriteLock())).toBeUndefined();
    expect(server.isLeased("locks/orders~2Fwrite")).toBe(false);
    await release(reader, other);
    const writer = await run(b.tryAcquireWriteLock());
    expect(writer).toBeDefined();
    expect(await run(a.tryAcquireReadLock())).toBeUndefined();
    expect(await run(a.tryAcquireWriteLock())).toBeUndefined();
    await expect(run(a.acquireReadLock({ waitInMs: 0 }))).rejects.toMatchObject({ name: "LeaseUnavailableError" });
    await expect(run(a.acquireWriteLock({ waitInMs: 0 }))).rejects.toMatchObject({ name: "LeaseUnavailableError" });
    await release(writer);
    expect(readerBlobs(server)).toEqual([]);
  });

  it("name the writer", async () => {
    const server = new FakeLeaseServer();
    const writer = await run(lockOn(server, "the writer").acquireWriteLock());
    const waiting = outcomeOf(lockOn(server).acquireReadLock({ waitInMs: 300 }));
    await pass(400);
    expect(waiting.error).toMatchObject({ name: "LeaseUnavailableError", holder: "the writer" });
    await release(writer);
  });
});

describe("a crash", () => {
  it("of a reader delays a writer until its lease has expired, and the writer removes its blob", async () => {
    const server = new FakeLeaseServer();
    const dead = await run(lockOn(server).acquireReadLock());
    server.intercept = (operation) => (operation === "renew" ? hang : undefined);
    const writing = outcomeOf(lockOn(server).acquireWriteLock());
    await pass(18_000);
    expect(dead.signal.aborted).toBe(true);
    expect(writing.at).toBeGreaterThanOrEqual(15_000);
    await pass(100);
    expect(readerBlobs(server)).toEqual([]);
    server.intercept = undefined;
    await release(writing.value);
    await release(dead).catch(() => undefined);
  });

  it("of a writer delays readers until its lease has expired", async () => {
    const server = new FakeLeaseServer();
    const dead = await run(lockOn(server).acquireWriteLock());
    server.intercept = (operation, blob) => (operation === "renew" && blob.endsWith("write") ? hang : undefined);
    const reading = outcomeOf(lockOn(server).acquireReadLock());
    await pass(20_000);
    expect(dead.signal.aborted).toBe(true);
    expect(reading.at).toBeGreaterThanOrEqual(15_000);
    await release(reading.value);
    await release(dead).catch(() => undefined);
  });

  it.each(["create", "acquire", "properties", "delete"] as const)("of a reader after its %s blocks nobody for longer than a lease", async (step) => {
    const server = new FakeLeaseServer();
    const dead = new AbortController();
    let isDead = false;
    server.disturb = (operation) => {
      if (operation === step) isDead = true;
      return isDead ? hang : undefined;
    };
    server.intercept = () => (isDead ? hang : undefined);
    const crashed = outcomeOf(lockOn(server).withReadLock(() => undefined, { abortSignal: dead.signal }));
    await pass(50);
    dead.abort();
    await pass(16_000);
    server.disturb = server.intercept = undefined;
    isDead = false;
    await pass(61_000);
    const writer = await run(lockOn(server).acquireWriteLock({ waitInMs: 1_000 }), 1_500);
    await pass(100);
    expect(readerBlobs(server), `of ${JSON.stringify(crashed)}`).toEqual([]);
    await release(writer);
  });

  it("of a writer between gate and readers blocks nobody for longer than a lease", async () => {
    const server = new FakeLeaseServer();
    const reader = await run(lockOn(server).acquireReadLock());
    const dead = new AbortController();
    const writing = outcomeOf(lockOn(server).acquireWriteLock({ abortSignal: dead.signal }));
    await pass(500);
    server.intercept = (operation, blob) => (blob.includes("write") || operation === "list" ? hang : undefined);
    dead.abort();
    await pass(16_000);
    server.intercept = undefined;
    expect(writing.value).toBeUndefined();
    const other = await run(lockOn(server).acquireReadLock({ waitInMs: 2_000 }), 3_000);
    await release(reader, other);
  });
});

describe("the blob of a reader, whose create arrives again after it was deleted,", () => {
  const arrives = (server: FakeLeaseServer, name: string): Promise<unknown> =>
    run(server.container().getBlockBlobClient(name).upload(new Uint8Array(0), 0, { conditions: { ifNoneMatch: "*" } }), 1);

  it("is deleted again if the SDK has sent the create twice", async () => {
    const server = new FakeLeaseServer();
    server.disturb = (operation) => (operation === "create" ? resent(after(1, ok)) : undefined);
    const reader = await run(lockOn(server).acquireReadLock());
    server.disturb = undefined;
    const [name = ""] = readerBlobs(server);
    await release(reader);
    expect(readerBlobs(server)).toEqual([]);
    await arrives(server, name);
    await pass(1_000);
    expect(readerBlobs(server)).toEqual([]);
    await arrives(server, name);
    await pass(4_000);
    expect(readerBlobs(server)).toEqual([]);
  });

  it("is deleted again if the create got no response, and the caller left", async () => {
    const server = new FakeLeaseServer();
    const names: string[] = [];
    server.intercept = (operation, blob) => {
      if (operation !== "create") return undefined;
      names.push(blob);
      return hang;
    };
    const leaves = new AbortController();
    const reading = outcomeOf(lockOn(server).acquireReadLock({ abortSignal: leaves.signal }));
    await pass(100);
    leaves.abort();
    await pass(100);
    expect(reading.error).toBe(leaves.signal.reason);
    server.intercept = undefined;
    const [name = ""] = names;
    await arrives(server, name);
    expect(readerBlobs(server)).toEqual([name]);
    await pass(1_000);
    expect(readerBlobs(server)).toEqual([]);
    await pass(4_000);
  });
});

describe("a lost reader", () => {
  it("is told, and the next one of its process is not affected", async () => {
    const server = new FakeLeaseServer();
    const lock = lockOn(server);
    const first = await run(lock.acquireReadLock());
    const second = await run(lock.acquireReadLock());
    server.blobs.delete(readerBlobs(server)[0]!);
    await pass(6_000);
    expect(first.signal.aborted).toBe(true);
    expect(() => second.assertHeld()).toThrow("lost");
    const third = await run(lock.acquireReadLock());
    third.assertHeld();
    await Promise.all([first.release(), second.release()]).catch(() => undefined);
    third.assertHeld();
    expect(readerBlobs(server)).toHaveLength(1);
    await release(third);
    expect(readerBlobs(server)).toEqual([]);
  });

  it("is forgotten, with its group", async () => {
    const server = new FakeLeaseServer();
    const locks = new BlobLocks(server.container());
    const group = readerGroupFor(locks, "orders", {});
    const reader = await run(new ReaderWriterLock(locks, "orders").acquireReadLock());
    expect(readerGroupFor(locks, "orders", {})).toBe(group);
    server.blobs.delete(readerBlobs(server)[0]!);
    await pass(12_000);
    expect(reader.signal.aborted).toBe(true);
    expect(readerGroupFor(locks, "orders", {})).not.toBe(group);
    await reader.release().catch(() => undefined);
  });

  it("rejects the call that runs under it", async () => {
    const server = new FakeLeaseServer();
    const reading = outcomeOf(lockOn(server).withReadLock(() => later(20_000)));
    await pass(100);
    server.blobs.delete(readerBlobs(server)[0]!);
    await pass(21_000);
    expect(reading.error).toMatchObject({ name: "LeaseLostError", reason: "deleted" });
  });
});

describe("readers of one process", () => {
  it("share a lease that ends with the last of them", async () => {
    const server = new FakeLeaseServer();
    const lock = lockOn(server);
    const [a, b] = [await run(lock.acquireReadLock()), await run(lock.acquireReadLock())];
    await release(a);
    await release(a);
    expect(() => a.assertHeld()).toThrow();
    b.assertHeld();
    expect(readerBlobs(server)).toHaveLength(1);
    await release(b);
    expect(readerBlobs(server)).toEqual([]);
  });

  it("have leases of their own if their options differ, or if they are not renewed", async () => {
    const server = new FakeLeaseServer();
    const lock = lockOn(server);
    const readers = await run(
      Promise.all([lock.acquireReadLock(), lock.acquireReadLock({ durationInSeconds: 60 }), lock.acquireReadLock({ autoRenew: false }), lock.acquireReadLock({ autoRenew: false })]),
    );
    expect(readerBlobs(server)).toHaveLength(4);
    await release(...readers);
    expect(readerBlobs(server)).toEqual([]);
  });

  it("can be cancelled one by one", async () => {
    const server = new FakeLeaseServer();
    const writer = await run(lockOn(server).acquireWriteLock());
    const lock = lockOn(server);
    const caller = countedAbort();
    const waiting = [outcomeOf(lock.acquireReadLock({ abortSignal: caller.signal })), outcomeOf(lock.acquireReadLock({ waitInMs: 3_000 })), outcomeOf(lock.acquireReadLock())];
    await pass(1_000);
    caller.abort(new Error("enough"));
    await pass(2_100);
    expect(waiting[0]!.error).toMatchObject({ message: "enough" });
    expect(caller.listeners()).toBe(0);
    expect(waiting[1]!.error).toMatchObject({ name: "LeaseUnavailableError" });
    await release(writer);
    await pass(2_000);
    await release(waiting[2]!.value);
  });

  it.each([0, 1, 2, 3, 4, 5])("and a writer that comes %s ms later never hold it at the same time, whoever comes first", async (ms) => {
    const server = new FakeLeaseServer();
    const reading = outcomeOf(lockOn(server).acquireReadLock());
    await pass(ms);
    const writing = outcomeOf(lockOn(server).acquireWriteLock());
    await pass(500);
    expect([reading.value, writing.value].filter((held) => held !== undefined)).toHaveLength(1);
    await release(reading.value, writing.value);
    await pass(2_000);
    expect(reading.value).toBeDefined();
    expect(writing.value).toBeDefined();
    await release(reading.value, writing.value);
  });
});

describe("the gate", () => {
  it("counts only as it is after the lease of the readers is confirmed", async () => {
    const server = new FakeLeaseServer();
    const first = await run(lockOn(server).acquireWriteLock());
    const lock = lockOn(server);
    const early = outcomeOf(lock.acquireReadLock());
    await pass(500);
    const creations = server.count("create");
    server.disturb = (operation, blob) => (operation === "create" && blob.includes("read") ? after(300, ok) : undefined);
    await release(first);
    while (server.count("create") === creations) await pass(1);
    // The readers have seen the gate free, and have no lease yet.
    const second = await run(lockOn(server).acquireWriteLock(), 50);
    server.disturb = (operation, blob) => (operation === "properties" && blob.includes("write") ? after(100, ok) : undefined);
    const leased = (): boolean => readerBlobs(server).some((name) => server.isLeased(name));
    while (!leased()) await pass(1);
    await pass(2);
    const late = outcomeOf(lock.acquireReadLock());
    await pass(50);
    second.assertHeld();
    expect([early.value, late.value]).toEqual([undefined, undefined]);
    server.disturb = undefined;
    await pass(200);
    await release(second);
    await pass(2_000);
    await release(early.value, late.value);
  });
});

describe("a primary that does not respond", () => {
  const timeout = { name: "OperationTimeoutError", code: "OPERATION_TIMEOUT", committed: false, url: "https://account.test/container/locks/orders~2Fwrite" };

  it.each([
    ["is sent again by the SDK, which may ask the secondary", resent(ok)],
    ["gets no response", hang],
  ])("is told to a writer with an error that callers know, if each listing of the readers %s", async (_, answer) => {
    const server = new FakeLeaseServer();
    server.intercept = (operation) => (operation === "list" ? answer : undefined);
    const writing = outcomeOf(lockOn(server).acquireWriteLock());
    await pass(60_000);
    expect(writing.error).toMatchObject(timeout);
    expect(server.isLeased("locks/orders~2Fwrite")).toBe(false);
  });

  it("is told to a reader with an error that callers know, if only the secondary says how the gate is", async () => {
    const server = new FakeLeaseServer();
    const container = server.container();
    const fromSecondary: typeof container = {
      ...container,
      getBlockBlobClient: (name) => {
        const client = container.getBlockBlobClient(name);
        const secondary = { _response: { request: { url: client.url.replace("account", "account-secondary") } } };
        return { ...client, getProperties: async (options) => ({ ...(await client.getProperties(options)), ...secondary }) };
      },
    };
    await release(await run(lockOn(server).acquireWriteLock()));
    const lock = new ReaderWriterLock(new BlobLocks(fromSecondary, { defaults: { durationInSeconds: 15 } }), "orders");
    const reading = outcomeOf(lock.acquireReadLock());
    await pass(60_000);
    expect(reading.error).toMatchObject(timeout);
    expect(readerBlobs(server)).toEqual([]);
  });
});

describe("misuse of a reader-writer lock", () => {
  it("is found out before anything is sent", async () => {
    const server = new FakeLeaseServer();
    const lock = lockOn(server);
    expect(() => new ReaderWriterLock({} as BlobLocks, "x")).toThrow("ReaderWriterLock needs a BlobLocks");
    expect(() => new ReaderWriterLock(new BlobLocks(server.container()), "")).toThrow(RangeError);
    expect(() => new ReaderWriterLock(new BlobLocks(server.container()), "x".repeat(1_010))).toThrow(RangeError);
    for (const call of [
      () => lock.acquireReadLock({ waitInMs: -1 }),
      () => lock.acquireWriteLock({ waitInMs: -1 }),
      () => lock.acquireReadLock({ durationInSeconds: 5 }),
      () => lock.tryAcquireWriteLock({ durationInSeconds: 5 }),
      () => lock.acquireReadLock({ unknown: 1 } as never),
      () => lock.tryAcquireReadLock({ waitInMs: 1 } as never),
      () => lock.inspect({ unknown: 1 } as never),
      () => lock.withReadLock("fn" as never),
      () => lock.withWriteLock("fn" as never),
    ]) {
      await expect(call()).rejects.toSatisfy((error) => error instanceof TypeError || error instanceof RangeError);
    }
    expect(server.requests).toEqual([]);
  });

  it.each([
    ["withReadLock", "withReadLock"],
    ["withReadLock", "withWriteLock"],
    ["withWriteLock", "withReadLock"],
    ["withWriteLock", "withWriteLock"],
  ] as const)("%s around %s of the same lock is refused", async (outer, inner) => {
    const lock = lockOn(new FakeLeaseServer());
    const nested = lock[outer](() => lock[inner](() => undefined));
    await expect(run(nested, 200)).rejects.toThrow(/would wait forever: the ReaderWriterLock\.with(Read|Write)Lock around it holds the lock "orders"/);
  });

  it("of the container that does not exist is told at once", async () => {
    const server = new FakeLeaseServer();
    server.intercept = () => status(404, "ContainerNotFound");
    await expect(run(lockOn(server).acquireReadLock())).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(run(lockOn(server).acquireWriteLock())).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(run(lockOn(server).inspect())).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });

  it("of a client that may not list is told", async () => {
    const server = new FakeLeaseServer();
    server.intercept = (operation) => (operation === "list" ? status(403) : undefined);
    await expect(run(lockOn(server).acquireWriteLock())).rejects.toMatchObject({ statusCode: 403 });
    expect(server.isLeased("locks/orders~2Fwrite")).toBe(false);
  });
});
