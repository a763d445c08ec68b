import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { TransactionActionLike } from "../../../src/clients/table.js";
import { ClaimInbox } from "../../../src/index.js";
import type { InboxDelivery, InboxClaimResult } from "../../../src/index.js";
import { FakeTable } from "../fakes/fake-table.js";
import { storageError } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { claimed, inboxContract } from "./contract.js";
import { again, deliver, request } from "./deliveries.js";

let table: FakeTable;

beforeEach(() => {
  vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 1 });
  table = new FakeTable();
});
afterEach(() => void vi.useRealTimers());

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

inboxContract("a ClaimInbox", async () => ({ inbox: new ClaimInbox(table), other: new ClaimInbox(table) }), { pass });

describe("with a table that does not say which operation failed, nor the ETags", () => {
  beforeEach(() => {
    table.namesCulprit = false;
    table.tellsETags = false;
  });
  inboxContract("a ClaimInbox", async () => ({ inbox: new ClaimInbox(table), other: new ClaimInbox(table) }), { pass });
});

async function settle<R>(work: Promise<R>, ms = 30_000): Promise<R> {
  await pass(ms);
  return work;
}

const batch = (size: number, prefix = "k"): InboxDelivery[] => Array.from({ length: size }, (_, i) => deliver(`${prefix}${i}`));
const completeAll = (results: readonly InboxClaimResult[]): Promise<string[]> => Promise.all(results.map((result) => claimed([result]).complete(request)));

describe("a row that the service does not accept, as another program has filled it,", () => {
  /** Rejects each transaction with a row of the key. */
  const reject = (rowKeyPart: string): void => {
    const submit = table.submitTransaction.bind(table);
    table.submitTransaction = (actions: never[], options) => {
      if (!(actions as readonly TransactionActionLike[]).some(([, { rowKey }]) => rowKey.includes(rowKeyPart))) return submit(actions, options);
      return table.faults.request("rejected", options?.abortSignal, (): never => {
        throw storageError(400, "PropertyLimitExceeded");
      });
    };
  };

  it("does not keep other keys of its batch from being claimed; its own message is delivered again", async () => {
    reject("!k7");
    const results = await new ClaimInbox(table).claim(batch(32, "x").toSpliced(7, 1, deliver("k7")), request);
    expect(results.map(({ kind }) => kind)).toEqual(Array(32).fill("claimed").toSpliced(7, 1, "busy"));
    await expect(new ClaimInbox(table).claim([deliver("k7")], request)).rejects.toMatchObject({ code: "PropertyLimitExceeded" });
  });

  it("does not keep other keys from being completed together with it", async () => {
    const results = await new ClaimInbox(table).claim([deliver("k7"), ...batch(31, "x")], request);
    reject("!k7");
    const completions = Promise.allSettled(results.map((result) => claimed([result]).complete(request)));
    expect((await settle(completions)).map(({ status }) => status)).toEqual(["rejected", ...Array<string>(31).fill("fulfilled")]);
  });
});

describe("the cost of an inbox in a table", () => {
  it("is one transaction to claim a batch of 32, and one to complete it", async () => {
    const inbox = new ClaimInbox(table);
    const verdicts = await inbox.claim(batch(32), request);
    expect(table.faults.log).toEqual(["transaction"]);
    expect(await settle(completeAll(verdicts))).toEqual(Array(32).fill("completed"));
    expect(table.faults.log).toEqual(["transaction", "transaction"]);
  });

  it("is a read and a transaction more for one duplicate in a batch", async () => {
    await settle(completeAll(await new ClaimInbox(table).claim([deliver("k7")], request)));
    table.faults.log.length = 0;
    await new ClaimInbox(table).claim(batch(32), request);
    expect(table.faults.log).toEqual(["transaction", "get", "transaction"]);
  });

  it("is not more than a read for each and a few transactions if the whole batch was sent before", async () => {
    await settle(completeAll(await new ClaimInbox(table).claim(batch(32), request)));
    table.faults.log.length = 0;
    const verdicts = await new ClaimInbox(table).claim(batch(32), request);
    expect(verdicts).toEqual(Array(32).fill({ kind: "completed" }));
    expect(table.faults.count("get")).toBe(32);
    expect(table.faults.count("transaction")).toBeLessThanOrEqual(6);
  });

  it("is one transaction for more than a hundred completions less than two", async () => {
    const inbox = new ClaimInbox(table);
    const verdicts = (await Promise.all([0, 1, 2, 3].map((i) => inbox.claim(batch(30, `b${i}-`), request)))).flat();
    table.faults.log.length = 0;
    await settle(completeAll(verdicts));
    expect(table.faults.log).toEqual(["transaction", "transaction"]);
  });
});

