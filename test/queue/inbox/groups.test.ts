import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox } from "../../../src/index.js";
import type { InboxClaim, InboxClaimResult, InboxDelivery, InboxHandOver } from "../../../src/index.js";
import { rejection } from "../../support/outcome.js";
import { FakeQueue } from "../fakes/fake-queue.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { Fault } from "../fakes/faults.js";
import { claimed } from "./contract.js";
import { again, deliver, request } from "./deliveries.js";
import { groupContract } from "./group-contract.js";

let table: FakeTable;

beforeEach(() => {
  vi.useFakeTimers();
  table = new FakeTable();
});
afterEach(() => void vi.useRealTimers());

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

/** On the fake clock: the transitions of claims wait a little for others. */
async function settle<R>(work: Promise<R>, ms = 30_000): Promise<R> {
  const [result] = await Promise.all([work, pass(ms)]);
  return result;
}

for (const shards of [1, 4]) {
  for (const tells of [true, false]) {
    groupContract(
      `a ClaimInbox with ${shards} shards (${tells ? "all is told" : "neither the failed operation nor ETags are told"})`,
      async () => {
        vi.useRealTimers();
        vi.useFakeTimers({ shouldAdvanceTime: true });
        [table.namesCulprit, table.tellsETags] = [tells, tells];
        return { inbox: new ClaimInbox(table, { shards }), other: new ClaimInbox(table, { shards }) };
      },
      { pass },
    );
  }
}

const batch = (size: number, properties: (i: number) => Partial<InboxDelivery>): InboxDelivery[] => Array.from({ length: size }, (_, i) => deliver(`k${i}`, properties(i)));
const completeAll = (results: readonly InboxClaimResult[]): Promise<string[]> => Promise.all(results.map((result) => claimed([result]).complete(request)));
const groupRows = (): Record<string, unknown>[] => [...table.rows.values()].filter(({ rowKey }) => rowKey.startsWith("~asc~group!"));

describe("the cost of groups", () => {
  it("is none: 32 messages of 32 groups are claimed in one request, and completed in one, again and again", async () => {
    const [inbox, other] = [new ClaimInbox(table), new ClaimInbox(table)];
    for (const [round, one] of [inbox, other, inbox].entries()) {
      table.faults.log.length = 0;
      const deliveries = Array.from({ length: 32 }, (_, i) => deliver(`r${round}-${i}`, { group: `g${i}` }));
      const results = await one.claim(deliveries, request);
      expect(results.every(({ kind }) => kind === "claimed")).toBe(true);
      expect(table.faults.log).toEqual(["transaction"]);
      expect(await settle(completeAll(results))).toEqual(Array(32).fill("completed"));
      expect(table.faults.log).toEqual(["transaction", "transaction"]);
    }
    expect(groupRows()).toEqual([]);
  });

  it("is two requests for 100 messages of 100 groups: a transaction has room for 50", async () => {
    const inbox = new ClaimInbox(table);
    const results = await inbox.claim(batch(100, (i) => ({ group: `g${i}` })), request);
    expect(table.faults.log).toEqual(["transaction", "transaction"]);
    expect(await settle(completeAll(results))).toEqual(Array(100).fill("completed"));
    expect(table.faults.log).toEqual(Array(4).fill("transaction"));
  });

  it("is a read for each group with a sequence that another process has left, and none otherwise", async () => {
    const [inbox, other] = [new ClaimInbox(table), new ClaimInbox(table)];
    for (const [sequence, one, reads] of [[1, inbox, 0], [2, inbox, 0], [3, other, 5], [4, other, 0]] as const) {
      table.faults.log.length = 0;
      const results = await one.claim(Array.from({ length: 5 }, (_, i) => deliver(`${sequence}-${i}`, { group: `g${i}`, sequence })), request);
      expect(table.faults.log).toEqual([...Array<string>(reads).fill("get"), "transaction"]);
      expect(await settle(completeAll(results))).toEqual(Array(5).fill("completed"));
    }
  });
});

