import type { TransactionAction } from "@azure/data-tables";
import * as asc from "azure-storage-concurrency";
import type { BackgroundService, Entity, FencedPartition, LeadershipTerm, LeaseHandle, LockedTable, LockHandle, LockHandleLike, LockProviderLike, LockSet, LockStatus, PurgeResult, TableLock, UpdateResult } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { blob, container, table } from "./storage.js";
import type { Account, Customer } from "./storage.js";

const locks = new asc.BlobLocks(container, { prefix: "locks/", holder: "me", defaults: { durationInSeconds: 15, waitInMs: 10 } });

export async function lockNames(abortSignal: AbortSignal): Promise<void> {
  typeOf(await locks.withLock("orders", (lock) => lock.epoch)).is<number>();
  const lock = await locks.acquire("orders", { abortSignal, waitInMs: 10, durationInSeconds: 15, renewIntervalInMs: 10, safetyMarginInMs: 1, autoRenew: false });
  typeOf(lock).is<LockHandle>();
  lock satisfies LeaseHandle & AsyncDisposable;
  typeOf(lock.name).is<string>();
  typeOf(lock.previousEpoch).is<number>();
  typeOf(await locks.tryAcquire("orders")).is<LockHandle | undefined>();
  await using set = await locks.acquireAll(["a", "b"] as const);
  typeOf(set).is<LockSet>();
  typeOf(set.names).is<readonly string[]>();
  typeOf(set.get("a")).is<LockHandle>();
  set.assertHeld();
  typeOf(await locks.withLocks(["a", "b"], async (both) => both.get("a").epoch)).is<number>();

  const status = await locks.inspect("orders");
  typeOf(status).is<LockStatus>();
  for await (const listed of locks.list({ prefix: "o" })) typeOf(listed).is<LockStatus>();
  typeOf(await locks.break("orders", { expectedEpoch: status.epoch })).is<boolean>();
  typeOf(await locks.purge({ olderThanInMs: 1, abortSignal })).is<asc.PurgeResult>();
  await using limited = await locks.acquire("orders", { data: "nightly run", maxHoldInMs: 60_000 });
  typeOf(limited).is<LockHandle>();
  locks satisfies LockProviderLike;

  // @ts-expect-error The lock may be taken.
  (await locks.tryAcquire("orders")).epoch;
  // @ts-expect-error One attempt does not wait.
  await locks.tryAcquire("orders", { waitInMs: 1 });
  // @ts-expect-error Locks create their blobs themselves.
  await locks.acquire("orders", { createIfNotExists: true });
  // @ts-expect-error A lock chooses its lease id.
  await locks.acquire("orders", { leaseId: "x" });
  // @ts-expect-error A name is needed.
  await locks.withLock(() => 1);
  // @ts-expect-error Handles are readonly.
  lock.epoch = 1;
  // @ts-expect-error Results are readonly.
  status.name = "x";
  // @ts-expect-error A blob holds no locks.
  new asc.BlobLocks(blob);
  // @ts-expect-error A signal is for one call, not a default.
  new asc.BlobLocks(container, { defaults: { abortSignal } });
  // @ts-expect-error Misspelt option.
  new asc.BlobLocks(container, { prefx: "locks/" });
}

export async function countHolders(): Promise<void> {
  const semaphore = new asc.Semaphore(locks, "downloads", 3);
  typeOf(await semaphore.withSlot((slot) => slot.epoch, { waitInMs: 10 })).is<number>();
  typeOf(await semaphore.acquire()).is<LockHandle>();
  typeOf(await semaphore.tryAcquire()).is<LockHandle | undefined>();
  const { slots, holders } = await semaphore.inspect();
  typeOf(slots).is<number>();
  typeOf(holders).is<readonly LockStatus[]>();
  // @ts-expect-error The number of slots is needed.
  new asc.Semaphore(locks, "downloads");
  // @ts-expect-error Readonly.
  semaphore.slots = 4;
}

export async function readAndWrite(): Promise<void> {
  const lock = new asc.ReaderWriterLock(locks, "orders");
  typeOf(await lock.withReadLock((held) => held.signal, { waitInMs: 10 })).is<AbortSignal>();
  typeOf(await lock.withWriteLock(({ epoch }) => epoch, { waitInMs: 10 })).is<number>();
  typeOf(await lock.acquireReadLock()).is<LockHandleLike & AsyncDisposable>();
  typeOf(await lock.tryAcquireReadLock()).is<(LockHandleLike & AsyncDisposable) | undefined>();
  typeOf(await lock.acquireWriteLock()).is<LockHandle>();
  typeOf(await lock.tryAcquireWriteLock()).is<LockHandle | undefined>();
  const { writer, readers } = await lock.inspect();
  typeOf(writer).is<LockStatus | undefined>();
  typeOf(readers).is<readonly LockStatus[]>();
  // @ts-expect-error A reader has no fencing token.
  await lock.withReadLock(({ epoch }) => epoch);
  // @ts-expect-error A name is needed.
  new asc.ReaderWriterLock(locks);
}

