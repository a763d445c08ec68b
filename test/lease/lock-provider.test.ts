import { describe, expect, it } from "vitest";
import type { LockHandleLike, LockProviderLike } from "../../src/index.js";
import { acquireLease, tryAcquireLease, withLease } from "../../src/lease/with-lease.js";
import { run } from "../lock/support.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { abortTime, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

interface Held {
  readonly controller: AbortController;
  held: boolean;
}

/** The locks of another library: handles with an epoch, and with nothing else of what `BlobLocks` has. */
class OtherLocks implements LockProviderLike {
  readonly calls: string[] = [];
  epoch = 0;
  current: Held | undefined;
  readonly #withEpoch: boolean;

  constructor(withEpoch = true) {
    this.#withEpoch = withEpoch;
  }

  async acquire(name: string, options?: { waitInMs?: number | undefined }): Promise<LockHandleLike & { readonly epoch?: number }> {
    this.calls.push(`acquire ${name} for ${options?.waitInMs ?? "ever"}`);
    const handle = await this.tryAcquire(name);
    if (!handle) throw new Error("the other library says no");
    return handle;
  }

  tryAcquire(name: string): Promise<(LockHandleLike & { readonly epoch?: number }) | undefined> {
    this.calls.push(`try ${name}`);
    if (this.current?.held) return Promise.resolve(undefined);
    const own: Held = (this.current = { controller: new AbortController(), held: true });
    return Promise.resolve({
      signal: own.controller.signal,
      ...(this.#withEpoch && { epoch: ++this.epoch }),
      assertHeld: () => {
        if (!own.held) throw new Error("not held");
      },
      release: () => {
        this.calls.push("release");
        own.held = false;
        own.controller.abort(new DOMException("released", "AbortError"));
        return Promise.resolve();
      },
    });
  }

  /** The holder died: its lock is free, and it does not know. */
  dies(): void {
    this.current = undefined;
  }
}

function newServer(): FakeLeaseServer {
  const server = new FakeLeaseServer();
  server.addBlob();
  return server;
}

const name = "blob:account.test/container/blob";
const durationInSeconds = Infinity;

describe("a crash guard of another library", () => {
  it("is acquired before the lease, and released after it", async () => {
    const [server, crashGuard] = [newServer(), new OtherLocks()];
    const result = await run(withLease(server.blob(), () => server.isLeased(), { durationInSeconds, crashGuard, waitInMs: 1_000 }));
    expect(result).toBe(true);
    expect(crashGuard.calls).toEqual([`acquire ${name} for 1000`, `try ${name}`, "release"]);
    expect(server.isLeased()).toBe(false);
  });

  it("gives the lease of a dead holder to the next one, by its epoch alone", async () => {
    const [server, crashGuard] = [newServer(), new OtherLocks()];
    const dead = await run(acquireLease(server.blob(), { durationInSeconds, crashGuard }));
    crashGuard.dies();
    const next = await run(acquireLease(server.blob(), { durationInSeconds, crashGuard }));
    expect(next.leaseId).not.toBe(dead.leaseId);
    expect(server.blobs.get("blob")!.lease!.id).toBe(next.leaseId);
    expect(server.count("break")).toBe(0);
    await run(next.release());
    await run(dead.release().catch(() => undefined));
  });

  it("is the loss of the lease when its signal aborts", async () => {
    const [server, crashGuard] = [newServer(), new OtherLocks()];
    const lease = await run(acquireLease(server.blob(), { durationInSeconds, crashGuard }));
    const aborted = abortTime(lease.signal);
    await pass(100);
    crashGuard.current!.controller.abort(new Error("the other library lost it"));
    expect(aborted.at).toBeDefined();
    expect(lease.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "expired", message: expect.stringContaining("its crash-guard lock was lost, so another process may take over.") as string });
    await run(lease.release());
    expect(server.isLeased()).toBe(false);
  });

  it("is the loss of the lease when its assertHeld says so, before its signal aborts", async () => {
    const [server, crashGuard] = [newServer(), new OtherLocks()];
    const lease = await run(acquireLease(server.blob(), { durationInSeconds, crashGuard }));
    lease.assertHeld();
    crashGuard.current!.held = false;
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ name: "LeaseLostError" }));
    expect(lease.remainingInMs).toBe(0);
    await run(lease.release());
  });

  it("is asked once by tryAcquireLease, which returns undefined", async () => {
    const [server, crashGuard] = [newServer(), new OtherLocks()];
    const first = await run(acquireLease(server.blob(), { durationInSeconds, crashGuard }));
    expect(await run(tryAcquireLease(server.blob(), { durationInSeconds, crashGuard }))).toBeUndefined();
    expect(crashGuard.calls.filter((call) => call.startsWith("try"))).toHaveLength(2);
    await run(first.release());
  });

  it.each<[string, (server: FakeLeaseServer, crashGuard: LockProviderLike) => Promise<unknown>]>([
    ["acquireLease", (server, crashGuard) => acquireLease(server.blob(), { durationInSeconds, crashGuard })],
    ["tryAcquireLease", (server, crashGuard) => tryAcquireLease(server.blob(), { durationInSeconds, crashGuard })],
    ["withLease", (server, crashGuard) => withLease(server.blob(), () => 1, { durationInSeconds, crashGuard })],
  ])("cannot be one without epochs: %s says so, and nothing stays behind", async (_, call) => {
    const [server, crashGuard] = [newServer(), new OtherLocks(false)];
    const outcome = outcomeOf(call(server, crashGuard));
    await pass(20);
    expect(outcome.error).toBeInstanceOf(TypeError);
    expect((outcome.error as Error).message).toContain("crashGuard: the locks of this provider have no epoch");
    expect(crashGuard.calls.at(-1)).toBe("release");
    expect(crashGuard.current!.held).toBe(false);
    expect(server.requests).toEqual([]);
  });
});