describe("a hand-over", () => {
  const next = async (result: Promise<"lost" | InboxHandOver>): Promise<InboxClaim> => {
    const handedOver = await settle(result);
    if (handedOver === "lost" || !handedOver.next) throw new Error("not handed over");
    return claimed([handedOver.next]);
  };

  it.each([undefined, 1])("costs one request for each message, and shares it with other groups (sequence %s)", async (sequence) => {
    const inbox = new ClaimInbox(table);
    const at = (group: number, i: number): InboxDelivery => deliver(`g${group} ${i}`, { group: `g${group}`, sequence: sequence && i });
    let claims = (await inbox.claim([1, 2, 3].map((group) => at(group, 1)), request)).map((result) => claimed([result]));
    table.faults.log.length = 0;
    for (let i = 2; i <= 5; i++) claims = await Promise.all(claims.map((claim, g) => next(claim.completeAndClaim!(at(g + 1, i), request))));
    expect(table.faults.log).toEqual(Array(4).fill("transaction"));
    expect(await settle(Promise.all(claims.map((claim) => claim.complete(request))))).toEqual(Array(3).fill("completed"));
    expect(table.faults.log).toEqual(Array(5).fill("transaction"));
    // The process knows the groups as it has left them.
    if (sequence === undefined) expect(groupRows()).toEqual([]);
    else claimed(await inbox.claim([at(1, 6)], request));
    expect(table.faults.count("get")).toBe(0);
  });

  it.each<Fault>(["lost", "resent", "mute", "busy", "hang"])("finds its own effect if the response is lost (%s)", async (fault) => {
    for (const sequence of [undefined, 1]) {
      const inbox = new ClaimInbox(table);
      const group = sequence === undefined ? "g" : "s";
      const second = deliver(`${group}2`, { group, sequence: sequence && 2 });
      const claim = claimed(await inbox.claim([deliver(`${group}1`, { group, sequence })], request));
      table.faults.next("transaction", fault);
      const after = await next(claim.completeAndClaim!(second, request));
      expect(groupRows()).toMatchObject([{ state: "claimed", messageId: second.messageId, recordRowKey: expect.stringContaining(second.idempotencyKey) as string }]);
      expect(await settle(after.renew(request))).toBe("renewed");
      expect(await settle(after.complete(request))).toBe("completed");
      table.rows.clear();
    }
  });

  it("is not repeated by a caller that did not get the response: it finds what it has claimed", async () => {
    const inbox = new ClaimInbox(table);
    const second = deliver("b", { group: "g" });
    const claim = claimed(await inbox.claim([deliver("a", { group: "g" })], request));
    const caller = new AbortController();
    table.faults.next("transaction", "mute");
    const cutOff = claim.completeAndClaim!(second, { ...request, abortSignal: caller.signal });
    cutOff.catch(() => undefined);
    await pass(6);
    caller.abort(new Error("no response"));
    await expect(cutOff).rejects.toThrow("no response");
    const after = await next(claim.completeAndClaim!(second, request));
    expect(await settle(after.complete(request))).toBe("completed");
    expect(groupRows()).toEqual([]);
  });

  it("is none if an earlier call has completed the message without it: the group is free, and the next one is claimed as usual", async () => {
    const inbox = new ClaimInbox(table);
    const claim = claimed(await inbox.claim([deliver("a", { group: "g" })], request));
    expect(await settle(claim.complete(request))).toBe("completed");
    const third = claimed(await new ClaimInbox(table).claim([deliver("c", { group: "g" })], request));
    expect(await settle(claim.completeAndClaim!(deliver("b", { group: "g" }), request))).toEqual({ next: undefined });
    // The group of another message was not taken.
    expect(await settle(third.complete(request))).toBe("completed");
  });

  it("is refused if another message has taken the group over", async () => {
    const inbox = new ClaimInbox(table);
    const late = claimed(await inbox.claim([deliver("a", { group: "g" })], request));
    await pass(120_100);
    const successor = claimed(await new ClaimInbox(table).claim([deliver("c", { group: "g" })], request));
    expect(await settle(late.completeAndClaim!(deliver("b", { group: "g" }), request), 100)).toBe("lost");
    expect(groupRows()).toMatchObject([{ state: "claimed", recordRowKey: "~asc~inbox!account:jobs!c" }]);
    expect([...table.rows.values()].map(({ rowKey }) => rowKey)).not.toContain("~asc~inbox!account:jobs!b");
    expect(await settle(successor.complete(request), 100)).toBe("completed");
  });

  it("is taken over after a crash: by the next delivery of the message at once, by others after its time", async () => {
    const inbox = new ClaimInbox(table);
    const [first, second] = [deliver("a", { group: "g" }), deliver("b", { group: "g" })];
    await next(claimed(await inbox.claim([first], request)).completeAndClaim!(second, request));
    const other = new ClaimInbox(table);
    expect((await other.claim([again(first), deliver("c", { group: "g" })], request)).map(({ kind }) => kind)).toEqual(["completed", "busy"]);
    expect(await settle(claimed(await other.claim([again(second)], request)).complete(request))).toBe("completed");
    expect(groupRows()).toEqual([]);
  });
});