/** The key follows from the granularity: none, a partition key, or both keys. */
export async function lockTables(): Promise<void> {
  const whole = new asc.TableLock(table, locks);
  typeOf(whole).is<TableLock>();
  typeOf(whole.granularity).is<"table">();
  typeOf(await whole.withLock(async () => 1)).is<number>();
  typeOf(await whole.acquire({ waitInMs: 3 })).is<LockedTable>();
  typeOf(await whole.tryAcquire()).is<LockedTable | undefined>();
  new asc.TableLock(table, locks, { granularity: "table" }) satisfies TableLock;
  typeOf(await whole.purge({ olderThanInMs: 1 })).is<PurgeResult>();

  const partition = new asc.TableLock(table, locks, { granularity: "partition" });
  typeOf(partition).is<TableLock<"partition">>();
  typeOf(await partition.withLock("eu", (held) => held.epoch, { waitInMs: 3 })).is<number>();
  typeOf(await partition.acquire("eu", { waitInMs: 3 })).is<LockedTable>();
  typeOf(await partition.tryAcquire("eu", { durationInSeconds: 15 })).is<LockedTable | undefined>();

  const entity = new asc.TableLock(table, locks, { granularity: "entity" });
  typeOf(entity).is<TableLock<"entity">>();
  await entity.withLock({ partitionKey: "eu", rowKey: "1" }, async () => 1);
  await entity.acquire({ partitionKey: "eu", rowKey: "1" }, { waitInMs: 3 });

  // @ts-expect-error A lock of the table has no key.
  await whole.withLock("eu", async () => 1);
  // @ts-expect-error A lock of the table has no key.
  await whole.acquire("eu");
  // @ts-expect-error The partition is needed.
  await partition.withLock(async () => 1);
  // @ts-expect-error The partition is needed.
  await partition.acquire();
  // @ts-expect-error A partition is named by a string.
  await partition.acquire({ partitionKey: "eu", rowKey: "1" });
  // @ts-expect-error Both keys are needed.
  await entity.withLock("eu", async () => 1);
  // @ts-expect-error Both keys are needed.
  await entity.acquire({ partitionKey: "eu" });
  // @ts-expect-error No such granularity.
  new asc.TableLock(table, locks, { granularity: "row" });
  // @ts-expect-error Misspelt option.
  await partition.acquire("eu", { waitMs: 3 });
  // @ts-expect-error An interface.
  new asc.LockedTable();
  // @ts-expect-error An interface.
  new asc.FencedPartition();
  // @ts-expect-error An interface.
  new asc.LockHandle();
  // @ts-expect-error An interface.
  new asc.LockSet();
}

export async function writeWithAFence(held: LockedTable, actions: TransactionAction[]): Promise<void> {
  const accounts = await held.partition<Account>("eu");
  typeOf(accounts).is<FencedPartition<Account>>();
  typeOf(await held.partition()).is<FencedPartition>();
  typeOf(await accounts.get("anna")).is<Entity<Account> | undefined>();
  for await (const account of accounts.list({ filter: "balance gt 0" })) typeOf(account).is<Entity<Account>>();
  typeOf(await accounts.update("anna", (draft) => void draft.balance++, { initial: { balance: 0 }, maxAttempts: 2 })).is<UpdateResult<Entity<Account>>>();
  typeOf(await accounts.update<Customer>("42", (draft) => void draft.visits++)).is<UpdateResult<Entity<Customer>>>();
  await accounts.update("anna", () => asc.DELETE);
  await accounts.create({ rowKey: "anna", balance: 0 });
  await accounts.delete("anna");
  await accounts.submit(actions);
  await accounts.submit([["upsert", { rowKey: "anna", balance: 0 }, "Merge"]]);

  // @ts-expect-error A property is missing.
  await accounts.create({ rowKey: "anna" });
  // @ts-expect-error The wrong type.
  await accounts.update("anna", (draft) => void (draft.balance = "1"));
  // @ts-expect-error The keys are given once.
  await accounts.update("anna", () => {}, { initial: { partitionKey: "eu", rowKey: "anna", balance: 0 } });
  // @ts-expect-error No such action.
  await accounts.submit([["insert", { rowKey: "anna" }]]);
  // @ts-expect-error Readonly.
  held.epoch = 1;
}

export async function electALeader(abortSignal: AbortSignal): Promise<void> {
  const election = new asc.LeaderElection(
    locks,
    "scheduler",
    async (term) => {
      typeOf(term).is<LeadershipTerm>();
      typeOf(term.epoch).is<number>();
      typeOf(term.signal).is<AbortSignal>();
      term.assertHeld();
      // @ts-expect-error A term ends with its function; `resign` is a method of the election.
      await term.release();
    },
    { cooldownInMs: 10, drainTimeoutInMs: 10, durationInSeconds: 15 },
  );
  election satisfies BackgroundService & AsyncDisposable;
  typeOf(election.isLeader).is<boolean>();
  typeOf(election.name).is<string>();
  election
    .on("elected", (term) => typeOf(term).is<LeadershipTerm>())
    .once("ended", ({ epoch, reason }) => {
      typeOf(epoch).is<number>();
      typeOf(reason).is<"lost" | "resigned" | "stopped" | "failed" | "abandoned">();
    })
    .off("error", (error) => typeOf(error).is<unknown>())
    .on("error", () => {}) satisfies asc.LeaderElection;
  await election.start({ abortSignal });
  await election.resign();
  await election.stop({ drainTimeoutInMs: 10 });
  await election.run({ abortSignal });
  for await (const seen of election.observe({ pollIntervalInMs: 10, tryTimeoutInMs: 10 })) {
    typeOf(seen.isSelf).is<boolean>();
    seen satisfies LockStatus;
  }

  // @ts-expect-error Without a signal it would run for ever.
  await election.run();
  // @ts-expect-error The function is needed.
  new asc.LeaderElection(locks, "scheduler");
  // @ts-expect-error A candidate waits as long as it runs.
  new asc.LeaderElection(locks, "scheduler", () => {}, { waitInMs: 10 });
  // @ts-expect-error No such event.
  election.on("lost", () => {});
  // @ts-expect-error Readonly.
  election.isLeader = true;
}
