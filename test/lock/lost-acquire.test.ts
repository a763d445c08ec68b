import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { hang } from "../lease/fakes/answers.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { run } from "./support.js";

useFakeClock();

const blob = "locks/a";

function locksOf(server: FakeLeaseServer, holder: string, fair: boolean): BlobLocks {
  return new BlobLocks(server.container(), { holder, fair });
}

/** The next request for the lease is carried out, and gets no response. */
async function loseAcquire<R>(server: FakeLeaseServer, acquire: () => Promise<R>): Promise<ReturnType<typeof outcomeOf<R>>> {
  let lost = 0;
  server.disturb = (operation, name) => {
    const isAcquired = operation === "acquire" && name === blob && server.blobs.get(blob)?.lease?.id === server.requests.at(-1)!.leaseId;
    if (!isAcquired || lost > 0) return undefined;
    lost++;
    return hang;
  };
  const acquiring = outcomeOf(acquire());
  while (lost === 0) await pass(1);
  server.disturb = undefined;
  return acquiring;
}

describe("a process whose request for a lock was carried out, and got no response", () => {
  it("has the lock with its next request, and does not queue up behind those that wait for it", async () => {
    const server = new FakeLeaseServer();
    const first = await run(locksOf(server, "first", false).acquire("a"));
    const second = outcomeOf(locksOf(server, "second", false).acquire("a"));
    await pass(300);
    await run(first.release(), 1);
    // It comes before the second one, which has a ticket.
    const third = await loseAcquire(server, () => locksOf(server, "third", false).acquire("a"));
    expect(server.isLeased(blob)).toBe(true);
    while (third.at === undefined && second.at === undefined) await pass(100);
    expect(third.value?.epoch).toBeGreaterThan(first.epoch);
    // A third of the duration of the lease, and a pause.
    expect(third.at).toBeLessThan(15_000);
    const releasedAt = elapsed();
    await run(third.value!.release());
    while (second.at === undefined) await pass(100);
    expect(second.at - releasedAt).toBeLessThan(3_000);
    expect(second.value!.epoch).toBeGreaterThan(third.value!.epoch);
    await run(second.value!.release());
    await pass(30_000);
  });

  it("releases it if its caller has left, although others of its process wait: it is not their turn", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOf(server, "first", true);
    await run((await run(locks.acquire("a"))).release());
    const caller = new AbortController();
    const leaving = await loseAcquire(server, () => locks.acquire("a", { abortSignal: caller.signal }));
    const other = outcomeOf(locksOf(server, "second", true).acquire("a"));
    await pass(100);
    const waiting = outcomeOf(locks.acquire("a"));
    await pass(1_000);
    caller.abort();
    while (other.at === undefined && waiting.at === undefined) await pass(100);
    expect(leaving.error).toMatchObject({ name: "AbortError" });
    expect(server.count("release", blob)).toBe(2);
    const [next, last] = other.value ? [other, waiting] : [waiting, other];
    expect(next.at).toBeLessThan(15_000);
    await run(next.value!.release());
    while (last.at === undefined) await pass(100);
    await run(last.value!.release());
    await pass(30_000);
  });
});