describe("answers that are lost", () => {
  it("to a completion: a renewal that waited behind it does not undo it", async () => {
    const inbox = new ClaimInbox(table);
    const claim = claimed(await inbox.claim([deliver("k")], request));
    table.faults.next("transaction", "mute");
    const completing = claim.complete(request);
    await pass(1_000);
    const renewing = claim.renew(request);
    expect(await settle(completing)).toBe("completed");
    expect(await settle(renewing)).toBe("lost");
    expect(table.records.map(({ state }) => state)).toEqual(["done"]);
  });

  it.each<Fault>(["lost", "resent", "mute"])("to a claim (%s): the claim is found to be ours", async (fault) => {
    const inbox = new ClaimInbox(table);
    table.faults.next("transaction", fault);
    const verdicts = await settle(inbox.claim(batch(5), request));
    expect(verdicts.map(({ kind }) => kind)).toEqual(Array(5).fill("claimed"));
    expect(await settle(completeAll(verdicts))).toEqual(Array(5).fill("completed"));
    expect(table.records.map(({ state }) => state)).toEqual(Array(5).fill("done"));
  });

  it.each<Fault>(["lost", "resent", "mute"])("to a completion (%s): one read tells for the whole group", async (fault) => {
    const verdicts = await new ClaimInbox(table).claim(batch(20), request);
    table.faults.log.length = 0;
    table.faults.next("transaction", fault);
    expect(await settle(completeAll(verdicts))).toEqual(Array(20).fill("completed"));
    expect(table.faults.count("get")).toBe(1);
  });

  it.each<Fault>(["busy", "hang"])("to something that did not happen (%s): it is sent again", async (fault) => {
    const inbox = new ClaimInbox(table);
    table.faults.next("transaction", fault);
    const verdicts = await settle(inbox.claim(batch(5), request));
    table.faults.next("transaction", fault);
    expect(await settle(completeAll(verdicts))).toEqual(Array(5).fill("completed"));
    expect(table.records.map(({ state }) => state)).toEqual(Array(5).fill("done"));
  });

  it.each<Fault>(["lost", "resent", "mute"])("to a renewal (%s): the claim goes on", async (fault) => {
    const claim = claimed(await new ClaimInbox(table).claim([deliver("a")], request));
    table.faults.next("transaction", fault);
    expect(await settle(claim.renew(request))).toBe("renewed");
    expect(await settle(claim.complete(request))).toBe("completed");
  });

  it("to a renewal, and to the read that should find out: the next renewal finds the first, and writes nothing", async () => {
    const claim = claimed(await new ClaimInbox(table).claim([deliver("a")], request));
    table.faults.next("transaction", "lost");
    table.faults.always("get", "busy");
    const failing = claim.renew(request);
    await expect(Promise.all([failing, pass(5_000)])).rejects.toMatchObject({ statusCode: 503 });
    table.faults.always("get", "ok");
    const [{ etag }] = table.records as [{ etag: string }];
    expect(await settle(claim.renew(request), 100)).toBe("renewed");
    expect(table.records).toMatchObject([{ etag }]);
  });

  it("are not awaited when the signal aborts; other claims of the same transaction are not affected", async () => {
    const [a, b] = await new ClaimInbox(table).claim(batch(2), request);
    const caller = new AbortController();
    table.faults.next("transaction", "mute");
    const aborted = claimed([a!]).complete({ ...request, abortSignal: caller.signal });
    const other = claimed([b!]).complete(request);
    await pass(100);
    caller.abort(new Error("stopped"));
    await expect(aborted).rejects.toThrow("stopped");
    expect(await settle(other)).toBe("completed");
    expect(await settle(claimed([a!]).complete(request))).toBe("completed");
  });

  it("are cut off when no caller waits for the transaction any more", async () => {
    const [a, b] = await new ClaimInbox(table).claim(batch(2), request);
    const caller = new AbortController();
    const aborting = { ...request, abortSignal: caller.signal };
    table.faults.always("transaction", "hang");
    table.faults.log.length = 0;
    const completing = [claimed([a!]).complete(aborting), claimed([b!]).complete(aborting)].map((completion) => completion.catch(() => "aborted"));
    await pass(100);
    caller.abort();
    expect(await Promise.all(completing)).toEqual(["aborted", "aborted"]);
    await pass(60_000);
    expect(table.faults.log).toEqual(["transaction"]);
    await expect(claimed([a!]).renew(aborting)).rejects.toMatchObject({ name: "AbortError" });
    expect(table.faults.log).toEqual(["transaction"]);
  });

  it("do not make a group believe what another group did", async () => {
    const [a, b] = await new ClaimInbox(table).claim(batch(2), request);
    // The completion of a lands, but neither the answer nor the question arrives.
    table.faults.next("transaction", "lost");
    table.faults.always("get", "busy");
    const failing = claimed([a!]).complete(request);
    await expect(Promise.all([failing, pass(5_000)])).rejects.toMatchObject({ statusCode: 503 });
    table.faults.always("get", "ok");
    // Then a and b go together, and that does not land.
    table.faults.next("transaction", "busy");
    expect(await settle(completeAll([a!, b!]))).toEqual(["completed", "completed"]);
    expect(table.records.map(({ state }) => state)).toEqual(["done", "done"]);
  });
});

