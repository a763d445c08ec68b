import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";

import { appendExactlyOnce, BlobLocks, isConcurrencyError, jsonBlob, optimisticUpdate, QueueConsumer, redrive, Semaphore } from "../../src/index.js";
import { parseClaims } from "../../src/append/claims.js";
import { continueTrace } from "../../src/core/trace-context.js";
import { epochOf, granularityOf, isConfirmed } from "../../src/lock/fence-row.js";
import { parseLockRecord } from "../../src/lock/lock-record.js";
import { recordOf as onceRecordOf } from "../../src/once/once-record.js";
import { storedError } from "../../src/once/stored-result.js";
import { findEnvelope, openEnvelope, storedPoisonDetailsOf } from "../../src/queue/envelope.js";
import { decideGroup, groupRowOf } from "../../src/queue/inbox/group-row.js";
import type { InboxDelivery } from "../../src/queue/inbox/inbox.js";
import { decideClaim, recordOf } from "../../src/queue/inbox/record.js";
import { outgoingIn } from "../../src/queue/inbox/stored-outgoing.js";
import { parseReference } from "../../src/queue/overflow/reference.js";
import { parseJournal } from "../../src/target/journal.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { expectNoUnhandledRejections } from "../support/unhandled.js";
import { damaged, expectUnpolluted, forged, odd, runs, textOf } from "./mutations.js";

// What a program with write access, or a defect, may have stored: each is a value, a defined recovery or a typed error, and concerns
// nobody else. Rows of schedules, outboxes and groups, and the locks of balancers: forged-rows.test.ts.

expectNoUnhandledRejections();

afterEach(() => {
  vi.useRealTimers();
});

