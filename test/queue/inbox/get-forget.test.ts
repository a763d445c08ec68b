import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox, CommitInbox } from "../../../src/index.js";
import type { InboxClaim } from "../../../src/index.js";
import { rejection } from "../../support/outcome.js";
import { FakeQueue } from "../fakes/fake-queue.js";
import { FakeTable } from "../fakes/fake-table.js";
import { claimed } from "./contract.js";
import { commit, deliver, request } from "./deliveries.js";

const queue = new FakeQueue();
let table: FakeTable;
let inbox: ClaimInbox;

beforeEach(() => {
  vi.useFakeTimers();
  table = new FakeTable();
  inbox = new ClaimInbox(table);
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

async function settle<R>(work: Promise<R>, ms = 1_000): Promise<R> {
  await vi.advanceTimersByTimeAsync(ms);
  return work;
}
const claim = async (key: string): Promise<InboxClaim> => claimed(await inbox.claim([deliver(key)], request));
const complete = async (key: string): Promise<unknown> => settle((await claim(key)).complete(request));
const never = (): Promise<never> => new Promise(() => undefined);

describe("ClaimInbox.get", () => {
  it("tells the state of a key, and since when, in one request", async () => {
    await inbox.prepare(request);
    expect(await inbox.get(queue, "k")).toBeUndefined();
    const held = await claim("k");
    const claimedOn = new Date();
    await settle(Promise.resolve());
    table.faults.log.length = 0;
    expect(await inbox.get(queue, "k")).toEqual({ state: "claimed", updatedOn: claimedOn });
    expect(table.faults.log).toEqual(["get"]);
    await settle(held.release(true, request));
    expect(await inbox.get(queue, "k")).toMatchObject({ state: "released" });
    await complete("k");
    expect(await inbox.get(queue, "k")).toMatchObject({ state: "completed" });
    expect(await inbox.get(new FakeQueue("others"), "k")).toBeUndefined();
  });

  it("finds keys of any length and characters", async () => {
    for (const key of ["/\\#?%'!", "ä".repeat(500)]) {
      await complete(key);
      expect(await inbox.get(queue, key)).toMatchObject({ state: "completed" });
    }
  });
});

describe("ClaimInbox.forget", () => {
  it("deletes the record of a completed key, which is handled again then, in two requests", async () => {
    await complete("k");
    await inbox.prepare(request);
    table.faults.log.length = 0;
    expect(await inbox.forget(queue, "k")).toBe(true);
    expect(table.faults.log).toEqual(["get", "delete"]);
    expect(await inbox.forget(queue, "k")).toBe(false);
    expect(await inbox.claim([deliver("k")], request)).toMatchObject([{ kind: "claimed" }]);
  });

  it("does not delete a claim whose handler may be running", async () => {
    await claim("k");
    expect(await rejection(inbox.forget(queue, "k"))).toMatchObject({ code: "CONFLICT", committed: false, url: "https://account.table.example/inbox" });
    expect(await inbox.claim([deliver("k")], request)).toMatchObject([{ kind: "busy" }]);
    await settle(Promise.resolve(), 120_000 + 15 * 60_000);
    expect(await inbox.forget(queue, "k")).toBe(true);
  });

  it("does not delete a claim because the clock of its own machine is a day ahead", async () => {
    await claim("k");
    table.dateInResponses = new Date();
    vi.setSystemTime(Date.now() + 86_400_000);
    expect(await rejection(inbox.forget(queue, "k"))).toMatchObject({ code: "CONFLICT" });
    expect(table.records).toMatchObject([{ state: "claimed" }]);
  });

  it("does not delete what was written since it was read", async () => {
    await settle((await claim("k")).release(true, request));
    const read = table.getEntity.bind(table);
    table.getEntity = async (...args) => {
      const entity = await read(...args);
      table.getEntity = read;
      await inbox.claim([deliver("k")], request);
      return entity;
    };
    expect(await rejection(inbox.forget(queue, "k"))).toMatchObject({ code: "CONFLICT" });
    expect(table.records).toMatchObject([{ state: "claimed" }]);
  });

  it.each(["lost", "resent", "mute", "busy", "hang"] as const)("finds out whether it was deleted if the response to the delete is %s", async (fault) => {
    await complete("k");
    table.faults.next("delete", fault);
    expect(await settle(inbox.forget(queue, "k"), 20_000)).toBe(true);
    expect(table.records).toEqual([]);
  });
});

describe("both", () => {
  it.each(["get", "forget"] as const)("end in time and when they are cancelled, even if the client ignores its signal: %s", async (name) => {
    await complete("k");
    table.getEntity = never;
    const controller = new AbortController();
    const cancelled = rejection(inbox[name](queue, "k", { abortSignal: controller.signal }));
    const late = rejection(inbox[name](queue, "k"));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort(new Error("enough"));
    expect(await cancelled).toMatchObject({ message: "enough" });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(await late).toMatchObject({ code: "OPERATION_TIMEOUT" });
  });

  it("end in time if the delete never gets a response", async () => {
    await complete("k");
    table.deleteEntity = never;
    const late = rejection(inbox.forget(queue, "k"));
    await vi.advanceTimersByTimeAsync(120_000);
    expect(await late).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown" });
  });

  it.each(["get", "forget"] as const)("reject wrong arguments before any request: %s", async (name) => {
    expect(await rejection(inbox[name]({} as FakeQueue, "k"))).toMatchObject({ name: "TypeError" });
    expect(await rejection(inbox[name](queue, ""))).toMatchObject({ name: "RangeError" });
    expect(await rejection(inbox[name](queue, 5 as never))).toMatchObject({ name: "TypeError" });
    expect(await rejection(inbox[name](queue, "k", { partitionKey: "p" } as object))).toMatchObject({ name: "TypeError" });
    const commits = new CommitInbox(table);
    expect(await rejection(commits[name](queue, "k", undefined as never))).toMatchObject({ name: "TypeError" });
    expect(await rejection(commits[name](queue, "k", {} as never))).toMatchObject({ name: "TypeError" });
    expect(await rejection(commits[name](queue, "k", { partitionKey: "a/b" }))).toMatchObject({ name: "RangeError" });
    expect(table.faults.log).toEqual([]);
  });
});

it("a CommitInbox finds the record in the partition of the effect", async () => {
  const commits = new CommitInbox(table);
  const commitRow = (rowKey: string): Promise<string> => commit(commits, deliver("k"), 1, "customer", [["create", { rowKey }]]);
  await commitRow("a");
  expect(await commits.get(queue, "k", { partitionKey: "customer" })).toMatchObject({ state: "completed" });
  expect(await commits.get(queue, "k", { partitionKey: "other" })).toBeUndefined();
  expect(await commits.forget(queue, "k", { partitionKey: "other" })).toBe(false);
  expect(await commits.forget(queue, "k", { partitionKey: "customer" })).toBe(true);
  expect(await commitRow("b")).toBe("committed");
});
