import type { TableClient } from "@azure/data-tables";
import type { ContainerClient } from "@azure/storage-blob";
import type { QueueClient } from "@azure/storage-queue";
import { WorkBalancer } from "../../../../balancer/work-balancer.js";
import type { BackgroundService } from "../../../../core/background-service.js";
import { breakLease, inspectLease } from "../../../../lock/inspect-lease.js";
import { BlobLocks } from "../../../../lock/blob-locks.js";
import { LeaderElection } from "../../../../lock/leader-election.js";
import { ReaderWriterLock } from "../../../../lock/reader-writer-lock.js";
import { Semaphore } from "../../../../lock/semaphore.js";
import { TableLock } from "../../../../lock/table-lock.js";
import { Outbox } from "../../../../outbox/outbox.js";
import { runTransaction } from "../../../../transaction/run-transaction.js";
import { withLease } from "../../../../lease/with-lease.js";
import type { ScheduledJob } from "../../../../schedule/schedule-options.js";
import { Schedule } from "../../../../schedule/schedule.js";
import { expectDeleted } from "./blob-cases.js";
import { permissionCase } from "./case.js";
import type { PermissionCase } from "./case.js";

type Component = BackgroundService & { on(event: "error", listener: (error: unknown) => void): unknown };

const nothing = (): void => undefined;
const useLock = (locks: BlobLocks): Promise<unknown> => locks.withLock("job", nothing);

/** A component that runs until its work was called once; the first error of it is thrown. Stopped from outside: that waits for what it releases. */
async function runOnce(create: (done: () => void) => Component): Promise<void> {
  const failures: unknown[] = [];
  const component = await new Promise<Component>((resolve) => {
    const created = create(() => resolve(created));
    const fail = (error: unknown): void => {
      failures.push(error);
      resolve(created);
    };
    created.on("error", fail);
    created.start().catch(fail);
  });
  await component.stop();
  if (failures.length > 0) throw failures[0];
}

const lockPartition = (table: TableClient, container: ContainerClient, partitionKey: string): Promise<unknown> =>
  new TableLock(table, new BlobLocks(container), { granularity: "partition" }).withLock(partitionKey, async (held) =>
    (await held.partition(partitionKey)).submit([["create", { rowKey: "row", n: 1 }]]));

/** One run of a job, which is never due by itself: with its effect in the partition. */
async function runJob(table: TableClient, container: ContainerClient, partitionKey: string): Promise<void> {
  let commit: Promise<unknown> | undefined;
  await runOnce((done) => {
    const job: ScheduledJob = {
      nextRun: () => undefined,
      run: async (info) => {
        commit = info.commit(partitionKey, [["create", { rowKey: "row", n: 1 }]]);
        await commit;
        done();
      },
    };
    const schedule = new Schedule(table, new BlobLocks(container), { job }, { name: partitionKey });
    const start = schedule.start.bind(schedule);
    return Object.assign(schedule, {
      start: async () => {
        await schedule.trigger("job");
        await start();
      },
    });
  });
}

/** A message that its process has committed and could not send. */
async function leaveUnsent(table: TableClient, queue: QueueClient, partitionKey: string): Promise<void> {
  const unreachable = Object.create(queue, { sendMessage: { value: () => Promise.reject(new Error("not sent")) } }) as QueueClient;
  const outbox = new Outbox(table, { queues: [], drainTimeoutInMs: 0 });
  outbox.on("error", nothing);
  await runTransaction(table, partitionKey, (tx) => outbox.add(tx, unreachable, { n: 1 }));
  await outbox.stop();
}

