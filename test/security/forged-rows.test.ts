import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { planShards } from "../../src/balancer/plan-shards.js";
import { formatWorker, parseWorker, readListing } from "../../src/balancer/worker-record.js";
import { ClaimInbox, enqueue, isConcurrencyError, QueueConsumer, redrive } from "../../src/index.js";
import type { LockStatus } from "../../src/index.js";
import { fenceRowKey } from "../../src/lock/fence-row.js";
import { markerOf, messageRowOf } from "../../src/outbox/outbox-rows.js";
import { groupRowKeyOf } from "../../src/queue/inbox/group-row.js";
import { entityOf, stateOf } from "../../src/schedule/job-row.js";
import { claimed, decide, finished, newJob, takenOver } from "../../src/schedule/job-state.js";
import type { JobRules, JobState } from "../../src/schedule/job-state.js";
import { JobStore } from "../../src/schedule/job-store.js";
import { receiptPrefix, settleReceipt } from "../../src/schedule/run-commit.js";
import { FakeService } from "../fakes/fake-service.js";
import type { WireProperty } from "../fakes/fake-table.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { pass } from "../lease/fakes/time.js";
import { ClockService } from "../once/fakes.js";
import { holderOf } from "../lock/held-table.js";
import { after, OutboxWorld } from "../outbox/fakes.js";
import { ownersOf, worker } from "../balancer/worker.js";
import { FakeContainer, hashAtOnce } from "../queue/fakes/fake-container.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { deliver, request } from "../queue/inbox/deliveries.js";
import { FakeFleet, noting } from "../schedule/fakes.js";
import { expectNoUnhandledRejections } from "../support/unhandled.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import { damaged, expectUnpolluted, forged, odd, runs, textOf } from "./mutations.js";

// As forged-records.test.ts, for rows of schedules, outboxes and groups, and the locks of balancers.

expectNoUnhandledRejections();

const now = Date.UTC(2030, 0, 1);
const minute = 60_000;
const inUse = { ...runs, numRuns: 200 };

const full: JobState = {
  ...newJob("every 60000 ms", now),
  nextDue: now + minute,
  skip: { from: now - 5, to: now },
  run: { id: "r", due: now, isManual: true, key: "k", attempt: 2, holder: "p", startedAt: now, partition: "x", isReleased: false },
  requests: [{ due: now, key: undefined }],
  history: [{ due: now, state: "failed", key: undefined, attempt: 1, startedAt: now, durationInMs: 5, error: "e", holder: "p" }],
};