describe("a message whose key is claimed in another group, which is a mistake of its sender", () => {
  it("gets no group handed over; the message before it is completed all the same", async () => {
    const [inbox, other] = [new ClaimInbox(table), new ClaimInbox(table)];
    const held = claimed(await other.claim([deliver("b", { group: "h" })], request));
    const first = deliver("a", { group: "g" });
    const claim = claimed(await inbox.claim([first], request));
    expect(await settle(claim.completeAndClaim!(deliver("b", { group: "g" }), request), 100)).toMatchObject({ next: { kind: "busy" } });
    expect(groupRows()).toMatchObject([{ rowKey: "~asc~group!account:jobs!h" }]);
    expect(await other.claim([again(first)], request)).toEqual([{ kind: "completed" }]);
    expect(await settle(held.complete(request), 100)).toBe("completed");
  });
});

describe("a claim that waits for another consumer", () => {
  it("costs a read each time it is tried again, and no conflict", async () => {
    const [inbox, other] = [new ClaimInbox(table), new ClaimInbox(table)];
    const claim = claimed(await inbox.claim([deliver("a", { group: "g" })], request));
    const waits = deliver("b", { group: "g" });
    expect(await other.claim([waits], request)).toMatchObject([{ kind: "busy" }]);
    table.faults.log.length = 0;
    for (let i = 0; i < 3; i++) expect(await other.claim([waits], request)).toMatchObject([{ kind: "busy" }]);
    expect(table.faults.log).toEqual(["get", "get", "get"]);
    await settle(claim.complete(request));
    table.faults.log.length = 0;
    claimed(await other.claim([waits], request));
    expect(table.faults.log).toEqual(["get", "transaction"]);
  });
});

describe("a completion that no caller waits for any more, and that is committed together with others", () => {
  const first = deliver("a", { group: "g", sequence: 1 });

  async function abandonCompletion(): Promise<InboxClaim> {
    const results = await new ClaimInbox(table).claim([first, deliver("other")], request);
    const caller = new AbortController();
    table.faults.next("transaction", "mute");
    const [completing, other] = results.map((result, i) => claimed([result]).complete({ ...request, ...(i === 0 && { abortSignal: caller.signal }) }));
    completing!.catch(() => undefined);
    await pass(10);
    caller.abort(new Error("too late"));
    await expect(completing).rejects.toThrow("too late");
    expect(await settle(other!)).toBe("completed");
    return claimed(results);
  }

  it("is not undone by a release", async () => {
    const claim = await abandonCompletion();
    table.faults.log.length = 0;
    await settle(claim.release(true, request));
    expect(await settle(claim.renew(request))).toBe("lost");
    expect(table.faults.log).toEqual([]);
    expect(await new ClaimInbox(table).claim([again(first)], request)).toEqual([{ kind: "completed" }]);
  });

  it("is not repeated by a second one: it would set the sequence of its group back, and free it", async () => {
    const claim = await abandonCompletion();
    const other = new ClaimInbox(table);
    await settle(claimed(await other.claim([deliver("b", { group: "g", sequence: 2 })], request)).complete(request));
    claimed(await other.claim([deliver("c", { group: "g", sequence: 3 })], request));
    expect(await settle(claim.complete(request), 100)).toBe("completed");
    expect(groupRows()).toMatchObject([{ state: "claimed", lastSequence: 2 }]);
  });
});

describe("a sequence that was used", () => {
  it("is that of a duplicate if the message itself was completed between the read of its record and that of its group", async () => {
    const [inbox, other] = [new ClaimInbox(table), new ClaimInbox(table)];
    const first = deliver("a", { group: "g", sequence: 1 });
    const claim = claimed(await inbox.claim([first], request));
    const getEntity = table.getEntity.bind(table);
    let completed = false;
    table.getEntity = async (partitionKey, rowKey, options) => {
      if (!rowKey.startsWith("~asc~group!")) return getEntity(partitionKey, rowKey, options);
      if (!completed) expect(await claim.complete(request)).toBe("completed");
      completed = true;
      return getEntity(partitionKey, rowKey, options);
    };
    expect(await settle(other.claim([again(first)], request))).toEqual([{ kind: "completed" }]);
  });
});