it("completes the others when one of the group was taken over", async () => {
  const deliveries = batch(10);
  const verdicts = await new ClaimInbox(table).claim(deliveries, request);
  claimed(await new ClaimInbox(table).claim([again(deliveries[4]!)], request));
  const results = await settle(completeAll(verdicts));
  expect(results).toEqual(deliveries.map((_, i) => (i === 4 ? "lost" : "completed")));
});

it("writes a record that was purged meanwhile anew", async () => {
  const claim = claimed(await new ClaimInbox(table).claim([deliver("a")], request));
  table.rows.clear();
  expect(await settle(claim.complete(request))).toBe("completed");
  expect(await new ClaimInbox(table).claim([deliver("a")], request)).toEqual([{ kind: "completed" }]);
});

it("tells an outage from an answer, and recovers", async () => {
  const inbox = new ClaimInbox(table);
  const deliveries = batch(3);
  table.faults.next("transaction", "denied");
  await expect(inbox.claim(deliveries, request)).rejects.toMatchObject({ statusCode: 403 });
  expect((await inbox.claim(deliveries, request)).map(({ kind }) => kind)).toEqual(Array(3).fill("claimed"));
});

it.each([
  ["order/4711#a?b\\c", "order 4711"],
  ["x".repeat(900), `${"x".repeat(899)}y`],
  ["ä".repeat(500), "a".repeat(500)],
  ["%41", "A"],
  ["a!b", "a=21b"],
  ["sha256=00", "x"],
])("keeps keys apart whatever is in them: %s", async (one, two) => {
  const inbox = new ClaimInbox(table);
  const verdicts = await inbox.claim([deliver(one), deliver(two)], request);
  expect(verdicts.map(({ kind }) => kind)).toEqual(["claimed", "claimed"]);
  for (const { rowKey } of table.rows.values()) expect(rowKey).toMatch(/^~asc~inbox!account:jobs![A-Za-z0-9._:@$=-]{1,420}$/);
});

describe("purge", () => {
  it("removes what is older, done or left behind, and nothing else", async () => {
    const inbox = new ClaimInbox(table);
    await settle(completeAll(await inbox.claim(batch(150).slice(0, 100), request)));
    await settle(completeAll(await inbox.claim(batch(50, "more"), request)));
    await inbox.claim([deliver("left")], request);
    table.rows.set("own", { partitionKey: "jobs", rowKey: "own", etag: "x", timestamp: new Date().toISOString() });
    await pass(8 * 86_400_000);
    await settle(completeAll(await inbox.claim([deliver("young")], request)));
    table.faults.log.length = 0;
    expect(await inbox.purge()).toEqual({ deleted: 151, kept: 0 });
    expect(table.faults.log).toEqual(["transaction", "transaction", "delete"]);
    expect([...table.rows.values()].map(({ rowKey }) => rowKey)).toEqual(["own", "~asc~inbox!account:jobs!young"]);
  });

  it("takes the age as an option, and nothing else", async () => {
    const inbox = new ClaimInbox(table);
    await settle(completeAll(await inbox.claim([deliver("a")], request)));
    await pass(3_600_000);
    expect(await inbox.purge({ olderThanInMs: 7_200_000 })).toEqual({ deleted: 0, kept: 0 });
    expect(await inbox.purge({ olderThanInMs: 3_600_000, partitionKey: "others" })).toEqual({ deleted: 0, kept: 0 });
    expect(await inbox.purge({ olderThanInMs: 3_600_000, partitionKey: "account:jobs" })).toEqual({ deleted: 1, kept: 0 });
    await expect(inbox.purge({ olderThanInMs: -1 })).rejects.toThrow(RangeError);
    await expect(inbox.purge({ olderThan: new Date() } as object)).rejects.toThrow(/unknown option "olderThan"/);
  });

  it("leaves a record that is taken over at this moment", async () => {
    const inbox = new ClaimInbox(table);
    const delivery = deliver("a");
    await inbox.claim([delivery], request);
    await pass(9 * 86_400_000);
    const list = table.listEntities.bind(table);
    table.listEntities = (options) => {
      const pages = list(options);
      return {
        async *byPage() {
          for await (const page of pages.byPage()) {
            await inbox.claim([again(delivery)], request);
            yield page;
          }
        },
      };
    };
    expect(await inbox.purge()).toEqual({ deleted: 0, kept: 1 });
    expect(table.records).toHaveLength(1);
  });
});
