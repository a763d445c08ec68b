import { afterEach, describe, expect, it } from "vitest";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { ReaderWriterLock } from "../../src/lock/reader-writer-lock.js";
import { hang } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { locksOn, run } from "./support.js";

useFakeClock();
// A release that failed is repeated in the background, until the lease has expired.
afterEach(() => pass(60_000));

const unavailable = { name: "LeaseUnavailableError" };

/** The locks that were acquired for the call must be released, and the service does not respond to that. */
function hangingReleases(): FakeLeaseServer {
  const server = new FakeLeaseServer();
  server.disturb = (operation) => (operation === "release" ? hang : undefined);
  return server;
}

describe("a call that does not get all it needs, and whose releases get no response", () => {
  it.each([
    ["withLocks", (server: FakeLeaseServer, options: object) => locksOn(server).withLocks(["a", "b"], () => undefined, options)],
    ["acquireAll", (server: FakeLeaseServer, options: object) => locksOn(server).acquireAll(["a", "b"], options)],
  ] as const)("%s ends in time", async (_name, call) => {
    const server = hangingReleases();
    const other = await run(locksOn(server).acquire("b"));
    const start = elapsed();
    const late = outcomeOf<unknown>(call(server, { waitInMs: 1_000 }));
    const controller = new AbortController();
    const aborted = outcomeOf<unknown>(call(server, { abortSignal: controller.signal }));
    await pass(500);
    controller.abort();
    await pass(260);
    expect(aborted.error).toMatchObject({ name: "AbortError" });
    await pass(500);
    expect(late.error).toMatchObject(unavailable);
    expect(late.at! - start).toBeLessThanOrEqual(1_250);
    // It reached the service all the same.
    await pass(6_000);
    expect(server.isLeased("locks/a")).toBe(false);
    void other.release().catch(() => undefined);
  });

  it("a writer that readers keep waiting ends in time", async () => {
    const server = hangingReleases();
    const lockOf = (): ReaderWriterLock => new ReaderWriterLock(new BlobLocks(server.container()), "orders");
    const reader = await run(lockOf().acquireReadLock());
    const start = elapsed();
    const controller = new AbortController();
    const late = outcomeOf(lockOf().acquireWriteLock({ waitInMs: 1_000 }));
    await pass(1_260);
    expect(late.error).toMatchObject(unavailable);
    expect(late.at! - start).toBeLessThanOrEqual(1_250);
    await pass(8_000);
    const aborted = outcomeOf(lockOf().acquireWriteLock({ abortSignal: controller.signal }));
    await pass(500);
    controller.abort();
    await pass(260);
    expect(aborted.error).toMatchObject({ name: "AbortError" });
    expect(await run(lockOf().tryAcquireWriteLock(), 260)).toBeUndefined();
    await pass(8_000);
    expect(server.isLeased("locks/orders~2Fwrite")).toBe(false);
    await run(reader.release());
  });

  it("a lease with a crash guard that another client holds ends in time", async () => {
    const server = hangingReleases();
    server.addBlob();
    const foreign = await run(acquireLease(server.blob()));
    const start = elapsed();
    const late = outcomeOf(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard: locksOn(server), waitInMs: 1_000 }));
    await pass(1_260);
    expect(late.error).toMatchObject(unavailable);
    expect(late.at! - start).toBeLessThanOrEqual(1_250);
    await pass(8_000);
    expect(await run(tryAcquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard: locksOn(server) }), 260)).toBeUndefined();
    await pass(8_000);
    void foreign.release().catch(() => undefined);
  });
});