describe("a group row that another program has written", () => {
  it.each<[string, (groupRowKey: string) => string]>([
    ["the row of the group itself", (groupRowKey) => groupRowKey],
    ["a key that no row can have", () => "~asc~inbox!account:jobs!a/b#?"],
    ["a row of another queue", () => "~asc~inbox!account:others!k"],
    ["nothing", () => ""],
  ])("does not keep other keys of its batch from being claimed, whatever record it names: %s", async (_, recordRowKey) => {
    const inbox = new ClaimInbox(table);
    claimed(await inbox.claim([deliver("probe", { group: "g" })], request));
    const row = groupRows()[0] as unknown as { partitionKey: string; rowKey: string };
    await table.submitTransaction([["upsert", { partitionKey: row.partitionKey, rowKey: row.rowKey, state: "claimed", owner: "x", messageId: "m", dequeueCount: 1, holdInMs: 0, recordRowKey: recordRowKey(row.rowKey) }, "Replace"]] as never);
    await pass(1_000);
    const results = await settle(new ClaimInbox(table).claim([deliver("a"), deliver("b", { group: "g" }), deliver("c")], request));
    expect(results.map(({ kind }) => kind)).toEqual(["claimed", "claimed", "claimed"]);
  });
});

describe("a gap", () => {
  it("is waited for an eighth of the time in which nothing has happened in the group: from 2 seconds to 10 minutes", async () => {
    const inbox = new ClaimInbox(table);
    const retryAfter = async (): Promise<unknown> => (await inbox.claim([deliver("b", { group: "g", sequence: 9 })], request)).map((result) => "retryAfterInMs" in result && result.retryAfterInMs);
    await settle(completeAll(await inbox.claim([deliver("a", { group: "g", sequence: 1 })], request)), 10);
    expect(await retryAfter()).toEqual([2_000]);
    await pass(60_000);
    expect(await retryAfter()).toEqual([(60_000 + 5) / 8]);
    await pass(86_400_000);
    expect(await retryAfter()).toEqual([600_000]);
  });
});

describe("responses that are lost", () => {
  it.each<Fault>(["lost", "resent", "mute", "busy", "hang"])("to a claim, a renewal and a completion with a group (%s)", async (fault) => {
    const inbox = new ClaimInbox(table);
    for (const sequence of [undefined, 1]) {
      const group = sequence === undefined ? "g" : "s";
      table.faults.next("transaction", fault);
      const results = await settle(inbox.claim([deliver(`${group}1`, { group, sequence }), deliver(`${group}2`)], request));
      table.faults.next("transaction", fault);
      expect(await settle(claimed(results).renew(request))).toBe("renewed");
      table.faults.next("transaction", fault);
      expect(await settle(completeAll(results))).toEqual(["completed", "completed"]);
      // The sequence was raised once.
      const next = deliver(`${group}3`, { group, sequence: sequence && 2 });
      table.faults.next("transaction", fault);
      await settle(claimed(await settle(inbox.claim([next], request))).release(true, request));
      expect(await settle(completeAll(await settle(inbox.claim([again(next)], request))))).toEqual(["completed"]);
    }
    expect(groupRows()).toMatchObject([{ state: "released", lastSequence: 2 }]);
  });
});

describe("a message that shares a row with another one of the batch", () => {
  it("is claimed in the next transaction: its key is that of the message whose group is taken over", async () => {
    const inbox = new ClaimInbox(table);
    claimed(await inbox.claim([deliver("a", { group: "g" })], request));
    await pass(120_100);
    const results = await new ClaimInbox(table).claim([deliver("b", { group: "g" }), deliver("a", { group: "h" })], request);
    expect(results.map(({ kind }) => kind)).toEqual(["claimed", "claimed"]);
    expect(await settle(completeAll(results))).toEqual(["completed", "completed"]);
    expect(groupRows()).toEqual([]);
  });
});

