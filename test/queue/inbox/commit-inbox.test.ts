import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { CommitInbox } from "../../../src/index.js";
import type { TableAction } from "../../../src/index.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { Fault } from "../fakes/faults.js";
import { deliver, request } from "./deliveries.js";

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
    expect(await inbox.commit(deliver("a"), 1, "p", effect(), request)).toBe("committed");
    expect(table.faults.log).toEqual(["transaction"]);
    expect([...table.rows.values()].map(({ partitionKey, rowKey }) => [partitionKey, rowKey])).toEqual([
      ["p", "~asc~inbox!account:jobs!a"],
      ["p", "order"],
    ]);
  });

  it("writes nothing for a key that was committed", async () => {
    const [inbox, other] = inboxes();
    await inbox.commit(deliver("a"), 1, "p", effect(), request);
    expect(await other.commit(deliver("a"), 1, "p", effect("other"), request)).toBe("duplicate");
    expect(table.rows.size).toBe(2);
  });

  it.each<Fault>(["lost", "resent", "mute"])("has written once when the answer is lost (%s), and says so", async (fault) => {
    const [inbox] = inboxes();
    table.faults.next("transaction", fault);
    expect(await settle(inbox.commit(deliver("a"), 1, "p", effect(), request), 60_000)).toBe("committed");
    expect(table.rows.size).toBe(2);
  });

  it.each<Fault>(["busy", "hang"])("sends again what did not arrive (%s)", async (fault) => {
    const [inbox] = inboxes();
    table.faults.next("transaction", fault);
    expect(await settle(inbox.commit(deliver("a"), 1, "p", effect(), request), 60_000)).toBe("committed");
  });

  it("leaves conflicts of the caller's own entities to the caller, who may try again", async () => {
    const [inbox] = inboxes();
    table.rows.set("p\norder", { partitionKey: "p", rowKey: "order", etag: "x", timestamp: new Date().toISOString() });
    const delivery = deliver("a");
    await expect(inbox.commit(delivery, 1, "p", effect(), request)).rejects.toMatchObject({ code: "EntityAlreadyExists" });
    expect(await inbox.commit(delivery, 2, "p", effect("another"), request)).toBe("committed");
  });

  it("does not know what became of a commit if nothing answers any more", async () => {
    const [inbox] = inboxes();
    table.faults.always("transaction", "lost");
    table.faults.always("get", "busy");
    const committing = inbox.commit(deliver("a"), 1, "p", effect(), request);
    await expect(Promise.all([committing, pass(60_000)])).rejects.toMatchObject({ code: "COMMIT_UNKNOWN" });
  });

  it("refuses more than 99 actions, and entities of another partition, before it sends anything", async () => {
    const [inbox] = inboxes();
    const many = Array.from({ length: 100 }, (_, i): TableAction => ["create", { rowKey: `${i}` }]);
    await expect(inbox.commit(deliver("a"), 1, "p", many, request)).rejects.toThrow(RangeError);
    await expect(inbox.commit(deliver("a"), 1, "q", [["create", { partitionKey: "p", rowKey: "r" }]], request)).rejects.toThrow(RangeError);
    expect(table.faults.log).toEqual([]);
  });
});