const times = ["0001-01-01T00:00:00.000Z", "-271821-04-20T00:00:00.000Z", "+275760-09-13T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "2029-12-31T23:59:59.999Z", "2031"];

/** The row of a job: damaged, with odd values, or with values that are of their types, and that no instance writes. */
function forgedJob(state: JobState): fc.Arbitrary<Record<string, unknown>> {
  const row = { ...entityOf("default", "job", state) } as Record<string, unknown>;
  const number = fc.constantFrom<unknown>(-8.64e15, -1, 0, 1, now, now + 1e9, 2 ** 31 - 1, 2 ** 53 - 1, 8.64e15);
  const object = (valid: object, names: readonly string[]): fc.Arbitrary<Record<string, unknown>> =>
    fc.dictionary(fc.constantFrom(...names), number, { maxKeys: 2 }).map((changes) => ({ ...valid, ...changes }));
  const run = object({ ...full.run }, ["due", "attempt", "startedAt"]);
  const plausible = fc.record({
    cursor: fc.constantFrom(...times),
    freeSince: fc.constantFrom(...times),
    nextDue: fc.constantFrom("", ...times),
    run: fc.oneof(run, object({ ...full.run, isReleased: true, holder: "h".repeat(5_000), id: "/\\#?" }, ["attempt"])).map(textOf),
    skip: object({ ...full.skip }, ["from", "to"]).map(textOf),
    history: fc.array(object({ ...full.history[0] }, ["due", "attempt", "startedAt", "durationInMs"]), { maxLength: 3 }).map(textOf),
    requests: fc.array(object({ ...full.requests[0] }, ["due"]), { maxLength: 3 }).map(textOf),
  }, { requiredKeys: [] });
  const texts = Object.values(row).filter((value) => typeof value === "string");
  return fc.oneof(plausible.map((changes) => ({ ...row, ...changes })), forged(row, fc.oneof(odd, fc.constantFrom(...texts).chain(damaged))));
}

/** The outcome of a parser: a value, or the typed error. */
function schemaErrorOr<R>(parse: () => R): R | undefined {
  try {
    return parse();
  } catch (error) {
    expect(isConcurrencyError(error, "SCHEMA"), String(error)).toBe(true);
    return undefined;
  }
}

describe("1,000 damaged or forged", () => {
  const rulesOf = (missed: "latest" | "all" | "skip", everyInMs: number): JobRules => ({
    key: "default/job",
    times: { text: "every", next: (time) => (Math.floor(time / everyInMs) + 1) * everyInMs },
    policy: { missed, overlap: "skip", jitterInMs: 0 },
  });

  it("rows of jobs are read, or are a SchemaError; what is read is decided at once, and what is written of it can be read", () => {
    const policies = fc.record({ missed: fc.constantFrom("latest" as const, "all" as const, "skip" as const), everyInMs: fc.constantFrom(100, minute) });
    let readable = 0;
    fc.assert(fc.property(forgedJob(full), policies, (row, { missed, everyInMs }) => {
      const state = schemaErrorOr(() => stateOf(row, "url", now));
      if (!state) return;
      readable++;
      // The search for due times since the year 1 would keep the process from anything else for minutes.
      for (const time of [state.cursor, state.freeSince, state.nextDue, state.skip?.from, state.run?.due, state.run?.startedAt, ...state.requests.map(({ due }) => due)]) expect(time ?? 0).toBeGreaterThanOrEqual(0);
      const rules = rulesOf(missed, everyInMs);
      const started = performance.now();
      const decision = decide(state, rules, now);
      expect(performance.now() - started).toBeLessThan(2_000);
      const attempt = { id: "new", holder: "p", startedAt: now };
      const nexts = [
        state.run && finished(state, state.run.id, { state: "succeeded", error: undefined, durationInMs: 1 }, rules, now, 20),
        state.run && takenOver(state, state.run, attempt),
        decision.kind === "run" ? claimed({ ...state, run: undefined }, state, decision, rules, attempt, 20) : undefined,
      ];
      for (const next of nexts) if (next) expect(stateOf(entityOf("default", "job", next), "url", now).cursor).toBe(next.cursor);
    }), runs);
    expect(readable).toBeGreaterThan(100);
    expectUnpolluted();
  });

  it("markers of an outbox lead to their own rows, or are a SchemaError", () => {
    const marker = { partitionKey: "~asc~outbox", rowKey: "~asc~outmarker!0f8fad5b-d9cb-469f-a165-70867728950e", partition: "p", waitInMs: 5, idleInSeconds: 5, timestamp: "2030-01-01T00:00:00Z", etag: "1" };
    const keys = damaged(marker.rowKey);
    fc.assert(fc.property(forged(marker), fc.option(keys), (entity, rowKey) => {
      const found = schemaErrorOr(() => markerOf(rowKey === null ? entity : { ...entity, rowKey }, "url"));
      if (!found) return;
      expect(found.id).toMatch(/^[0-9a-f-]{36}$/);
      expect(found.waitInMs >= 0 && found.waitInMs <= 3_600_000 && found.idleInMs >= 0).toBe(true);
    }), runs);
  });

  it("rows of an outbox have messages that can be sent, or are a SchemaError", () => {
    const messages = [{ queue: "account:q", key: "k", text: "t", timing: { visibilityTimeout: 1 } }];
    const texts = fc.oneof(odd, damaged(JSON.stringify(messages)), fc.array(forged({ ...messages[0] }), { maxLength: 3 }).map(textOf));
    fc.assert(fc.property(texts, forged({ partitionKey: "p", rowKey: "r", etag: "1" }), (outgoing0, entity) => {
      const row = schemaErrorOr(() => messageRowOf({ ...entity, outgoing0 }, "url"));
      for (const { queue, key, text, timing } of row?.messages ?? []) expect([queue, key, text].every((part) => typeof part === "string") && typeof timing === "object").toBe(true);
    }), runs);
  });

  it("records of workers make no worker acquire a shard that has an owner, nor release one that it has not", async () => {
    const own = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const data = fc.oneof(damaged(formatWorker({ id: own, generation: 3, limit: 5, data: "d" })), fc.constantFrom(`${own}.999999999999999.0`, `${own.replace("0f", "1f")}.1.999999999999999`, `${"-".repeat(36)}.1.-`, undefined));
    const names = fc.oneof(fc.constantFrom("n/members/0", "n/members/1", "n/members/99999999", "n/shards/0", "n/shards/1", "n/shards/01", "n/shards/9", "n/shards/-1", "n/shards/1e3"), damaged("n/shards/1"));
    await fc.assert(fc.asyncProperty(fc.array(fc.tuple(names, data), { maxLength: 12 }), async (locks) => {
      async function* listing(): AsyncGenerator<LockStatus> {
        for (const [name, text] of locks) yield await Promise.resolve({ name, data: text, state: "leased", duration: "fixed", holder: "h", acquiredOn: undefined, etag: undefined, epoch: 1, fair: false } as unknown as LockStatus);
      }
      for (const [, text] of locks) expect(parseWorker(text)?.limit ?? 0).toBeGreaterThanOrEqual(0);
      const view = await readListing("n", 4, listing());
      view.workers.set(own, 4);
      const owned = [0, 2];
      const { quota, release, acquire } = planShards(view, { id: own, owned, ending: new Set(), avoided: new Set(), neglected: new Set([3]) });
      expect(quota >= 0 && quota <= 4).toBe(true);
      expect(release.every((shard) => owned.includes(shard))).toBe(true);
      expect(acquire.every((shard) => view.owners[shard] === undefined && shard < 4)).toBe(true);
    }), runs);
    expectUnpolluted();
  });

  it("receipts of a run say whether it was committed, or are a SchemaError", async () => {
    const receipt = { owner: "run/r", state: "done", messageId: "r", dequeueCount: 1, payloadHash: "run" };
    const values = fc.oneof(odd, fc.constantFrom("run/r", "void/x", "run/other"));
    await fc.assert(fc.asyncProperty(forged(receipt, values), async (properties) => {
      const table = new FakeTransactionTable(new FakeService());
      table.put(wire(properties), "p", `${receiptPrefix}default!job!r`);
      const settled = await settleReceipt(new JobStore(table, "default"), "job", { id: "r", partition: "p" }).catch((error: unknown) => error);
      if (settled instanceof Error) expect(isConcurrencyError(settled, "SCHEMA") || isConcurrencyError(settled, "IDEMPOTENCY_MISMATCH"), String(settled)).toBe(true);
      else expect(["committed", "void"]).toContain(settled);
    }), runs);
  });

  it("records of an inbox delay their own key only: another one of the same batch is claimed", async () => {
    vi.useFakeTimers({ now });
    const row = { state: "claimed", owner: "o", messageId: "other", dequeueCount: 1, failures: 0, payloadHash: "h", holdInMs: 30_000 };
    const place = new FakeTransactionTable(new ClockService());
    const first = new ClaimInbox(place).claim([deliver("a")], request);
    await vi.advanceTimersByTimeAsync(1_000);
    await first;
    const rowKey = place.rowKeys("account:jobs").find((key) => key.includes("inbox")) ?? "";
    expect(rowKey).not.toBe("");
    await fc.assert(fc.asyncProperty(forged(row), async (properties) => {
      const table = new FakeTransactionTable(new ClockService());
      table.put(wire(properties), "account:jobs", rowKey);
      const claiming = new ClaimInbox(table).claim([deliver("a"), deliver("b")], request);
      await vi.advanceTimersByTimeAsync(5_000);
      expect((await claiming)[1]).toMatchObject({ kind: "claimed" });
    }), runs);
    expectUnpolluted();
  }, 120_000);

  it("fence rows fence out, or are a typed error: no holder whose epoch is smaller writes, and other partitions are not affected", async () => {
    const row = { epoch: 5, confirmed: true, granularity: "table" };
    const values = fc.oneof(odd, fc.constantFrom<unknown>(8, 9, "8", "7 ", "0x9", "", "9007199254740993"));
    let written = 0;
    await fc.assert(fc.asyncProperty(forged(row, values), async (properties) => {
      const table = new FakeTransactionTable(new FakeService());
      table.put(wire(properties), "p", fenceRowKey);
      const held = holderOf(table, 7);
      const error = await held.partition("p").then((partition) => partition.create({ rowKey: "a" })).then(() => undefined, (thrown: unknown) => thrown as Error);
      if (error === undefined) written++;
      else expect(isConcurrencyError(error), error.message).toBe(true);
      const stored = wire(properties)["epoch"]?.value;
      if (stored === undefined || !(Number(stored) <= 7) || stored === "" || typeof stored === "boolean") expect(table.row("p", "a")).toBeUndefined();
      await (await held.partition("q")).create({ rowKey: "a" });
      await held.release();
    }), runs);
    expect(written).toBeGreaterThan(100);
    expectUnpolluted();
  }, 120_000);

  it("rows of groups delay their own group only: another one of the same batch is claimed", async () => {
    vi.useFakeTimers({ now });
    const row = { state: "claimed", owner: "o", messageId: "other", dequeueCount: 1, recordRowKey: "x", holdInMs: 30_000, lastSequence: 4 };
    const rowKey = await groupRowKeyOf("account:jobs", "g");
    await fc.assert(fc.asyncProperty(forged(row), async (properties) => {
      const table = new FakeTransactionTable(new ClockService());
      const inbox = new ClaimInbox(table);
      table.put(wire(properties), "account:jobs", rowKey);
      const claiming = inbox.claim([deliver("a", { group: "g", sequence: 5 }), deliver("b", { group: "h" })], request);
      await vi.advanceTimersByTimeAsync(5_000);
      expect((await claiming)[1]).toMatchObject({ kind: "claimed" });
    }), runs);
    expectUnpolluted();
  }, 120_000);
});

/** As the service stores them: other values it does not have. */
function wire(properties: Readonly<Record<string, unknown>>): Record<string, WireProperty> {
  const edm = (value: unknown): WireProperty | undefined => {
    if (typeof value === "string") return { type: "String", value };
    if (typeof value === "boolean") return { type: "Boolean", value };
    if (typeof value === "bigint") return { type: "Int64", value: String(value) };
    if (typeof value === "number" && Number.isFinite(value)) return (value | 0) === value ? { type: "Int32", value } : { type: "Double", value };
    return undefined;
  };
  return Object.fromEntries(Object.entries(properties).flatMap(([name, value]) => (name === "__proto__" || edm(value) === undefined ? [] : [[name, edm(value)!]])));
}

describe("in use, a forged row is a defined recovery or a typed error, and concerns its own job, partition or message only", () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: now + 30_000 });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("of a schedule: the other job runs at each due time, and errors are typed", async () => {
    await fc.assert(fc.asyncProperty(forgedJob({ ...full, trigger: "every 60000 ms", run: undefined }), async (row) => {
      vi.setSystemTime(now + 30_000);
      const fleet = new FakeFleet();
      const ran: string[] = [];
      const { errors } = fleet.instance({ a: noting([], { everyInMs: minute }), b: noting(ran, { everyInMs: minute }) });
      await fleet.start();
      fleet.table.put(wire({ ...row, job: "a" }), "~asc~schedule-default", "~asc~schedule!a");
      await pass(2 * minute);
      expect(ran).toEqual(["00:01:00", "00:02:00"]);
      for (const error of errors) expect(isConcurrencyError(error), String(error)).toBe(true);
      await fleet.stop();
    }), inUse);
    expectUnpolluted();
  }, 120_000);

  it("of an outbox: messages of other partitions are sent, and no other row is deleted", async () => {
    const id = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const victim = { partitionKey: "p", rowKey: "victim" };
    const hostile = fc.oneof(odd, fc.constantFrom<unknown>("p", "victim", "*", '[{"queue":"account:orders","key":"k","text":"forged","timing":{}}]', '[{"queue":"account:nowhere","key":"k","text":"t","timing":{}}]'));
    const markers = forged({ partition: "p", waitInMs: 5, idleInSeconds: 5, ...victim, etag: "*", timestamp: "2001-01-01T00:00:00Z" }, hostile);
    const rows = forged({ outgoing0: '[{"queue":"account:orders","key":"k","text":"forged","timing":{}}]', ...victim, etag: "*", timestamp: "2001-01-01T00:00:00Z" }, hostile);
    await fc.assert(fc.asyncProperty(markers, rows, async (marker, row) => {
      const world = new OutboxWorld();
      world.table.put({}, victim.partitionKey, victim.rowKey);
      for (const [partition, message] of [["q", "other"], ["p", undefined]] as const) {
        const markerId = message === undefined ? id : id.replace("0f", "1f");
        world.table.put(wire(message === undefined ? marker : { partition }), "~asc~outbox", `~asc~outmarker!${markerId}`);
        const text = JSON.stringify([{ queue: "account:orders", key: message, text: message, timing: {} }]);
        world.table.put(wire(message === undefined ? row : { outgoing0: text }), partition, `~asc~outbox!${markerId}!000000000001`);
      }
      const relay = world.process();
      await after(31_000);
      const flushing = relay.outbox.flush().catch((error: unknown) => error);
      await after(30_000);
      expect(await flushing).not.toBeInstanceOf(Error);
      expect(world.queue.messages.map(({ text }) => text)).toContain("other");
      expect(world.table.row(victim.partitionKey, victim.rowKey)).toBeDefined();
      for (const error of relay.errors) expect(isConcurrencyError(error) || /no client for the queue/.test(String(error)), String(error)).toBe(true);
      const stopping = relay.outbox.stop({ drainTimeoutInMs: 0 });
      await after(10_000);
      await stopping;
    }), inUse);
  }, 120_000);

  it("of a balancer: no shard has two owners, and the workers go on", async () => {
    const id = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const data = fc.oneof(damaged(`${id}.3.5`), fc.constantFrom(`${id}.1.-`, `${id}.999999999999999.0`, "")).map((text) => encodeURIComponent(text.replace(/\p{Cs}/gu, "")));
    const targets = fc.constantFrom("locks/feeds~2Fmembers~2F0", "locks/feeds~2Fshards~2F0", "locks/feeds~2Fshards~2F1");
    await fc.assert(fc.asyncProperty(targets, data, async (blob, text) => {
      vi.setSystemTime(now);
      const server = new FakeLeaseServer();
      const workers = [worker(server, { shards: 3 }), worker(server, { shards: 3 })];
      for (const { balancer } of workers) void balancer.start();
      await pass(30_000);
      const metadata = server.blobs.get(blob)?.metadata;
      if (metadata) server.replaceMetadata(blob, { ...metadata, asc_data: text });
      await pass(60_000);
      expect(ownersOf(workers).size).toBeGreaterThan(0);
      for (const { balancer, errors } of workers) {
        expect(balancer.isRunning).toBe(true);
        for (const error of errors) expect(isConcurrencyError(error), String(error)).toBe(true);
      }
      const stopping = Promise.all(workers.map(({ balancer }) => balancer.stop()));
      await pass(5_000);
      await stopping;
    }), { ...inUse, numRuns: 100 });
  }, 120_000);

  it("of a large message: the message is settled, the one behind it is handled, and no other payload is read or deleted", async () => {
    hashAtOnce();
    await fc.assert(fc.asyncProperty(forged({ key: "order-1", blob: "asc-overflow/account/other/x", sha256: "0".repeat(64), sizeInBytes: 70_000, fingerprint: "f" }), async (reference) => {
      const [queue, poisonQueue, other, container] = [new FakeQueue(), new FakeQueue("poison"), new FakeQueue("other"), new FakeContainer()];
      await enqueue(other, "x".repeat(70_000), { idempotencyKey: "order-1", overflow: container.client });
      await queue.sendMessage(textOf({ asc: 1, key: "", body: { ascOverflow: { ...reference, blob: container.names[0] } } }));
      await queue.sendMessage(JSON.stringify({ asc: 1, key: "last", body: "last" }));
      const handled: unknown[] = [];
      const consumer = new QueueConsumer(queue, (payload) => void handled.push(payload), { poisonQueue, maxAttempts: 2, overflow: container.client });
      consumer.on("error", () => undefined);
      await consumer.start();
      await vi.advanceTimersByTimeAsync(5_000);
      const stopping = consumer.stop();
      await vi.advanceTimersByTimeAsync(60_000);
      await stopping;
      expect(handled).toEqual(["last"]);
      expect(container.names).toHaveLength(1);
      expect(poisonQueue.messages).toHaveLength(1);
    }), inUse);
  }, 120_000);

  it("of a poison queue: the messages behind it are redriven", async () => {
    const poison = { queue: "q", messageId: "m", attempts: 5, reason: "r", error: "e", insertedOn: "2030-01-01T00:00:00Z", poisonedOn: "2030-01-01T00:00:00Z", encoding: "text", raw: true, timeToLiveInSeconds: 60 };
    const texts = fc.oneof(forged(poison).map((details) => textOf({ asc: 1, key: "k", body: 1, poison: details })), damaged(JSON.stringify({ asc: 1, key: "k", text: "t", poison })), forged({ asc: 1, key: "k", text: "t", of: "x", poison }).map(textOf));
    await fc.assert(fc.asyncProperty(texts, async (text) => {
      const [queue, poisonQueue] = [new FakeQueue(), new FakeQueue("poison")];
      await poisonQueue.sendMessage(text.replace(/[^\P{C}\n]/gu, "") || "x");
      await poisonQueue.sendMessage(JSON.stringify({ asc: 1, key: "last", body: "last", poison }));
      const moving = redrive(poisonQueue, queue);
      await vi.advanceTimersByTimeAsync(60_000);
      expect((await moving).moved).toBeGreaterThan(0);
      expect(queue.messages.map((message) => message.text).join("\n")).toContain("last");
    }), runs);
    expectUnpolluted();
  }, 120_000);
});