/** Locks, and what is built on them. */
export const lockCases: readonly PermissionCase[] = [
  permissionCase({
    helper: "`withLease`, `inspectLease`, `breakLease`", grants: { container: "rw" }, requests: 7,
    before: ({ container }) => container.getBlockBlobClient("doc").upload("x", 1),
    run: async ({ container }) => {
      const blob = container.getBlockBlobClient("doc");
      await withLease(blob, () => inspectLease(blob));
      await blob.getBlobLeaseClient().acquireLease(15);
      await breakLease(blob);
    },
  }),
  permissionCase({
    helper: "`withLease` of a container, a SAS of the account", grants: { container: "rw" }, containerSas: "account", requests: 3,
    run: ({ container }) => withLease(container, () => inspectLease(container)),
  }),
  permissionCase({ helper: "`BlobLocks`", grants: { container: "rwca" }, requests: 7, run: ({ container }) => useLock(new BlobLocks(container)) }),
  permissionCase({ helper: "`LeaderElection`", grants: { container: "rwca" }, requests: 8, run: ({ container }) => runOnce((done) => new LeaderElection(new BlobLocks(container), "leader", done)) }),
  permissionCase({ helper: "`Semaphore`", grants: { container: "rwca" }, requests: 9, run: ({ container }) => new Semaphore(new BlobLocks(container), "pool", 2).withSlot(nothing) }),
  permissionCase({ helper: "`ReaderWriterLock.withReadLock`", grants: { container: "rwcld" }, requests: 4, run: ({ container }) => new ReaderWriterLock(new BlobLocks(container), "orders").withReadLock(nothing) }),
  permissionCase({ helper: "`ReaderWriterLock.withWriteLock`", grants: { container: "rwcld" }, requests: 8, run: ({ container }) => new ReaderWriterLock(new BlobLocks(container), "orders").withWriteLock(nothing) }),
  permissionCase({ helper: "`WorkBalancer`", grants: { container: "rwcl" }, requests: 17, run: ({ container }) => runOnce((done) => new WorkBalancer(new BlobLocks(container), "feeds", 1, done)) }),
  permissionCase({ helper: "`BlobLocks.list`", grants: { container: "l" }, requests: 8, before: ({ container }) => useLock(new BlobLocks(container)), run: ({ container }) => new BlobLocks(container).list().next() }),
  permissionCase({
    helper: "`BlobLocks.purge`", grants: { container: "rwcld" }, requests: 11, slow: true,
    before: async ({ container, workspace }) => {
      await useLock(new BlobLocks(container));
      await workspace.pause(5_000);
    },
    run: async ({ container }) => expectDeleted(await new BlobLocks(container).purge({ olderThanInMs: 0 })),
  }),
  permissionCase({
    helper: "`TableLock`", grants: { table: "rau", container: "rwca" }, requests: 13,
    run: ({ table, container, partitionKey }) => lockPartition(table, container, partitionKey),
  }),
  permissionCase({
    helper: "`Schedule`", grants: { table: "rau", container: "rwca" }, requests: 17,
    run: ({ table, container, partitionKey }) => runJob(table, container, partitionKey),
  }),
  permissionCase({
    helper: "`Outbox` with locks", grants: { ownTable: "raud", container: "rwc", queue: "a" }, requests: 16, slow: true,
    before: async ({ ownTable, queue, partitionKey, workspace }) => {
      await leaveUnsent(ownTable, queue, partitionKey);
      await workspace.pause(5_000);
    },
    run: ({ ownTable, container, queue }) =>
      runOnce((done) => new Outbox(ownTable, new BlobLocks(container), { queues: [queue], relayAfterInMs: 1_000, pollIntervalInMs: 1_000 }).on("sent", done)),
  }),
  permissionCase({
    helper: "`TableLock.purge`", grants: { ownTable: "rd", container: "r" }, requests: 16, slow: true,
    before: async ({ ownTable, container, partitionKey, workspace }) => {
      await lockPartition(ownTable, container, partitionKey);
      await workspace.pause(5_000);
    },
    run: async ({ ownTable, container }) => expectDeleted(await new TableLock(ownTable, new BlobLocks(container), { granularity: "partition" }).purge({ olderThanInMs: 0 })),
  }),
];
