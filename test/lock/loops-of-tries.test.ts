import { describe, expect, it } from "vitest";
import { BlobLocks, ReaderWriterLock, Semaphore } from "../../src/index.js";
import type { LockHandle } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();

/** Tries in a loop, works for a while, and tries again at once; until `stop`. */
function loop(acquire: () => Promise<LockHandle | undefined>, sectionInMs: number): { sections: number; stop: () => Promise<void> } {
  const stopped = new AbortController();
  const state = {
    sections: 0,
    stop: async (): Promise<void> => {
      stopped.abort();
      await run(running, 20_000);
    },
  };
  const running = (async () => {
    while (!stopped.signal.aborted) {
      const lock = await acquire();
      if (lock) {
        state.sections++;
        await later(sectionInMs);
        await lock.release();
      }
      await later(1);
    }
  })();
  return state;
}

/** A call with a short wait, as one that does not wait. */
function shortly(acquire: () => Promise<LockHandle>): () => Promise<LockHandle | undefined> {
  return () => acquire().catch(() => undefined);
}

function semaphoreOn(server: FakeLeaseServer): Semaphore {
  return new Semaphore(locksOn(server), "exports", 1);
}

describe("a process that does not wait, but tries again as soon as it has released, lets another one in", () => {
  it.each<[string, (server: FakeLeaseServer) => () => Promise<LockHandle | undefined>, (server: FakeLeaseServer) => Promise<LockHandle>]>([
    ["BlobLocks.tryAcquire", (server) => { const locks = locksOn(server); return () => locks.tryAcquire("a"); }, (server) => locksOn(server).acquire("a")],
    ["BlobLocks.tryAcquire, fair", (server) => { const locks = new BlobLocks(server.container(), { fair: true }); return () => locks.tryAcquire("a"); }, (server) => new BlobLocks(server.container(), { fair: true }).acquire("a")],
    ["tryAcquireWriteLock, for a writer", (server) => { const lock = new ReaderWriterLock(locksOn(server), "a"); return () => lock.tryAcquireWriteLock(); }, (server) => new ReaderWriterLock(locksOn(server), "a").acquireWriteLock()],
    ["Semaphore.tryAcquire", (server) => { const semaphore = semaphoreOn(server); return () => semaphore.tryAcquire(); }, (server) => semaphoreOn(server).acquire()],
    ["Semaphore.acquire, waitInMs 1000", (server) => { const semaphore = semaphoreOn(server); return shortly(() => semaphore.acquire({ waitInMs: 1_000 })); }, (server) => semaphoreOn(server).acquire()],
  ])("%s", async (_, tries, acquire) => {
    for (const sectionInMs of [300, 3_000]) {
      const server = new FakeLeaseServer();
      const trying = loop(tries(server), sectionInMs);
      await pass(5_000);
      expect(trying.sections).toBeGreaterThan(0);
      for (let turn = 0; turn < 3; turn++) {
        const since = elapsed();
        const outcome = outcomeOf(acquire(server));
        while (outcome.at === undefined && elapsed() < since + 60_000) await pass(50);
        // The section in progress, one that begins before the process is seen to wait, and the time until that is looked for again.
        expect(outcome.at! - since, `${sectionInMs} ms, turn ${turn}`).toBeLessThan(2 * sectionInMs + 3_500);
        await run(outcome.value!.release(), 3_000);
      }
      // The others are not kept out, either.
      const before = trying.sections;
      await pass(sectionInMs + 4_000);
      expect(trying.sections).toBeGreaterThan(before);
      await trying.stop();
    }
  });
});

describe("callers of a fair lock with short waits, one after the other", () => {
  it("do not fill the line with tickets that no caller uses", async () => {
    const server = new FakeLeaseServer();
    const [a, b, impatient] = ["a", "b", "impatient"].map((holder) => new BlobLocks(server.container(), { holder, fair: true }));
    const sections = { patient: 0, impatient: 0 };
    let stopped = false;
    const patient = [a!, b!].map(async (locks) => {
      while (!stopped) await locks.withLock("l", () => later(100).then(() => sections.patient++));
    });
    const others = Array.from({ length: 10 }, async () => {
      while (!stopped) await impatient!.withLock("l", () => later(5).then(() => sections.impatient++), { waitInMs: 20 }).catch(() => undefined);
    });
    await pass(20_000);
    stopped = true;
    const drawn = server.blobs.get("locks/l.tickets")!.blocks;
    await run(Promise.all([...patient, ...others]), 30_000);
    expect(sections.patient).toBeGreaterThan(60);
    // Most tickets are used. Of the impatient callers, 300 leave in each second.
    expect(drawn).toBeLessThan(1.2 * (sections.patient + sections.impatient) + 20);
  });
});
