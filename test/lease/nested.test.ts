import { describe, expect, it } from "vitest";
import { acquireLease, tryAcquireLease, withLease } from "../../src/lease/with-lease.js";
import { blobMetadata } from "../../src/target/blob-properties.js";
import { leasedUpdate } from "../../src/update/leased-update.js";
import { later, run } from "../lock/support.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import type { BlobClient } from "./fakes/fake-lease-server.js";
import { outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const url = "https://account.test/container/blob";

function newServer(): FakeLeaseServer {
  const server = new FakeLeaseServer();
  server.addBlob();
  server.addBlob("other");
  return server;
}

describe("inside withLease, a call that waits for the same lease", () => {
  it.each<[string, (blob: BlobClient) => Promise<unknown>]>([
    ["withLease", (blob) => withLease(blob, () => "never")],
    ["acquireLease", (blob) => acquireLease(blob)],
    ["leasedUpdate", (blob) => leasedUpdate(blob, () => undefined)],
  ])("rejects at once: %s", async (name, call) => {
    const server = newServer();
    const outer = outcomeOf(withLease(server.blob(), () => call(server.blob())));
    await pass(20);
    expect(outer.error).toBeInstanceOf(TypeError);
    const { message } = outer.error as Error;
    expect(message).toContain(`${name} would wait forever: the withLease around it holds the lease on ${url}`);
    expect(message).toContain(name === "leasedUpdate" ? "Pass that lease as the option lease, or move leasedUpdate out" : "Use that lease, or move");
    // Nothing was asked for: acquire and release of the outer call.
    expect(server.requests.map(({ operation }) => operation)).toEqual(["acquire", "release"]);
  });

  it("rejects also deep inside, after timers and in parallel branches", async () => {
    const blob = newServer().blob();
    const deep = async (): Promise<unknown> => {
      await later(5);
      return Promise.all([later(1), later(1).then(() => acquireLease(blob))]);
    };
    const outer = outcomeOf(withLease(blob, deep));
    await pass(50);
    expect(outer.error).toBeInstanceOf(TypeError);
  });

  it("gets undefined from tryAcquireLease, as it does when another client holds the lease", async () => {
    const blob = newServer().blob();
    expect(await run(withLease(blob, () => tryAcquireLease(blob)))).toBeUndefined();
  });

  it("may lease another blob, and the one around it is still known there", async () => {
    const server = newServer();
    const [blob, other] = [server.blob(), server.blob("other")];
    expect(await run(withLease(blob, () => withLease(other, () => "both")))).toBe("both");
    const outcome = outcomeOf(withLease(blob, () => withLease(other, () => acquireLease(blob))));
    await pass(50);
    expect((outcome.error as Error).message).toContain(`the withLease around it holds the lease on ${url}`);
  });

  it("may acquire it again once the function has released it", async () => {
    const blob = newServer().blob();
    const result = withLease(blob, async (lease) => {
      await lease.release();
      return withLease(blob, () => "again");
    });
    expect(await run(result)).toBe("again");
  });
});

describe("inside the mutator of leasedUpdate", () => {
  it("a call that waits for the same lease rejects at once", async () => {
    const server = newServer();
    const blob = server.blob();
    const outcome = outcomeOf(leasedUpdate(blobMetadata(blob), () => acquireLease(server.blob()).then(() => undefined)));
    await pass(100);
    expect((outcome.error as Error).message).toContain(`acquireLease would wait forever: the leasedUpdate around it holds the lease on ${url}`);
  });
});

describe("is never mistaken for nested", () => {
  it("work that was started inside, and calls after the release", async () => {
    const blob = newServer().blob();
    let background: Promise<string> | undefined;
    await run(withLease(blob, () => void (background = later(100).then(() => withLease(blob, () => "later")))));
    expect(await run(background!, 200)).toBe("later");
  });

  it("a caller that waits in the same process, whose function runs in its own context", async () => {
    const blob = newServer().blob();
    const order: string[] = [];
    // All of them share one waiter queue: the first hands the lease over to the second from inside its own context.
    const callers = ["a", "b", "c"].map((name) =>
      withLease(blob, async (lease) => {
        await later(10);
        order.push(name);
        await lease.release();
        // If the function of another caller were the context, this would be taken for nested.
        await later(10);
        return (await acquireLease(blob)).release();
      }),
    );
    await run(Promise.all(callers), 5_000);
    expect(order).toEqual(["a", "b", "c"]);
  });

  it("a caller that was there before: its turn comes from inside the function of another", async () => {
    const server = newServer();
    const blob = server.blob();
    const first = await run(acquireLease(blob));
    const second = outcomeOf(withLease(blob, () => withLease(server.blob("other"), () => "second")));
    const inside = withLease(server.blob("other"), () => first.release());
    await run(inside, 100);
    await pass(2_000);
    expect(second.value).toBe("second");
  });

  it("a lease that the caller passes on", async () => {
    const server = newServer();
    const blob = server.blob();
    const outcome = outcomeOf(withLease(blob, (lease) => leasedUpdate(blob, () => undefined, { lease, initial: {} })));
    await pass(50);
    expect(outcome.error).not.toBeInstanceOf(TypeError);
  });

  it("a call inside a function whose lease is lost", async () => {
    const server = newServer();
    const blob = server.blob();
    let inner: Promise<string> | undefined;
    const outer = outcomeOf(
      withLease(blob, async (lease) => {
        server.blobs.get("blob")!.lease = undefined;
        await lease.renew().catch(() => undefined);
        inner = withLease(blob, () => "next");
        await inner;
      }),
    );
    await pass(5_000);
    expect(await inner).toBe("next");
    expect(outer.error).toMatchObject({ name: "LeaseLostError" });
  });
});
