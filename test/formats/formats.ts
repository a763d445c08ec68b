import { readFileSync } from "node:fs";

import { metadataWithClaims, parseClaims } from "../../src/append/claims.js";
import { formatWorker, parseWorker } from "../../src/balancer/worker-record.js";
import { IdAllocator, jsonBlob, readTarget, runTransaction } from "../../src/index.js";
import { EpochFloor } from "../../src/lock/epoch-floor.js";
import { epochOf, fenceOperation, granularityOf, isConfirmed } from "../../src/lock/fence-row.js";
import { formatLockRecord, parseLockRecord } from "../../src/lock/lock-record.js";
import { RecordedCount } from "../../src/lock/recorded-count.js";
import { isTicketBlob, TicketDispenser } from "../../src/lock/tickets.js";
import { entityOf as onceEntityOf, recordOf as onceRecordOf } from "../../src/once/once-record.js";
import { outcomeOfError } from "../../src/once/stored-result.js";
import { markerEntity, markerOf, messageEntity, messageRowOf } from "../../src/outbox/outbox-rows.js";
import { poisonText } from "../../src/queue/dead-letter.js";
import { openEnvelope, sealEnvelope, storedPoisonDetailsOf } from "../../src/queue/envelope.js";
import { groupEntityOf, groupRowOf } from "../../src/queue/inbox/group-row.js";
import { entityOf as inboxEntityOf, recordOf as inboxRecordOf } from "../../src/queue/inbox/record.js";
import { checkShards, compareShards } from "../../src/queue/inbox/shards.js";
import { overflowBlobOf, parseReference, referenceBody } from "../../src/queue/overflow/reference.js";
import { entityOf as jobEntityOf, stateOf } from "../../src/schedule/job-row.js";
import type { JobState } from "../../src/schedule/job-state.js";
import { formatJournal, parseJournal } from "../../src/target/journal.js";
import { isTombstone } from "../../src/target/library-rows.js";
import { noRow } from "../../src/transaction/row.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { request } from "../queue/inbox/deliveries.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

/** One stored format of the library. `golden/<name>.json` has what is stored, and docs/formats.md the fields. */
export interface Format {
  readonly name: string;
  /** What today's code stores. */
  readonly write: () => unknown;
  /** What today's code reads of it: compared with `meaning`. */
  readonly read: (stored: never) => unknown;
  readonly meaning: unknown;
}

export function golden(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`golden/${name}.json`, import.meta.url), "utf8"));
}

type Metadata = Record<string, string>;

const url = "https://account.table.core.windows.net/orders";
const time = Date.UTC(2030, 0, 1);
const iso = new Date(time).toISOString();
const etag = "W/\"1\"";
const id = "0f8fad5b-d9cb-469f-a165-70867728950e";
const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
/** What the service adds to a row. */
const served = { etag, timestamp: iso };
const asRow = (stored: object): object => ({ ...stored, ...served });

const inboxClaim = { state: "claimed" as const, owner: "consumer/m1/2", messageId: "m1", dequeueCount: 2, failures: 1, claims: 2, payloadHash: "90ea3a2f24d57eb1", claimDurationInMs: 60_000, batch: id };
const message = { queue: "account:invoices", key: "order-1", text: '{"asc":1,"key":"order-1","body":{"n":1}}', timing: { messageTimeToLive: 3_600, visibilityTimeout: 5 } };
const group = { state: "claimed" as const, owner: "consumer/m1/2", messageId: "m1", dequeueCount: 2, recordRowKey: "~asc~inbox!account:jobs!order-1", claimDurationInMs: 60_000, lastSequence: 6 };
const poison = { reason: "failed 5 times", error: "Error: no such customer", attempts: 5, queue: "jobs", messageId: "m1", insertedOn: iso, poisonedOn: iso, encoding: "text" as const, raw: true as const, timeToLiveInSeconds: 604_800 };
const job: JobState = {
  trigger: "every 60000 ms",
  cursor: time,
  paused: false,
  nextDue: time + 60_000,
  skip: { from: time - 120_000, to: time - 60_000 },
  freeSince: time - 30_000,
  run: { id, due: time, isManual: true, key: "k", attempt: 2, holder: "host/1/abc", startedAt: time, partition: "p", isReleased: false },
  requests: [{ due: time + 1, key: "again" }],
  history: [{ due: time - 60_000, state: "failed", key: "k", attempt: 1, startedAt: time - 60_000, durationInMs: 5, error: "Error: e", holder: "host/1/abc" }],
};
const once = { owner: id, writeId: id, fingerprint: hash, attempt: 2, claimDurationInMs: 30_000 };
const oncePlace = { partitionKey: "~asc~once-7f", rowKey: "~asc~once!run!key" };
const reference = { key: "order-1", blob: "asc-overflow/account/jobs/1-2", sha256: hash, sizeInBytes: 70_000, fingerprint: "90ea3a2f24d57eb1" };