const delivery: InboxDelivery = { queueUrl: "https://a.queue.core.windows.net/q", messageId: "m", dequeueCount: 1, insertedOn: new Date(0), idempotencyKey: "k", payloadHash: "h", claimDurationInMs: 30_000 } as unknown as InboxDelivery;
const journaled = new FakeBlockBlob(new FakeService());
for (const n of [1, 2, 3]) await optimisticUpdate(jsonBlob<{ n: number }>(journaled), (doc) => { doc.n = n; }, { initial: { n: 0 }, operationId: `operation-${n}` });
const journalText = journaled.metadata["asc_journal"] ?? "";
/** By the service itself, whoever writes the row. */
const written = { etag: "1", timestamp: "2030-01-01T00:00:00Z" };
const record = { partitionKey: "p", rowKey: "r", etag: "1", timestamp: "2030-01-01T00:00:00Z", state: "claimed", owner: "o", messageId: "other", dequeueCount: 1, failures: 0, payloadHash: "h", holdInMs: 30_000, group: "b", outgoing0: "[]" };
/** With the id of the first message of a fake queue: otherwise the counts and the checkpoint would be dropped unseen. */
const envelope = { asc: 1, of: "jobs-1", key: "k", group: "g", sequence: 3, body: { n: 1 }, failures: 1, uncharged: 1, checkpoint: {}, traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
const poison = { queue: "q", messageId: "m", attempts: 5, reason: "r", error: "e", insertedOn: "2030-01-01T00:00:00Z", poisonedOn: "2030-01-01T00:00:00Z", encoding: "text", raw: true, timeToLiveInSeconds: 60 };

describe("1,000 damaged or forged", () => {
  it("journals are parsed, or are none", () => {
    fc.assert(fc.property(fc.oneof(damaged(journalText), odd), (text) => {
      const journal = parseJournal(text);
      if (journal) expect(Number.isSafeInteger(journal.seq) && Array.isArray(journal.entries)).toBe(true);
    }), runs);
  });

  it("append claims are parsed, or are none", () => {
    fc.assert(fc.property(damaged("1~a.id1+op1:2+op2~5.id2"), (text) => {
      for (const { position, id, operations } of parseClaims(text)) {
        expect(Number.isSafeInteger(position) && position >= 0 && id !== "" && operations.every(({ offset }) => offset >= 0)).toBe(true);
      }
    }), runs);
  });

  it("lock records have numbers that can be counted on", () => {
    const names = ["asc_epoch", "asc_reserved", "asc_holder", "asc_since", "asc_served", "asc_next", "asc_fair", "asc_data", "asc_guarding", "ASC_EPOCH"];
    fc.assert(fc.property(fc.dictionary(fc.constantFrom(...names), fc.oneof(damaged("17"), fc.constantFrom("%", "%zz", "-1", "1e3", "9007199254740991"))), (metadata) => {
      const { epoch, reserved, served, nextTicket, lowestGuarding } = parseLockRecord(metadata);
      for (const number of [epoch, reserved, served ?? 0, nextTicket ?? 0, lowestGuarding ?? 0]) expect(Number.isSafeInteger(number) && number >= 0).toBe(true);
    }), runs);
  });

  it("fence rows have an epoch that fences out, or none", () => {
    fc.assert(fc.property(fc.array(fc.tuple(fc.constantFrom("epoch", "confirmed", "granularity"), odd)), (properties) => {
      const stored = new Map(properties.map(([name, value]) => [name, { type: "String", value }] as const));
      const row = { stored, etag: "1", journal: undefined, journalValue: undefined } as never;
      const epoch = epochOf(row);
      const value = stored.get("epoch")?.value;
      // Of what cannot be read nobody is told that nobody is fenced out.
      if (epoch === undefined) expect(typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER).toBe(false);
      else expect([epoch >= 0, epoch <= Number.MAX_SAFE_INTEGER, epoch]).toEqual([true, true, Number(value)]);
      expect(typeof isConfirmed(row)).toBe("boolean");
      expect(["string", "undefined"]).toContain(typeof granularityOf(row));
    }), runs);
  });

  it("inbox records delay their own key for a week at most, and throw nothing", () => {
    fc.assert(fc.property(forged(record), (entity) => {
      Object.assign(entity, written);
      const decision = decideClaim(recordOf(entity), delivery, "owner", Date.parse("2030-01-01T00:00:00Z"));
      if (decision.kind === "busy") expect(decision.retryAfterInMs).toBeLessThanOrEqual(7 * 86_400_000);
      if (decision.kind === "free") expect(Number.isSafeInteger(decision.failures)).toBe(true);
      expect(recordOf(entity).claimDurationInMs).toBeLessThanOrEqual(7 * 86_400_000);
    }), runs);
    expectUnpolluted();
  });

  it("group rows delay their own group for a week at most, and throw nothing", () => {
    const row = { ...record, recordRowKey: "x", lastSequence: 4 };
    fc.assert(fc.property(forged(row), (entity) => {
      Object.assign(entity, written);
      const decision = decideGroup(groupRowOf(entity), { ...delivery, sequence: 5 }, "owner", Date.parse("2030-01-01T00:00:00Z"));
      if (decision.kind === "gap") expect(decision.retryAfterInMs).toBeLessThanOrEqual(600_000);
      expect(groupRowOf(entity).claimDurationInMs).toBeLessThanOrEqual(7 * 86_400_000);
    }), runs);
  });

  it("records of Once are read, or are a SchemaError: never a key that was not used", () => {
    const once = { partitionKey: "p", rowKey: "r", etag: "1", timestamp: "2030-01-01T00:00:00Z", state: "succeeded", owner: "o", writeId: "w", fingerprint: "f", attempt: 1, claimDurationInMs: 30_000, outcome: "value", result0: "1" };
    fc.assert(fc.property(forged(once), (entity) => {
      try {
        const { state, attempt, claimDurationInMs, outcome } = onceRecordOf(entity, "https://a/t");
        expect(Number.isSafeInteger(attempt) && claimDurationInMs >= 0 && ["running", "succeeded", "failed"].includes(state)).toBe(true);
        if (outcome?.kind === "error") expect(storedError(outcome.text, "https://a/t")).toBeDefined();
        if (outcome?.kind === "blob") expect(outcome.reference.sizeInBytes).toBeLessThanOrEqual(64 * 1024 * 1024);
      } catch (error) {
        expect(isConcurrencyError(error, "SCHEMA"), String(error)).toBe(true);
      }
    }), runs);
    expectUnpolluted();
  });

  it("messages to be sent with a commit are valid, or known to be damaged", () => {
    const text = JSON.stringify([{ queue: "https://a/q", text: "t", visibilityTimeout: 1 }]);
    fc.assert(fc.property(fc.oneof(damaged(text), odd), (outgoing0) => {
      const messages = outgoingIn({ ...record, outgoing0 });
      expect(messages === undefined || Array.isArray(messages)).toBe(true);
    }), runs);
  });

  it("envelopes are opened, or are texts of another producer", () => {
    fc.assert(fc.property(fc.oneof(damaged(JSON.stringify(envelope)), forged(envelope).map((value) => textOf(value))), (text) => {
      expect(openEnvelope(text, "text").asc).toBe(1);
      findEnvelope(text);
    }), runs);
    expectUnpolluted();
  });

  it("poison details are complete, or none", () => {
    fc.assert(fc.property(fc.oneof(forged(poison), odd), (details) => {
      const stored = storedPoisonDetailsOf(details, new Date(0));
      if (stored) expect([typeof stored.queue, typeof stored.reason, Number.isNaN(Date.parse(stored.poisonedOn)), Number.isSafeInteger(stored.attempts)]).toEqual(["string", "string", false, true]);
    }), runs);
  });

  it("overflow references and traces are valid, or refused with a typed error", () => {
    const reference = { blob: "asc-overflow/q/k", sizeInBytes: 70_000, sha256: "0".repeat(64) };
    fc.assert(fc.property(fc.oneof(forged(reference), odd), (ascOverflow) => {
      try {
        parseReference({ ascOverflow });
      } catch (error) {
        expect((error as Error).name).toMatch(/^(UnusablePayload|Type|Range)/);
      }
      continueTrace(ascOverflow);
    }), runs);
  });
});

describe("in use, a forged record is a defined recovery or a typed error", () => {
  it("of a journal: the update is applied, and later ones as well", async () => {
    await fc.assert(fc.asyncProperty(damaged(journalText), async (text) => {
      const blob = new FakeBlockBlob(new FakeService());
      blob.put({ n: 1 }, { metadata: { asc_journal: text, own: "kept" } });
      for (const n of [2, 3]) {
        const outcome = await optimisticUpdate(jsonBlob<{ n: number }>(blob), (doc) => { doc.n = n; }).catch((error: unknown) => error);
        expect(outcome instanceof Error ? isConcurrencyError(outcome) : blob.json).toEqual(outcome instanceof Error ? true : { n });
      }
    }), { ...runs, numRuns: 200 });
  });

  it("of an append claim: the record is appended once", async () => {
    await fc.assert(fc.asyncProperty(damaged("1~a.id1+op1:2+op2~5.id2"), async (text) => {
      const blob = new FakeAppendBlob(new FakeService());
      blob.put("before\n", { metadata: { asc_appends: text } });
      await appendExactlyOnce(blob, "after\n");
      expect(blob.text).toBe("before\nafter\n");
    }), { ...runs, numRuns: 200 });
  });

  it("of a lock: its epochs never go backwards, and other locks are not affected", async () => {
    vi.useFakeTimers({ now: Date.parse("2030-01-01T00:00:00Z") });
    const texts = fc.oneof(damaged("17"), fc.constantFrom("9007199254740991", "9007199254740990", "-1", "1e300", "0x10", "4503599627370496", "4503599627370497"));
    await fc.assert(fc.asyncProperty(fc.dictionary(fc.constantFrom("asc_epoch", "asc_reserved", "asc_served", "asc_next", "asc_guarding", "asc_holder"), texts), async (metadata) => {
      const server = new FakeLeaseServer();
      const locks = new BlobLocks(server.container());
      const taken = async (name: string): Promise<number | Error> => {
        const acquiring = locks.acquire(name, { waitInMs: 5_000 }).then(async (lock) => {
          await lock.release();
          return lock.epoch;
        }).catch((error: unknown) => error as Error);
        await vi.advanceTimersByTimeAsync(20_000);
        return acquiring;
      };
      const first = await taken("a");
      server.replaceMetadata("locks/a", metadata);
      const other = new BlobLocks(server.container());
      for (const use of [locks, other]) {
        const acquiring = use.acquire("a", { waitInMs: 5_000 }).then(async (lock) => {
          await lock.release();
          return lock.epoch;
        }).catch((error: unknown) => error as Error);
        await vi.advanceTimersByTimeAsync(20_000);
        const epoch = await acquiring;
        if (epoch instanceof Error) expect(isConcurrencyError(epoch) || epoch instanceof RangeError, String(epoch)).toBe(true);
        else expect(Number.isSafeInteger(epoch + 1_000) && epoch > 0).toBe(true);
      }
      expect(typeof (await taken("b"))).toBe("number");
      expect(typeof first).toBe("number");
    }), { ...runs, numRuns: 200 });
  }, 60_000);

  it("of tickets: a fair lock is acquired, or a typed error says why not, and other locks are not affected", async () => {
    vi.useFakeTimers({ now: Date.parse("2030-01-01T00:00:00Z") });
    const numbers = fc.oneof(damaged("17"), fc.constantFrom("9007199254740991", "9007199254740990", "-1", "1e300", "0x10", "50000", "49999", "0", "4503599627370497"));
    const forgeries = fc.record({ metadata: fc.dictionary(fc.constantFrom("asc_served", "asc_next", "asc_fair"), numbers), purged: fc.boolean() });
    await fc.assert(fc.asyncProperty(forgeries, async ({ metadata, purged }) => {
      const server = new FakeLeaseServer();
      const use = async (name: string): Promise<number | Error> => {
        const locks = new BlobLocks(server.container(), { fair: true });
        const acquiring = locks.acquire(name, { waitInMs: 90_000 }).then(async (lock) => {
          await lock.release();
          return lock.epoch;
        }).catch((error: unknown) => error as Error);
        await vi.advanceTimersByTimeAsync(120_000);
        return acquiring;
      };
      expect(typeof (await use("a"))).toBe("number");
      server.replaceMetadata("locks/a", { asc_epoch: "17", asc_reserved: "1", ...metadata });
      if (purged) server.replaceMetadata("locks/a", {});
      const used = await use("a");
      if (used instanceof Error) expect(isConcurrencyError(used) || used instanceof RangeError, String(used)).toBe(true);
      expect(typeof (await use("b"))).toBe("number");
    }), { ...runs, numRuns: 1_000 });
  }, 120_000);

  it("of a semaphore: a slot is acquired, or a typed error says why not; no more callers hold slots than there are, and other semaphores are not affected", async () => {
    vi.useFakeTimers({ now: Date.parse("2030-01-01T00:00:00Z") });
    const texts = fc.oneof(damaged("2"), fc.constantFrom("", "0", "-1", "1e300", "0x2", "02", "9007199254740993", "%", "~", "2 "));
    const names = fc.constantFrom("asc_slots", "ASC_SLOTS", "asc_waiter", "asc_epoch", "asc_reserved");
    await fc.assert(fc.asyncProperty(fc.dictionary(names, texts), fc.constantFrom("locks/a.slots", "locks/a~2F0", "locks/a~2F1"), async (metadata, blob) => {
      const server = new FakeLeaseServer();
      let holders = 0;
      let most = 0;
      const use = async (name: string): Promise<unknown> => {
        const semaphore = new Semaphore(new BlobLocks(server.container()), name, 2);
        const using = semaphore.withSlot(async () => {
          most = Math.max(most, ++holders);
          await new Promise((resolve) => setTimeout(resolve, 1_000));
          holders--;
        }, { waitInMs: 20_000 }).catch((error: unknown) => error);
        await vi.advanceTimersByTimeAsync(1);
        return using;
      };
      const all = async (name: string): Promise<unknown[]> => {
        const using = Promise.all([use(name), use(name), use(name)]);
        await vi.advanceTimersByTimeAsync(60_000);
        return using;
      };
      expect(await all("a")).toEqual([undefined, undefined, undefined]);
      server.replaceMetadata(blob, metadata);
      for (const outcome of await all("a")) if (outcome !== undefined) expect(isConcurrencyError(outcome) || outcome instanceof RangeError, JSON.stringify(outcome)).toBe(true);
      expect(await all("b")).toEqual([undefined, undefined, undefined]);
      expect(most).toBeLessThanOrEqual(2);
    }), { ...runs, numRuns: 200 });
    expectUnpolluted();
  }, 180_000);

  it("of a message: a consumer settles it, and handles the one behind it", async () => {
    vi.useFakeTimers();
    const texts = fc.oneof(damaged(JSON.stringify(envelope)), forged({ ...envelope, poisonPending: { reason: "r" }, poison }).map((value) => textOf(value)));
    await fc.assert(fc.asyncProperty(texts, async (text) => {
      const [queue, poisonQueue] = [new FakeQueue(), new FakeQueue("poison")];
      await queue.sendMessage(text.replace(/[^\P{C}\n]/gu, "") || "x");
      await queue.sendMessage(JSON.stringify({ asc: 1, key: "last", body: "last" }));
      const handled: unknown[] = [];
      const consumer = new QueueConsumer(queue, (payload) => void handled.push(payload), { poisonQueue, maxAttempts: 2 });
      consumer.on("error", () => undefined);
      await consumer.start();
      await vi.advanceTimersByTimeAsync(5_000);
      const stopping = consumer.stop();
      await vi.advanceTimersByTimeAsync(60_000);
      await stopping;
      expect(handled).toContain("last");
      expect(vi.getTimerCount()).toBe(0);
      const moving = redrive(poisonQueue, queue).catch((error: unknown) => error);
      await vi.advanceTimersByTimeAsync(60_000);
      expect(await moving).not.toBeInstanceOf(TypeError);
    }), { ...runs, numRuns: 200 });
    expectUnpolluted();
  }, 60_000);
});
