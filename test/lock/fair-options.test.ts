import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { after, ok } from "../lease/fakes/answers.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();

function fairLocksOn(server: FakeLeaseServer, holder: string): BlobLocks {
  return new BlobLocks(server.container(), { holder, fair: true });
}

describe("callers of a fair lock in one process with different options", () => {
  it.each([2, 4])("are served in the order in which they came, without waiting for tickets of their own process (%s kinds of data)", async (kinds) => {
    const server = new FakeLeaseServer();
    // Their responses come in any order.
    server.disturb = () => after(2 + Math.random() * 20, ok);
    const locks = fairLocksOn(server, "a");
    const order: number[] = [];
    const section = async (i: number): Promise<void> => {
      order.push(i);
      await later(5);
    };
    const all = Promise.all(Array.from({ length: 24 }, (_, i) => locks.withLock("a", () => section(i), { data: `order ${i % kinds}` })));
    const done = outcomeOf(all);
    await pass(30_000);
    expect(done.value).toBeDefined();
    expect(order).toEqual(Array.from({ length: 24 }, (_, i) => i));
    // A ticket that is not used delays those behind it by a second and a half.
    expect(done.at).toBeLessThan(2_000);
  });

  it("do not overtake a caller of another process that came before", async () => {
    const server = new FakeLeaseServer();
    const locks = fairLocksOn(server, "a");
    const held = await run(locks.acquire("a"));
    const other = outcomeOf(fairLocksOn(server, "b").acquire("a"));
    await pass(500);
    const late = outcomeOf(locks.acquire("a", { data: "late" }));
    await pass(500);
    await run(held.release());
    while (other.at === undefined && late.at === undefined) await pass(1);
    expect(late.at).toBeUndefined();
    const releasedAt = elapsed();
    await run(other.value!.release());
    while (late.at === undefined) await pass(1);
    expect(late.at - releasedAt).toBeLessThan(1_000);
    await run(late.value!.release());
    await pass(1_000);
  });

  it("do not wait for those that have left", async () => {
    const server = new FakeLeaseServer();
    const locks = fairLocksOn(server, "a");
    const held = await run(fairLocksOn(server, "b").acquire("a"));
    const leaving = Array.from({ length: 8 }, () => outcomeOf(locks.acquire("a", { waitInMs: 1_000 })));
    await pass(500);
    const waiting = outcomeOf(locks.acquire("a", { data: "waiting" }));
    await pass(3_000);
    expect(leaving.every(({ error }) => error !== undefined)).toBe(true);
    const releasedAt = elapsed();
    await run(held.release());
    while (waiting.at === undefined) await pass(1);
    expect(waiting.at - releasedAt).toBeLessThan(1_000);
    await run(waiting.value!.release());
    await pass(1_000);
  });
});

describe("a caller of a fair lock that leaves while its ticket is drawn", () => {
  it("does not delay those behind it in its process", async () => {
    const server = new FakeLeaseServer();
    const locks = fairLocksOn(server, "a");
    const held = await run(fairLocksOn(server, "b").acquire("a"));
    server.latencyInMs = 50;
    const caller = new AbortController();
    const leaving = outcomeOf(locks.acquire("a", { abortSignal: caller.signal }));
    const waiting = outcomeOf(locks.acquire("a"));
    await pass(20);
    caller.abort();
    await pass(3_000);
    expect(leaving.error).toMatchObject({ name: "AbortError" });
    const releasedAt = elapsed();
    await run(held.release(), 200);
    while (waiting.at === undefined) await pass(1);
    expect(waiting.at - releasedAt).toBeLessThan(1_000);
    await run(waiting.value!.release(), 200);
    await pass(1_000);
  });
});

describe("callers that are rejected, as others use the lock without fair", () => {
  /** A loop of rejected calls, beside a process that uses the lock as most do, and one that comes when the loop has ended. */
  async function loopBeside(options: { restarts: boolean }): Promise<{ server: FakeLeaseServer; rejected: number; waitedInMs: number }> {
    const server = new FakeLeaseServer();
    server.latencyInMs = 2;
    const locks = locksOn(server, "b");
    const fair = fairLocksOn(server, "a");
    if (options.restarts) {
      // It used the lock, which a purge has deleted since.
      const other = fairLocksOn(server, "c");
      for (const each of [fair, other, fair, other]) await run(each.withLock("l", () => later(5)), 200);
      server.blobs.delete("locks/l");
      server.blobs.delete("locks/l.tickets");
    }
    const held = await run(locks.acquire("l"), 100);
    let rejected = 0;
    const ends = elapsed() + 5_000;
    const loop = async (): Promise<void> => {
      while (elapsed() < ends) {
        await fair.withLock("l", () => undefined).catch((error: unknown) => {
          expect(error).toMatchObject({ code: "LOCK_MODE_MISMATCH" });
          rejected++;
        });
        await later(20);
      }
    };
    const loops = Promise.all([loop(), loop(), loop()]);
    await pass(6_000);
    await loops;
    const waiting = outcomeOf(locksOn(server, "d").acquire("l"));
    await pass(1_000);
    await run(held.release());
    const releasedAt = elapsed();
    while (waiting.at === undefined && elapsed() < releasedAt + 70_000) await pass(100);
    await run(waiting.value!.release());
    await pass(1_000);
    return { server, rejected, waitedInMs: waiting.at! - releasedAt };
  }

  it.each([false, true])("do not fill the line with tickets that no caller uses (purged before: %s)", async (restarts) => {
    const { server, rejected, waitedInMs } = await loopBeside({ restarts });
    expect(rejected).toBeGreaterThan(200);
    // Those that came before the first of them was rejected have drawn one each.
    expect(server.blobs.get("locks/l.tickets")!.blocks).toBeLessThan(10);
    expect(waitedInMs).toBeLessThan(3_000);
  });

  it("draw tickets again when the lock has become fair", async () => {
    const server = new FakeLeaseServer();
    server.latencyInMs = 2;
    const fair = fairLocksOn(server, "a");
    await run(locksOn(server, "b").withLock("l", () => undefined), 100);
    await expect(run(fair.withLock("l", () => undefined), 100)).rejects.toMatchObject({ code: "LOCK_MODE_MISMATCH" });
    server.blobs.delete("locks/l");
    const order: string[] = [];
    const held = await run(fairLocksOn(server, "c").acquire("l"), 100);
    const calls = [fair, fairLocksOn(server, "d"), fair].map(async (each, i) => {
      await later(i * 100);
      return each.withLock("l", () => void order.push(`${i}`));
    });
    await pass(1_000);
    await run(held.release());
    await pass(10_000);
    await Promise.all(calls);
    expect(order).toEqual(["0", "1", "2"]);
  });
});
