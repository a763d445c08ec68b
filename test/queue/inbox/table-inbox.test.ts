import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { TableInbox } from "../../../src/index.js";
import type { TransactionActionLike } from "../../../src/clients.js";
import type { InboxDelivery, InboxClaimResult } from "../../../src/index.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { Fault } from "../fakes/faults.js";
import { claimed, inboxContract } from "./contract.js";
import { again, deliver } from "./deliveries.js";

let table: FakeTable;

beforeEach(() => {
  vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 1 });
  table = new FakeTable();
});
afterEach(() => void vi.useRealTimers());

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

inboxContract("a TableInbox", async () => ({ inbox: new TableInbox(table), other: new TableInbox(table) }), { pass });

describe("with a table that does not say which operation failed, nor the ETags", () => {
  beforeEach(() => {
    table.namesCulprit = false;
    table.tellsETags = false;
  });
  inboxContract("a TableInbox", async () => ({ inbox: new TableInbox(table), other: new TableInbox(table) }), { pass });
});

async function settle<R>(work: Promise<R>, ms = 30_000): Promise<R> {
  await pass(ms);
  return work;
}

const batch = (size: number, prefix = "k"): InboxDelivery[] => Array.from({ length: size }, (_, i) => deliver(`${prefix}${i}`));
const completeAll = (verdicts: InboxClaimResult[]): Promise<boolean[]> => Promise.all(verdicts.map((v) => claimed([v]).complete()));

describe("the cost of an inbox in a table", () => {
  it("is one transaction to claim a batch of 32, and one to complete it", async () => {
    const inbox = new TableInbox(table);
    const verdicts = await inbox.claim(batch(32));
    expect(table.faults.log).toEqual(["transaction"]);
    expect(await settle(completeAll(verdicts))).toEqual(Array(32).fill(true));
    expect(table.faults.log).toEqual(["transaction", "transaction"]);
  });

  it("is a read and a transaction more for one duplicate in a batch", async () => {
    await settle(completeAll(await new TableInbox(table).claim([deliver("k7")])));
    table.faults.log.length = 0;
    await new TableInbox(table).claim(batch(32));
    expect(table.faults.log).toEqual(["transaction", "get", "transaction"]);
  });

  it("is not more than a read for each and a few transactions if the whole batch was sent before", async () => {
    await settle(completeAll(await new TableInbox(table).claim(batch(32))));
    table.faults.log.length = 0;
    const verdicts = await new TableInbox(table).claim(batch(32));
    expect(verdicts).toEqual(Array(32).fill({ kind: "done" }));
    expect(table.faults.count("get")).toBe(32);
    expect(table.faults.count("transaction")).toBeLessThanOrEqual(6);
  });

  it("is one transaction for more than a hundred completions less than two", async () => {
    const inbox = new TableInbox(table);
    const verdicts = (await Promise.all([0, 1, 2, 3].map((i) => inbox.claim(batch(30, `b${i}-`))))).flat();
    table.faults.log.length = 0;
    await settle(completeAll(verdicts));
    expect(table.faults.log).toEqual(["transaction", "transaction"]);
  });
});

