import { randomUUID } from "node:crypto";

import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";
import { QueueClient } from "@azure/storage-queue";

import { BlobLocks, enqueueMany, type LockHandle, ReaderWriterLock, Semaphore } from "../../src/index.js";
import { tableLockName } from "../../src/lock/table-lock-name.js";
import { markerEntity, messageEntity, messageRowKey } from "../../src/outbox/outbox-rows.js";
import { sealEnvelope } from "../../src/queue/envelope.js";
import { entityOf as recordEntity, rowKeyPrefix } from "../../src/queue/inbox/record.js";
import { entityOf as jobEntity, jobRowPrefix, schedulePartitionPrefix } from "../../src/schedule/job-row.js";
import type { EndedRun, JobState } from "../../src/schedule/job-state.js";

const minute = 60_000;
const day = 86_400_000;

/** An account with something of everything that the dashboard shows, as a service of several processes leaves it. */
export interface DashboardAccount {
  readonly container: ContainerClient;
  readonly queue: QueueClient;
  readonly poisonQueue: QueueClient;
  readonly table: TableClient;
  readonly migration: LockHandle;
  release(): Promise<void>;
}

export interface PoisonMessage {
  readonly key: string;
  readonly payload: unknown;
  readonly reason: string;
  readonly error?: string;
  readonly ageInMs?: number;
}

/** Sends what a consumer moves to its poison queue. */
export async function sendPoison(queue: QueueClient, { key, payload, reason, error, ageInMs = 0 }: PoisonMessage): Promise<void> {
  const poisonedOn = new Date(Date.now() - ageInMs).toISOString();
  const poison = { reason, error, attempts: 5, queue: "orders", messageId: randomUUID(), insertedOn: poisonedOn, poisonedOn, encoding: "text" as const };
  await queue.sendMessage(sealEnvelope({ asc: 1, key, body: payload, poison }, "text"), { messageTimeToLive: -1 });
}

export async function fillAccount(connectionString: string, name: string): Promise<DashboardAccount> {
  const container = new ContainerClient(connectionString, "locks");
  const queue = new QueueClient(connectionString, "orders");
  const poisonQueue = new QueueClient(connectionString, "orders-poison");
  const table = TableClient.fromConnectionString(connectionString, name, { allowInsecureConnection: true });
  await Promise.all([container.create(), queue.create(), poisonQueue.create(), table.createTable()]);
  const handles = await holdLocks(container, table);
  await writeJobs(table);
  await writeRecords(table);
  await enqueueMany(queue, Array.from({ length: 12 }, (_, i) => ({ payload: { order: 4_711 + i }, idempotencyKey: `order-${4_711 + i}` })));
  await sendPoison(poisonQueue, { key: "order-4688", payload: { order: 4_688, customer: "Contoso", card: "4111 1111 1111 1111", lines: [{ sku: "A-1", count: 2 }] }, reason: "no such customer", ageInMs: 42 * minute });
  await sendPoison(poisonQueue, { key: "order-4702", payload: { order: 4_702, customer: "Fabrikam" }, reason: "failed 5 times", error: "RestError: the payment service did not respond", ageInMs: 7 * minute });
  const migration = handles[0]!;
  const release = async (): Promise<void> => {
    await Promise.allSettled(handles.map((handle) => handle.release()));
  };
  return { container, queue, poisonQueue, table, migration, release };
}

async function holdLocks(container: ContainerClient, table: TableClient): Promise<LockHandle[]> {
  const of = (holder: string, fair = false): BlobLocks => new BlobLocks(container, { holder, fair });
  const handles: LockHandle[] = [];
  const hold = async (held: Promise<LockHandle>, ageInMs: number): Promise<void> => {
    const handle = await held;
    handles.push(handle);
    await backdate(container, handle, ageInMs);
  };
  await hold(of("worker-2/311/9be0").acquire("tenant/contoso/migration", { data: "step 3 of 7: copying invoices" }), 34 * minute);
  await hold(of("worker-1/118/41aa").acquire("scheduler"), 3 * day);
  await hold(of("worker-3/207/c3d1", true).acquire("export/nightly"), 4 * minute);
  await hold(of("worker-2/311/9be0").acquire(await tableLockName({ table: table.tableName, partitionKey: "eu" })), 40_000);
  for (const [worker, ageInMs] of [["worker-1/118/41aa", 95_000], ["worker-2/311/9be0", 12_000], ["worker-3/207/c3d1", 3_000]] as const) {
    await hold(new Semaphore(of(worker), "payment-api", 5).acquire(), ageInMs);
  }
  const released = await of("worker-1/118/41aa").acquire("invoice-run");
  await released.release();
  for (const worker of ["worker-1/118/41aa", "worker-3/207/c3d1"]) {
    handles.push((await new ReaderWriterLock(of(worker), "catalogue").acquireReadLock()) as LockHandle);
  }
  return handles;
}