describe("rows that an operator has deleted", () => {
  it("end the claim: without its record, or the row of its group, it is not known who has the group", async () => {
    const inbox = new ClaimInbox(table);
    const results = await inbox.claim([deliver("a", { group: "g" }), deliver("b", { group: "h" })], request);
    table.rows = new Map([...table.rows].filter(([, { rowKey }]) => !rowKey.endsWith("!a") && !rowKey.endsWith("!h")));
    expect(await settle(completeAll(results))).toEqual(["lost", "lost"]);
  });
});

describe("purge", () => {
  it("keeps the last sequence of a group, and the row of one that is held", async () => {
    const inbox = new ClaimInbox(table);
    await settle(completeAll(await inbox.claim([deliver("a", { group: "g", sequence: 1 })], request)));
    const held = await inbox.claim([deliver("b", { group: "h" })], request);
    await pass(30 * 86_400_000);
    await inbox.purge();
    expect(groupRows()).toHaveLength(2);
    // Its record was purged: whether it was completed is not known, but its sequence was used.
    expect(await inbox.claim([deliver("a", { group: "g", sequence: 1 })], request)).toMatchObject([{ kind: "sequenceUsed" }]);
    expect(await settle(completeAll(held))).toEqual(["lost"]);
    claimed(await inbox.claim([deliver("c", { group: "h" })], request));
  });
});

describe("purge of groups", () => {
  const day = 86_400_000;
  const completed = async (key: string, group: string, sequence: number): Promise<void> => {
    await settle(completeAll(await new ClaimInbox(table).claim([deliver(key, { group, sequence })], request)));
  };

  it("deletes those with a sequence that no handler has, and in which nothing has happened for so long: they begin anew", async () => {
    const inbox = new ClaimInbox(table);
    await completed("old", "old", 1);
    await pass(20 * day);
    await completed("new", "new", 1);
    const held = await inbox.claim([deliver("held", { group: "held", sequence: 1 })], request);
    expect(await inbox.purge({ groupsOlderThanInMs: 10 * day })).toEqual({ deleted: 2, kept: 0 });
    expect(groupRows().map(({ rowKey }) => rowKey)).toEqual(["~asc~group!account:jobs!new", "~asc~group!account:jobs!held"]);
    expect(await inbox.claim([deliver("2", { group: "old", sequence: 2 })], request)).toMatchObject([{ kind: "gap", lastSequence: 0 }]);
    claimed(await inbox.claim([deliver("1", { group: "old", sequence: 1 })], request));
    expect(await settle(completeAll(held))).toEqual(["completed"]);
  });

  it("keeps one that is claimed, however long ago: its holder could free the group of the next one", async () => {
    const inbox = new ClaimInbox(table);
    const late = claimed(await inbox.claim([deliver("a", { group: "g", sequence: 1 })], request));
    await pass(3 * day);
    expect(await inbox.purge({ groupsOlderThanInMs: day, olderThanInMs: 5 * day })).toEqual({ deleted: 0, kept: 1 });
    const successor = claimed(await inbox.claim([deliver("b", { group: "g", sequence: 1 })], request));
    expect(await settle(late.complete(request), 100)).toBe("lost");
    expect(groupRows()).toMatchObject([{ state: "claimed" }]);
    expect(await settle(successor.complete(request), 100)).toBe("completed");
  });

  it("keeps one that is claimed while it is purged", async () => {
    const inbox = new ClaimInbox(table);
    await completed("a", "g", 1);
    await pass(day);
    const listEntities = table.listEntities.bind(table);
    table.listEntities = (options) => {
      const listed = listEntities(options);
      return { byPage: () => claimMeanwhile(listed.byPage()) };
    };
    let next: InboxClaim | undefined;
    const claimMeanwhile = async function* (pages: AsyncIterable<object[]>): AsyncGenerator<object[]> {
      for await (const page of pages) {
        next ??= claimed(await new ClaimInbox(table).claim([deliver("b", { group: "g", sequence: 2 })], request));
        yield page;
      }
    };
    expect(await inbox.purge({ groupsOlderThanInMs: 1_000, olderThanInMs: 2 * day })).toEqual({ deleted: 0, kept: 1 });
    expect(await settle(next!.complete(request), 100)).toBe("completed");
  });

  it("refuses an age that is none", async () => {
    await expect(new ClaimInbox(table).purge({ groupsOlderThanInMs: -1 })).rejects.toThrow(RangeError);
    await expect(new ClaimInbox(table).purge({ groupsOlderThanInMs: Number.NaN })).rejects.toThrow(TypeError);
  });
});

