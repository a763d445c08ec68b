import { afterEach, describe, expect, it } from "vitest";
import type { BlobLocks } from "../../src/lock/blob-locks.js";
import { reset, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { countedAbort, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();
// A release that failed is repeated in the background, until the lease has expired.
afterEach(() => pass(60_000));

describe("withLocks", () => {
  it("takes each once, in an order that is the same for all", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const names = await run(locks.withLocks(["c", "a", "b", "a"], (held) => {
      held.assertHeld();
      expect(String(held.get("b").epoch)).toBe(server.blobs.get("locks/b")!.metadata["asc_epoch"]);
      expect(() => held.get("z")).toThrow(RangeError);
      return held.names;
    }), 100);
    expect(names).toEqual(["a", "b", "c"]);
    const order = server.requests.filter((request) => request.operation === "metadata").map((request) => request.blob);
    expect(order).toEqual(["locks/a", "locks/b", "locks/c"]);
    expect(server.count("release")).toBe(3);
  });

  it("does not deadlock with those who name them the other way round", async () => {
    const server = new FakeLeaseServer();
    const done: string[] = [];
    const work = (locks: BlobLocks, names: string[]) => locks.withLocks(names, async () => {
      await later(50);
      done.push(names.join(""));
    });
    await run(Promise.all([work(locksOn(server), ["a", "b"]), work(locksOn(server), ["b", "a"])]), 5_000);
    expect(done.sort()).toEqual(["ab", "ba"]);
  });

  it("does not begin if one is lost while the others are waited for", async () => {
    const server = new FakeLeaseServer();
    const other = await run(locksOn(server).acquire("b"));
    let began = false;
    const outcome = outcomeOf(locksOn(server).withLocks(["a", "b"], () => void (began = true)));
    await pass(100);
    await run(locksOn(server).break("a"));
    await pass(11_000);
    expect(outcome.error).toMatchObject({ name: "LeaseLostError", reason: "broken" });
    expect(began).toBe(false);
    await run(other.release());
  });

  it("gives back what it has if it cannot get the rest in time", async () => {
    const server = new FakeLeaseServer();
    const other = await run(locksOn(server).acquire("c"));
    const outcome = outcomeOf(locksOn(server).withLocks(["a", "b", "c"], () => undefined, { waitInMs: 1_000 }));
    await pass(500);
    expect(server.isLeased("locks/a")).toBe(true);
    await pass(600);
    expect(outcome.error).toMatchObject({ name: "LeaseUnavailableError" });
    expect(["a", "b"].map((name) => server.isLeased(`locks/${name}`))).toEqual([false, false]);
    await run(other.release());
  });

  it("gives back what it has when the caller aborts", async () => {
    const server = new FakeLeaseServer();
    const other = await run(locksOn(server).acquire("b"));
    const caller = countedAbort();
    const outcome = outcomeOf(locksOn(server).withLocks(["a", "b"], () => undefined, { abortSignal: caller.signal }));
    await pass(500);
    caller.abort(new Error("enough"));
    await pass(10);
    expect(outcome.error).toMatchObject({ message: "enough" });
    expect(caller.listeners()).toBe(0);
    expect(server.isLeased("locks/a")).toBe(false);
    await run(other.release());
  });

  it("aborts its signal when any of them is lost, rejects, and gives the others back", async () => {
    const server = new FakeLeaseServer();
    let aborted: unknown;
    const outcome = outcomeOf(locksOn(server).withLocks(["a", "b"], async (held) => {
      await later(11_000);
      aborted = held.signal.reason;
      return "result";
    }));
    await pass(20);
    server.intercept = (operation, blob) => (operation === "renew" && blob === "locks/b" ? status(409, "LeaseIsBrokenAndCannotBeRenewed") : undefined);
    await pass(11_000);
    expect(aborted).toMatchObject({ reason: "broken" });
    expect(outcome.error).toBe(aborted);
    expect(server.isLeased("locks/a")).toBe(false);
  });

  it("prefers the loss of one to the failed release of another", async () => {
    const server = new FakeLeaseServer();
    const outcome = outcomeOf(locksOn(server).withLocks(["a", "b"], () => {
      server.intercept = (operation, blob) => {
        if (operation !== "release") return undefined;
        return blob === "locks/a" ? reset : status(409, "LeaseIdMismatchWithLeaseOperation");
      };
      return "result";
    }));
    await pass(100);
    expect(outcome.error).toMatchObject({ name: "LeaseLostError", reason: "stolen" });
  });

  it("gives the result if releases merely fail", async () => {
    const server = new FakeLeaseServer();
    const outcome = outcomeOf(locksOn(server).withLocks(["a", "b"], () => {
      server.intercept = (operation) => (operation === "release" ? reset : undefined);
      return "result";
    }));
    await pass(100);
    expect(outcome.value).toBe("result");
  });
});