/** As if the holder had acquired it earlier. */
async function backdate(container: ContainerClient, { url, leaseId }: LockHandle, ageInMs: number): Promise<void> {
  const blob = container.getBlobClient(decodeURIComponent(new URL(url).pathname.split("/").slice(3).join("/")));
  const { metadata = {} } = await blob.getProperties();
  await blob.setMetadata({ ...metadata, asc_since: new Date(Date.now() - ageInMs).toISOString() }, { conditions: { leaseId } });
}

async function writeJobs(table: TableClient): Promise<void> {
  const now = Date.now();
  const ended = (due: number, durationInMs: number, error?: string): EndedRun => ({
    due, state: error === undefined ? "succeeded" : "failed", key: undefined, attempt: 1, startedAt: due + 400, durationInMs, error, holder: due % 2 === 0 ? "worker-1/118/41aa" : "worker-3/207/c3d1",
  }); // prettier-ignore
  const every = (intervalInMs: number, count: number, toRun: (due: number, index: number) => EndedRun): EndedRun[] =>
    Array.from({ length: count }, (_, i) => toRun(Math.floor(now / intervalInMs) * intervalInMs - (count - 1 - i) * intervalInMs, i));
  const base = { cursor: now, paused: false, skip: undefined, freeSince: now, run: undefined, requests: [] };
  const jobs: Readonly<Record<string, Partial<JobState> & { readonly trigger: string }>> = {
    "sync-prices": {
      trigger: `every ${3 * minute} ms`,
      nextDue: (Math.floor(now / (3 * minute)) + 1) * 3 * minute,
      history: every(3 * minute, 18, (due, i) => (i === 6 || i === 12 ? ended(due, 30_000, "OperationTimeoutError: the price feed did not respond within 30 s") : ended(due, 21_000 + 4_000 * (i % 5)))),
    },
    "settle-payments": { trigger: "cron */10 * * * * UTC", nextDue: (Math.floor(now / (10 * minute)) + 1) * 10 * minute, history: every(10 * minute, 6, (due) => ended(due, 74_000)) },
    "purge-inbox": {
      trigger: "cron 0 * * * * UTC",
      nextDue: now + 26 * minute,
      history: every(20 * minute, 3, (due) => ended(due, 9_000)),
    },
    "rebuild-search": {
      trigger: "cron 30 * * * * Europe/Berlin",
      nextDue: now + 41 * minute,
      history: [ended(now - 49 * minute, 160_000, "RangeError: the index is full")],
      run: { id: randomUUID(), due: now - 8 * minute, isManual: false, key: undefined, attempt: 1, holder: "worker-2/311/9be0", startedAt: now - 8 * minute, partition: undefined, isReleased: false },
    },
  };
  for (const [job, state] of Object.entries(jobs)) {
    const entity = jobEntity("default", job, { ...base, nextDue: undefined, history: [], ...state });
    await table.createEntity({ partitionKey: `${schedulePartitionPrefix}default`, rowKey: `${jobRowPrefix}${job}`, ...entity });
  }
}

async function writeRecords(table: TableClient): Promise<void> {
  const partition = "devstoreaccount1:orders";
  const record = (i: number): Promise<unknown> =>
    table.createEntity(recordEntity(partition, `${rowKeyPrefix}${partition}!order-${i}`, { state: i < 38 ? "done" : i < 41 ? "claimed" : "released", owner: "worker", messageId: String(i), claimDurationInMs: 30_000 }));
  for (let i = 0; i < 42; i++) await record(i);
  const marker = { id: randomUUID(), partition: "eu" };
  await table.createEntity(markerEntity(marker));
  const messages = [1, 2].map((n) => ({ queue: "devstoreaccount1:mails", key: `mail-${n}`, text: "{}", timing: {} }));
  await table.createEntity(messageEntity({ partitionKey: marker.partition, rowKey: messageRowKey(marker, 1), messages }));
}
