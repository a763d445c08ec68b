import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { CommitInbox } from "../../../src/index.js";
import type { TableAction } from "../../../src/index.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { Fault } from "../fakes/faults.js";
import { commit, deliver } from "./deliveries.js";

let table: FakeTable;

beforeEach(() => {
  vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 1 });
  table = new FakeTable();
});
afterEach(() => void vi.useRealTimers());

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

async function settle<R>(work: Promise<R>, ms = 30_000): Promise<R> {
  await pass(ms);
  return work;
}

describe("a CommitInbox", () => {
  const effect = (rowKey = "order"): TableAction[] => [["create", { rowKey, n: 1 }]];
  const inboxes = (): [CommitInbox, CommitInbox] => [new CommitInbox(table), new CommitInbox(table)];

  it("writes the effect and the record in one transaction", async () => {
    const [inbox] = inboxes();
    expect(await commit(inbox, deliver("a"), 1, "p", effect())).toBe("committed");
    expect(table.faults.log).toEqual(["transaction"]);
    expect([...table.rows.values()].map(({ partitionKey, rowKey }) => [partitionKey, rowKey])).toEqual([
      ["p", "~asc~inbox!account:jobs!a"],
      ["p", "order"],
    ]);
  });

  it("writes nothing for a key that was committed", async () => {
    const [inbox, other] = inboxes();
    await commit(inbox, deliver("a"), 1, "p", effect());
    expect(await commit(other, deliver("a"), 1, "p", effect("other"))).toBe("duplicate");
    expect(table.rows.size).toBe(2);
  });

  it.each<Fault>(["lost", "resent", "mute"])("has written once when the answer is lost (%s), and says so", async (fault) => {
    const [inbox] = inboxes();
    table.faults.next("transaction", fault);
    expect(await settle(commit(inbox, deliver("a"), 1, "p", effect()), 60_000)).toBe("committed");
    expect(table.rows.size).toBe(2);
  });

  it.each<Fault>(["busy", "hang"])("sends again what did not arrive (%s)", async (fault) => {
    const [inbox] = inboxes();
    table.faults.next("transaction", fault);
    expect(await settle(commit(inbox, deliver("a"), 1, "p", effect()), 60_000)).toBe("committed");
  });

  it("leaves conflicts of the caller's own entities to the caller, who may try again", async () => {
    const [inbox] = inboxes();
    table.rows.set("p\norder", { partitionKey: "p", rowKey: "order", etag: "x", timestamp: new Date().toISOString() });
    const delivery = deliver("a");
    await expect(commit(inbox, delivery, 1, "p", effect())).rejects.toMatchObject({ code: "EntityAlreadyExists" });
    expect(await commit(inbox, delivery, 2, "p", effect("another"))).toBe("committed");
  });

  it("does not know what became of a commit if nothing answers any more", async () => {
    const [inbox] = inboxes();
    table.faults.always("transaction", "lost");
    table.faults.always("get", "busy");
    const committing = commit(inbox, deliver("a"), 1, "p", effect());
    await expect(Promise.all([committing, pass(60_000)])).rejects.toMatchObject({ code: "COMMIT_UNKNOWN" });
  });

  it("refuses more than 99 actions, and entities of another partition, before it sends anything", async () => {
    const [inbox] = inboxes();
    const many = Array.from({ length: 100 }, (_, i): TableAction => ["create", { rowKey: `${i}` }]);
    await expect(commit(inbox, deliver("a"), 1, "p", many)).rejects.toThrow(RangeError);
    await expect(commit(inbox, deliver("a"), 1, "q", [["create", { partitionKey: "p", rowKey: "r" }]])).rejects.toThrow(RangeError);
    expect(table.faults.log).toEqual([]);
  });
});