/** A blob with what these formats store of it. */
function recordingBlob(stored: { metadata?: Metadata | undefined; content?: Uint8Array }): never {
  const missing = (): never => {
    throw Object.assign(new Error("404"), { name: "RestError", statusCode: 404, code: "BlobNotFound", details: { errorCode: "BlobNotFound" } });
  };
  return {
    url: "https://account.blob.core.windows.net/locks/a",
    getProperties: async () => (stored.metadata ? { etag, metadata: stored.metadata } : missing()),
    upload: async (_body: unknown, _length: number, options: { metadata: Metadata }) => ({ etag, ...(stored.metadata = options.metadata) }),
    create: async (options: { metadata: Metadata }) => ({ etag, ...(stored.metadata = options.metadata) }),
    appendBlock: async (body: Uint8Array) => {
      if (!stored.metadata) missing();
      stored.content = new Uint8Array([...(stored.content ?? []), ...body]);
      return { blobCommittedBlockCount: stored.content.length };
    },
  } as never;
}

const signal = new AbortController().signal;

export const formats: readonly Format[] = [
  {
    name: "journal",
    write: () => ({ asc_journal: formatJournal({ lineage: "0x8DB1", seq: 7, entries: ["AAAAAAAA0007+order-1+order-2:row", "BBBBBBBB0001", ""] }) }),
    read: ({ asc_journal: text }: Metadata) => parseJournal(text),
    meaning: { lineage: "0x8DB1", seq: 7, entries: ["AAAAAAAA0007+order-1+order-2:row", "BBBBBBBB0001", ""] },
  },
  {
    name: "tombstone",
    write: async () => {
      const table = new FakeTransactionTable(new FakeService());
      table.put({ n: { type: "Int32", value: 1 } });
      await runTransaction(table, "p", (tx) => tx.delete("r"));
      const [, entity] = table.submitted[0]![0] as unknown as [string, Record<string, unknown>];
      return { ...entity, asc_journal: "1~0x8DB1~1~AAAAAAAA0001", asc_tombstone: (entity["asc_tombstone"] as { value: boolean }).value };
    },
    read: (stored) => isTombstone(asRow(stored)),
    meaning: true,
  },
  {
    name: "append-claims",
    write: () => metadataWithClaims({}, [{ position: 4_096, id: "AAAAAAAA0001", operations: [{ id: "order-1", offset: 0 }, { id: "order-2", offset: 100 }] }, { position: 0, id: "BBBBBBBB0001", operations: [] }]),
    read: ({ asc_appends: text }: Metadata) => parseClaims(text),
    meaning: [{ position: 4_096, id: "AAAAAAAA0001", operations: [{ id: "order-1", offset: 0 }, { id: "order-2", offset: 100 }] }, { position: 0, id: "BBBBBBBB0001", operations: [] }],
  },
  {
    name: "id-counter",
    write: async () => {
      const blob = new FakeBlockBlob(new FakeService());
      await new IdAllocator(blob, { prefetch: 0 }).next();
      return blob.json;
    },
    read: async (stored) => {
      const blob = new FakeBlockBlob(new FakeService());
      blob.put(stored);
      return [await new IdAllocator(blob, { prefetch: 0 }).next(), (await readTarget(jsonBlob<object>(blob))).value];
    },
    meaning: [1_001, { next: 2_001 }],
  },
  {
    name: "lock-record",
    write: () => formatLockRecord({ epoch: 1_893_456_000_000_000, reserved: 8, holder: "host/1/abc ü", acquiredOn: new Date(time), served: 3, nextTicket: 4, fair: true, data: "data é", lowestGuarding: 1_893_456_000_000_000 }),
    read: (stored) => parseLockRecord(stored),
    meaning: { epoch: 1_893_456_000_000_000, reserved: 8, holder: "host/1/abc ü", acquiredOn: new Date(time), served: 3, nextTicket: 4, fair: true, data: "data é", lowestGuarding: 1_893_456_000_000_000 },
  },
  {
    name: "tickets",
    write: async () => {
      const stored: { metadata?: Metadata; content?: Uint8Array } = {};
      await new TicketDispenser(() => recordingBlob(stored)).draw(undefined, signal, {});
      return { metadata: stored.metadata, content: [...(stored.content ?? [])] };
    },
    read: async ({ metadata, content }: { metadata: Metadata; content: number[] }) => [
      isTicketBlob("locks/a.tickets", metadata),
      await new TicketDispenser(() => recordingBlob({ metadata, content: new Uint8Array(content) })).draw(undefined, signal, {}),
    ],
    meaning: [true, 2],
  },
  {
    name: "epoch-floor",
    write: async () => {
      const stored: { metadata?: Metadata } = {};
      await new EpochFloor({ getBlockBlobClient: () => recordingBlob(stored) } as never, "locks/").raise(1_893_456_000_000_000, {});
      return stored.metadata;
    },
    read: (metadata) => new EpochFloor({ getBlockBlobClient: () => recordingBlob({ metadata }) } as never, "locks/").read({}),
    meaning: 1_893_456_000_000_000,
  },
  {
    name: "count-record",
    write: async () => {
      const stored: { metadata?: Metadata } = {};
      await new RecordedCount(recordingBlob(stored), "slots", "s", 3).readOrCreate(1_000, {});
      return { ...stored.metadata, asc_waiter: id };
    },
    read: async (metadata) => (await new RecordedCount(recordingBlob({ metadata }), "slots", "s", 3).readOrCreate(1_000, {})).found,
    meaning: "3",
  },
  {
    name: "fence-row",
    write: () => {
      const [, { epoch, ...rest }] = fenceOperation(noRow, { partitionKey: "p", rowKey: "~asc~fence", granularity: "partition", epoch: 1_893_456_000_000_000, confirmed: true }).action;
      return { ...rest, epoch: (epoch as { value: number }).value };
    },
    read: (stored: Record<string, unknown>) => {
      const row = { ...noRow, stored: new Map(Object.entries(stored).map(([name, value]) => [name, { value } as never])) };
      return [epochOf(row), granularityOf(row), isConfirmed(row)];
    },
    meaning: [1_893_456_000_000_000, "partition", true],
  },
  {
    name: "worker-record",
    write: () => ({ asc_data: formatWorker({ id, generation: 3, limit: 5, data: "host-1" }) }),
    read: ({ asc_data: text }: Metadata) => parseWorker(text),
    meaning: { id, generation: 3, limit: 5, data: "host-1" },
  },
  {
    name: "inbox-claim",
    write: () => inboxEntityOf("account:jobs", "~asc~inbox!account:jobs!order-1", inboxClaim),
    read: (stored) => inboxRecordOf(asRow(stored)),
    meaning: { ...inboxClaim, outgoing: [], writtenAt: time, etag },
  },
  {
    name: "inbox-commit",
    write: () => inboxEntityOf("contoso", "~asc~inbox!account:jobs!order-1", { state: "done", owner: "consumer/m1/2/0", messageId: "m1", dequeueCount: 2, payloadHash: "90ea3a2f24d57eb1", outgoing: [message] }),
    read: (stored) => {
      const { state, owner, outgoing, payloadHash } = inboxRecordOf(asRow(stored));
      return { state, owner, outgoing, payloadHash };
    },
    meaning: { state: "done", owner: "consumer/m1/2/0", outgoing: [message], payloadHash: "90ea3a2f24d57eb1" },
  },
  {
    name: "inbox-group",
    write: () => groupEntityOf("account:jobs", "~asc~group!account:jobs!customer-7", group),
    read: (stored) => groupRowOf(asRow(stored)),
    meaning: { ...group, writtenAt: time, etag },
  },
  {
    name: "inbox-shards",
    write: async () => {
      const table = new FakeTransactionTable(new FakeService());
      await checkShards(table, 4, undefined, request);
      return table.submitted[0]?.[0]?.[1];
    },
    read: (stored) => compareShards({ url, tableName: "inbox" } as never, 4, stored),
    meaning: undefined,
  },
  {
    name: "envelope",
    write: () => ({ messageText: sealEnvelope({ asc: 1, key: "order-1", group: "customer-7", sequence: 3, body: { n: 1 }, of: "m1", failures: 1, uncharged: 2, checkpoint: { row: 5 }, traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", poisonPending: { reason: "r", error: "e" } }, "text") }),
    read: ({ messageText }: { messageText: string }) => openEnvelope(messageText, "text"),
    meaning: { asc: 1, key: "order-1", group: "customer-7", sequence: 3, body: { n: 1 }, of: "m1", failures: 1, uncharged: 2, checkpoint: { row: 5 }, traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", poisonPending: { reason: "r", error: "e" } },
  },
  {
    name: "poison-envelope",
    write: () => ({ messageText: poisonText("order-1", { asc: 1, text: "<order/>", checkpoint: { row: 5 } }, poison, "") }),
    read: ({ messageText }: { messageText: string }) => storedPoisonDetailsOf(openEnvelope(messageText, "text").poison, new Date(0)),
    meaning: poison,
  },
  {
    name: "overflow-reference",
    write: async () => {
      const blob = await overflowBlobOf("https://account.queue.core.windows.net/jobs", "order-1", hash);
      return { messageText: sealEnvelope({ asc: 1, key: "", body: referenceBody({ ...reference, blob }) }, "text") };
    },
    read: ({ messageText }: { messageText: string }) => parseReference(openEnvelope(messageText, "text").body as never),
    meaning: { ...reference, blob: "asc-overflow/account/jobs/0bafe22156d2698c143b86040446d366-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" },
  },
  {
    name: "outbox-marker",
    write: () => markerEntity({ id, partition: "contoso" }, { waitInMs: 60_000, idleInMs: 120_000 }),
    read: (stored) => markerOf(asRow(stored), url),
    meaning: { id, partition: "contoso", waitInMs: 60_000, idleInMs: 120_000, writtenAt: time, etag },
  },
  {
    name: "outbox-message",
    write: () => messageEntity({ partitionKey: "contoso", rowKey: `~asc~outbox!${id}!000000000001`, messages: [message], addedOn: iso }),
    read: (stored) => messageRowOf(asRow(stored), url),
    meaning: { partitionKey: "contoso", rowKey: `~asc~outbox!${id}!000000000001`, messages: [message], addedOn: iso },
  },
  {
    name: "schedule-job",
    write: () => ({ partitionKey: "~asc~schedule-default", rowKey: "~asc~schedule!report", ...jobEntityOf("default", "report", job) }),
    read: (stored) => stateOf(stored, url, time),
    meaning: job,
  },
  {
    name: "schedule-receipt",
    write: () => inboxEntityOf("p", `~asc~schedule-done!default!report!${id}`, { state: "done", owner: `run/${id}`, messageId: id, dequeueCount: 1, payloadHash: "run", outgoing: [] }),
    read: (stored) => inboxRecordOf(asRow(stored)).owner,
    meaning: `run/${id}`,
  },
  {
    name: "once-running",
    write: () => onceEntityOf(oncePlace, { ...once, state: "running", outcome: undefined }),
    read: (stored) => onceRecordOf(asRow(stored), url),
    meaning: { ...once, state: "running", outcome: undefined, writtenAt: time, etag },
  },
  {
    name: "once-value",
    write: () => onceEntityOf(oncePlace, { ...once, state: "succeeded", outcome: { kind: "value", text: '{"total":5}' } }),
    read: (stored) => onceRecordOf(asRow(stored), url).outcome,
    meaning: { kind: "value", text: '{"total":5}' },
  },
  {
    name: "once-blob",
    write: () => onceEntityOf(oncePlace, { ...once, state: "succeeded", outcome: { kind: "blob", reference: { sha256: hash, sizeInBytes: 70_000, etag } } }),
    read: (stored) => onceRecordOf(asRow(stored), url).outcome,
    meaning: { kind: "blob", reference: { sha256: hash, sizeInBytes: 70_000, etag } },
  },
  {
    name: "once-error",
    write: () => onceEntityOf(oncePlace, { ...once, state: "failed", outcome: outcomeOfError(Object.assign(new TypeError("no such customer"), { id: 7 })) }),
    read: (stored) => onceRecordOf(asRow(stored), url).outcome,
    meaning: { kind: "error", text: '{"isError":true,"name":"TypeError","message":"no such customer","properties":{"id":7}}' },
  },
];