describe("answers that are lost", () => {
  it("to a completion: an extension that waited behind it does not undo it", async () => {
    const inbox = new TableInbox(table);
    const claim = claimed(await inbox.claim([deliver("k")]));
    table.faults.next("transaction", "mute");
    const completing = claim.complete();
    await pass(1_000);
    const extending = claim.extend();
    expect(await settle(completing)).toBe(true);
    expect(await settle(extending)).toMatchObject({ kind: "lost" });
    expect(table.records.map(({ state }) => state)).toEqual(["done"]);
  });

  it.each<Fault>(["lost", "resent", "mute"])("to a claim (%s): the claim is found to be ours", async (fault) => {
    const inbox = new TableInbox(table);
    table.faults.next("transaction", fault);
    const verdicts = await settle(inbox.claim(batch(5)));
    expect(verdicts.map(({ kind }) => kind)).toEqual(Array(5).fill("claimed"));
    expect(await settle(completeAll(verdicts))).toEqual(Array(5).fill(true));
    expect(table.records.map(({ state }) => state)).toEqual(Array(5).fill("done"));
  });

  it.each<Fault>(["lost", "resent", "mute"])("to a completion (%s): one read tells for the whole group", async (fault) => {
    const verdicts = await new TableInbox(table).claim(batch(20));
    table.faults.log.length = 0;
    table.faults.next("transaction", fault);
    expect(await settle(completeAll(verdicts))).toEqual(Array(20).fill(true));
    expect(table.faults.count("get")).toBe(1);
  });

  it.each<Fault>(["busy", "hang"])("to something that did not happen (%s): it is sent again", async (fault) => {
    const inbox = new TableInbox(table);
    table.faults.next("transaction", fault);
    const verdicts = await settle(inbox.claim(batch(5)));
    table.faults.next("transaction", fault);
    expect(await settle(completeAll(verdicts))).toEqual(Array(5).fill(true));
    expect(table.records.map(({ state }) => state)).toEqual(Array(5).fill("done"));
  });

  it.each<Fault>(["lost", "resent", "mute"])("to an extension (%s): the claim goes on", async (fault) => {
    const claim = claimed(await new TableInbox(table).claim([deliver("a")]));
    table.faults.next("transaction", fault);
    expect(await settle(claim.extend())).toMatchObject({ kind: "renewed" });
    expect(await settle(claim.complete())).toBe(true);
  });

  it("to an extension, and to what should find out: time counts from the first of them", async () => {
    const claim = claimed(await new TableInbox(table).claim([deliver("a")]));
    table.faults.next("transaction", "lost");
    table.faults.always("get", "busy");
    const failing = claim.extend();
    await expect(Promise.all([failing, pass(5_000)])).rejects.toMatchObject({ statusCode: 503 });
    table.faults.always("get", "ok");
    await pass(10_000);
    const extended = await settle(claim.extend(), 100);
    expect(extended.kind === "renewed" && extended.clock()).toBeGreaterThanOrEqual(10_000);
  });

  it("do not make a group believe what another group did", async () => {
    const [a, b] = await new TableInbox(table).claim(batch(2));
    // The completion of a lands, but neither the answer nor the question arrives.
    table.faults.next("transaction", "lost");
    table.faults.always("get", "busy");
    const failing = claimed([a!]).complete();
    await expect(Promise.all([failing, pass(5_000)])).rejects.toMatchObject({ statusCode: 503 });
    table.faults.always("get", "ok");
    // Then a and b go together, and that does not land.
    table.faults.next("transaction", "busy");
    expect(await settle(completeAll([a!, b!]))).toEqual([true, true]);
    expect(table.records.map(({ state }) => state)).toEqual(["done", "done"]);
  });
});

it("completes the others when one of the group was taken over", async () => {
  const deliveries = batch(10);
  const verdicts = await new TableInbox(table).claim(deliveries);
  claimed(await new TableInbox(table).claim([again(deliveries[4]!)]));
  const results = await settle(completeAll(verdicts));
  expect(results).toEqual(deliveries.map((_, i) => i !== 4));
});

it("writes a record that was purged meanwhile anew", async () => {
  const claim = claimed(await new TableInbox(table).claim([deliver("a")]));
  table.rows.clear();
  expect(await settle(claim.complete())).toBe(true);
  expect(await new TableInbox(table).claim([deliver("a")])).toEqual([{ kind: "done" }]);
});

it("tells an outage from an answer, and recovers", async () => {
  const inbox = new TableInbox(table);
  const deliveries = batch(3);
  table.faults.next("transaction", "denied");
  await expect(inbox.claim(deliveries)).rejects.toMatchObject({ statusCode: 403 });
  expect((await inbox.claim(deliveries)).map(({ kind }) => kind)).toEqual(Array(3).fill("claimed"));
});

it.each([
  ["order/4711#a?b\\c", "order 4711"],
  ["x".repeat(900), `${"x".repeat(899)}y`],
  ["ä".repeat(500), "a".repeat(500)],
  ["%41", "A"],
  ["a!b", "a=21b"],
  ["sha256=00", "x"],
])("keeps keys apart whatever is in them: %s", async (one, two) => {
  const inbox = new TableInbox(table);
  const verdicts = await inbox.claim([deliver(one), deliver(two)]);
  expect(verdicts.map(({ kind }) => kind)).toEqual(["claimed", "claimed"]);
  for (const { rowKey } of table.rows.values()) expect(rowKey).toMatch(/^inbox!jobs![A-Za-z0-9._:@$=-]{1,420}$/);
});