describe("getGroup and skip", () => {
  const queue = new FakeQueue();

  it.each([1, 4])("show and set the last sequence (%i shards)", async (shards) => {
    const inbox = new ClaimInbox(table, { shards });
    expect(await inbox.getGroup(queue, "g")).toBeUndefined();
    const first = deliver("a", { group: "g", sequence: 1 });
    const results = await inbox.claim([first], request);
    expect(await inbox.getGroup(queue, "g")).toEqual({ lastSequence: 0, holder: { messageId: first.messageId, expiresOn: new Date(Date.now() + 120_000) }, updatedOn: new Date() });
    await expect(inbox.skip(queue, "g", 1)).rejects.toMatchObject({ code: "CONFLICT" });
    await settle(completeAll(results));
    expect(await inbox.getGroup(queue, "g")).toMatchObject({ lastSequence: 1, holder: undefined });
    expect(await inbox.skip(queue, "g", 1)).toBe(false);
    expect(await inbox.skip(queue, "g", 2)).toBe(true);
    expect(await inbox.claim([deliver("b", { group: "g", sequence: 2 })], request)).toMatchObject([{ kind: "sequenceUsed" }]);
    claimed(await inbox.claim([deliver("c", { group: "g", sequence: 3 })], request));
    // A group may begin with another sequence.
    expect(await inbox.skip(queue, "new", 41)).toBe(true);
    claimed(await inbox.claim([deliver("d", { group: "new", sequence: 42 })], request));
  });

  it("skip what a crashed consumer has left", async () => {
    const inbox = new ClaimInbox(table);
    const late = claimed(await inbox.claim([deliver("a", { group: "g", sequence: 1 })], request));
    await pass(120_000 + 15 * 60_000);
    expect(await inbox.skip(queue, "g", 3)).toBe(true);
    expect(await settle(late.complete(request))).toBe("lost");
    claimed(await new ClaimInbox(table).claim([deliver("b", { group: "g", sequence: 4 })], request));
  });

  it("do not skip because the clock of their own machine is a day ahead", async () => {
    const inbox = new ClaimInbox(table);
    const claim = claimed(await inbox.claim([deliver("a", { group: "g", sequence: 1 })], request));
    table.dateInResponses = new Date();
    vi.setSystemTime(Date.now() + 86_400_000);
    expect(await rejection(inbox.skip(queue, "g", 3))).toMatchObject({ code: "CONFLICT" });
    expect(await settle(claim.complete(request))).toBe("completed");
  });

  it("do not skip if a consumer claims the group at the same time", async () => {
    const inbox = new ClaimInbox(table);
    await settle(completeAll(await inbox.claim([deliver("a", { group: "g", sequence: 1 })], request)));
    const getEntity = table.getEntity.bind(table);
    let other: InboxClaim | undefined;
    await inbox.prepare(request); // has checked the number of shards
    table.getEntity = async (...args) => {
      table.getEntity = getEntity;
      const found = await table.getEntity(...args);
      other = claimed(await new ClaimInbox(table).claim([deliver("b", { group: "g", sequence: 2 })], request));
      return found;
    };
    await expect(settle(inbox.skip(queue, "g", 7))).rejects.toMatchObject({ code: "CONFLICT" });
    expect(groupRows()).toMatchObject([{ state: "claimed", lastSequence: 1 }]);
    expect(await settle(other!.complete(request))).toBe("completed");
  });

  it.each<Fault>(["lost", "resent", "busy"])("skip once if a response is lost (%s)", async (fault) => {
    table.faults.next("transaction", fault);
    expect(await settle(new ClaimInbox(table).skip(queue, "g", 7))).toBe(true);
    expect(groupRows()).toMatchObject([{ lastSequence: 7 }]);
  });

  it("refuse arguments that are none", async () => {
    const inbox = new ClaimInbox(table);
    await expect(inbox.skip(queue, "g", 0)).rejects.toThrow(RangeError);
    await expect(inbox.skip(queue, "", 1)).rejects.toThrow(RangeError);
    await expect(inbox.getGroup({} as never, "g")).rejects.toThrow(TypeError);
    await expect(inbox.getGroup(queue, "g", { shards: 2 } as never)).rejects.toThrow(TypeError);
    expect(table.faults.log).toEqual([]);
  });
});