describe("purge", () => {
  it("removes what is older, done or left behind, and nothing else", async () => {
    const inbox = new TableInbox(table);
    await settle(completeAll(await inbox.claim(batch(150).slice(0, 100))));
    await settle(completeAll(await inbox.claim(batch(50, "more"))));
    await inbox.claim([deliver("left")]);
    table.rows.set("own", { partitionKey: "jobs", rowKey: "own", etag: "x", timestamp: new Date().toISOString() });
    await pass(8 * 86_400_000);
    await settle(completeAll(await inbox.claim([deliver("young")])));
    table.faults.log.length = 0;
    expect(await inbox.purge()).toBe(151);
    expect(table.faults.log).toEqual(["transaction", "transaction", "delete"]);
    expect([...table.rows.values()].map(({ rowKey }) => rowKey)).toEqual(["own", "inbox!jobs!young"]);
  });

  it("leaves a record that is taken over at this moment", async () => {
    const inbox = new TableInbox(table);
    const delivery = deliver("a");
    await inbox.claim([delivery]);
    await pass(9 * 86_400_000);
    const list = table.listEntities.bind(table);
    table.listEntities = (options) => {
      const pages = list(options);
      return {
        async *byPage() {
          for await (const page of pages.byPage()) {
            await inbox.claim([again(delivery)]);
            yield page;
          }
        },
      };
    };
    expect(await inbox.purge()).toBe(0);
    expect(table.records).toHaveLength(1);
  });
});

describe("commit mode", () => {
  const effect = (rowKey = "order"): TransactionActionLike[] => [["create", { partitionKey: "p", rowKey, n: 1 }]];
  const inboxes = (): [TableInbox, TableInbox] => [new TableInbox(table, { mode: "commit" }), new TableInbox(table, { mode: "commit" })];

  it("writes the effect and the record in one transaction", async () => {
    const [inbox] = inboxes();
    expect(await inbox.commit(deliver("a"), 1, "p", effect())).toBe("committed");
    expect(table.faults.log).toEqual(["transaction"]);
    expect([...table.rows.values()].map(({ partitionKey, rowKey }) => [partitionKey, rowKey])).toEqual([
      ["p", "inbox!jobs!a"],
      ["p", "order"],
    ]);
  });

  it("writes nothing for a key that was committed", async () => {
    const [inbox, other] = inboxes();
    await inbox.commit(deliver("a"), 1, "p", effect());
    expect(await other.commit(deliver("a"), 1, "p", effect("other"))).toBe("duplicate");
    expect(table.rows.size).toBe(2);
  });

  it.each<Fault>(["lost", "resent", "mute"])("has written once when the answer is lost (%s), and says so", async (fault) => {
    const [inbox] = inboxes();
    table.faults.next("transaction", fault);
    expect(await settle(inbox.commit(deliver("a"), 1, "p", effect()), 60_000)).toBe("committed");
    expect(table.rows.size).toBe(2);
  });

  it.each<Fault>(["busy", "hang"])("sends again what did not arrive (%s)", async (fault) => {
    const [inbox] = inboxes();
    table.faults.next("transaction", fault);
    expect(await settle(inbox.commit(deliver("a"), 1, "p", effect()), 60_000)).toBe("committed");
  });

  it("leaves conflicts of the caller's own entities to the caller, who may try again", async () => {
    const [inbox] = inboxes();
    table.rows.set("p\norder", { partitionKey: "p", rowKey: "order", etag: "x", timestamp: new Date().toISOString() });
    const delivery = deliver("a");
    await expect(inbox.commit(delivery, 1, "p", effect())).rejects.toMatchObject({ code: "EntityAlreadyExists" });
    expect(await inbox.commit(delivery, 2, "p", effect("another"))).toBe("committed");
  });

  it("does not know what became of a commit if nothing answers any more", async () => {
    const [inbox] = inboxes();
    table.faults.always("transaction", "lost");
    table.faults.always("get", "busy");
    const committing = inbox.commit(deliver("a"), 1, "p", effect());
    await expect(Promise.all([committing, pass(60_000)])).rejects.toMatchObject({ code: "COMMIT_UNKNOWN" });
  });

  it("refuses more than 99 actions, and entities of another partition, before it sends anything", async () => {
    const [inbox] = inboxes();
    const many = Array.from({ length: 100 }, (_, i): TransactionActionLike => ["create", { partitionKey: "p", rowKey: `${i}` }]);
    await expect(inbox.commit(deliver("a"), 1, "p", many)).rejects.toThrow(RangeError);
    await expect(inbox.commit(deliver("a"), 1, "q", effect())).rejects.toThrow(RangeError);
    expect(table.faults.log).toEqual([]);
  });
});
