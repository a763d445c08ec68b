import * as asc from "azure-storage-concurrency";
import type { ConcurrentLeasable, ConcurrentTarget, ConsistentDownload, Entity, HttpHeaders, LeaseHandle, NamedLockRef, PurgeResult, QueueConsumer, ReadResult, TableLock, UpdateResult, UpdateTarget } from "azure-storage-concurrency";

import { same, typeOf } from "./expect.js";
import { blob, file, orderSchema, poisonQueue, queue, settingsSchema, table } from "./storage.js";
import type { Counter, Customer, Order, Settings, Shape } from "./storage.js";

const locks = {} as asc.BlobLocks;

export async function useBlobs(): Promise<void> {
  const settings = new asc.ConcurrentBlob(blob, {
    schema: settingsSchema,
    keepTier: true,
    defaults: { maxAttempts: 3, timeoutInMs: 10, journal: false, initial: { count: 0, name: "x" } },
    leaseDefaults: { waitInMs: 10, durationInSeconds: 15 },
  });
  typeOf(settings).is<asc.ConcurrentBlob<Settings>>();
  settings satisfies ConcurrentTarget<Settings> & ConcurrentLeasable;
  typeOf(await settings.update((draft) => void draft.count++)).is<UpdateResult<Settings>>();
  typeOf(await settings.read()).is<ReadResult<Settings>>();
  typeOf(await settings.tryRead()).is<ReadResult<Settings> | undefined>();
  const changed = await settings.readIfChanged("etag");
  if (changed.changed) typeOf(changed.value).is<Settings>();
  typeOf(await settings.createIfNotExists({ count: 0, name: "x" })).is<UpdateResult<Settings>>();
  typeOf((await settings.overwrite({ count: 0, name: "x" })).etag).is<string>();
  await settings.deleteIfUnchanged("etag");
  for await (const state of settings.watch()) if (state.exists) typeOf(state.value).is<Settings>();
  typeOf(await settings.leasedUpdate((draft) => void draft.count++)).is<UpdateResult<Settings>>();
  typeOf(await settings.withLease((lease) => lease.remainingInMs)).is<number>();
  typeOf(await settings.acquireLease()).is<LeaseHandle>();
  typeOf(await settings.tryAcquireLease()).is<LeaseHandle | undefined>();
  typeOf(await settings.breakLease()).is<boolean>();
  typeOf((await settings.inspectLease()).holder).is<string | undefined>();
  typeOf(await settings.downloadConsistent()).is<ConsistentDownload>();
  typeOf((await settings.downloadConsistentStream()).content).is<ReadableStream<Uint8Array>>();
  typeOf(settings.tags).is<ConcurrentTarget<Record<string, string>>>();
  typeOf(settings.metadata).is<ConcurrentTarget<Record<string, string>>>();
  typeOf(settings.httpHeaders).is<ConcurrentTarget<HttpHeaders>>();
  await settings.tags.update((tags) => void (tags["a"] = "b"));

  await new asc.ConcurrentBlob<Shape>(blob).update(() => ({ kind: "circle", radius: 1 }));
  typeOf(new asc.ConcurrentBlob(blob)).is<asc.ConcurrentBlob>();
  typeOf(new asc.ConcurrentBlob(blob, { target: asc.textBlob(blob) })).is<asc.ConcurrentBlob<string>>();

  // @ts-expect-error A property is missing.
  await settings.overwrite({ name: "x" });
  // @ts-expect-error A version is for one call, not a default.
  new asc.ConcurrentBlob<Counter>(blob, { defaults: { startFrom: { value: { count: 0 }, etag: "x" } } });
  // @ts-expect-error A file has no ETag conditions.
  new asc.ConcurrentBlob(blob, { target: asc.textFile(file) });
  // @ts-expect-error A file is no blob.
  new asc.ConcurrentBlob(file);
  // @ts-expect-error Readonly.
  settings.client = blob;
  // @ts-expect-error Misspelt option.
  new asc.ConcurrentBlob(blob, { default: {} });
}

export async function useFiles(): Promise<void> {
  const counter = new asc.ConcurrentFile<Counter>(file, { crashGuard: locks, defaults: { waitInMs: 10, initial: { count: 0 } } });
  counter satisfies ConcurrentLeasable;
  counter satisfies Omit<ConcurrentTarget<Counter>, "update" | "deleteIfUnchanged">;
  typeOf(await counter.update((draft) => void draft.count++, { initial: { count: 0 } })).is<UpdateResult<Counter>>();
  typeOf(await counter.read()).is<ReadResult<Counter>>();
  await counter.createIfNotExists({ count: 1 });
  await counter.overwrite({ count: 1 });
  await counter.updateMetadata((metadata) => void (metadata["a"] = "b"));
  await counter.updateHttpHeaders((headers) => void (headers.contentType = "application/json"));
  typeOf(new asc.ConcurrentFile(file, { schema: settingsSchema })).is<asc.ConcurrentFile<Settings>>();

  // @ts-expect-error A file has no ETag conditions.
  await counter.deleteIfUnchanged("etag");
  // @ts-expect-error A lease is for one call, not a default.
  new asc.ConcurrentFile(file, { defaults: { lease: {} as LeaseHandle } });
  // @ts-expect-error A blob is no file.
  new asc.ConcurrentFile(blob);
}

export async function useTables(): Promise<void> {
  const customers = new asc.ConcurrentTable<Customer>(table, { locks, types: { visits: "Int64" }, defaults: { maxAttempts: 3 } });
  const customer = customers.entity("customers", "42");
  typeOf(customer).is<ConcurrentTarget<Entity<Customer>, Customer>>();
  typeOf(await customer.update((draft) => void draft.visits++, { initial: { email: "x", visits: 0 } })).is<UpdateResult<Entity<Customer>>>();
  await customer.createIfNotExists({ email: "x", visits: 0 });
  const read = await table.getEntity<Customer>("customers", "42");
  await customers.update(read, (draft) => void draft.visits++, { initial: { email: "x", visits: 0 } });
  typeOf(customers.entity(read)).is<ConcurrentTarget<Entity<Customer>, Customer>>();
  typeOf(customers.entity<Counter>({ partitionKey: "counters", rowKey: "1" })).is<ConcurrentTarget<Entity<Counter>, Counter>>();
  typeOf(await customers.runTransaction("customers", async (tx) => (await tx.get("42"))?.visits)).is<number | undefined>();
  typeOf(await customers.purgeTombstones({ olderThanInMs: 1 })).is<PurgeResult>();
  typeOf(customers.lock).is<TableLock>();
  const partitions = new asc.ConcurrentTable<Customer, "partition">(table, { locks, granularity: "partition" });
  await partitions.lock.withLock("eu", async () => 1);

  // @ts-expect-error The row key is missing.
  customers.entity("customers");
  // @ts-expect-error The keys are given once.
  await customer.overwrite({ partitionKey: "customers", rowKey: "42", email: "x", visits: 0 });
  // @ts-expect-error No such property.
  await customers.update(read, (draft) => void draft.visit++);
  // @ts-expect-error The initial value does not choose the type.
  await customers.update(read, () => {}, { initial: { balance: 1 } });
  // @ts-expect-error The initial value depends on the entity: it is no default.
  new asc.ConcurrentTable<Customer>(table, { defaults: { initial: { email: "x", visits: 0 } } });
  // @ts-expect-error The partition is needed.
  await partitions.lock.withLock(async () => 1);
}

export async function useQueues(lock: NamedLockRef): Promise<void> {
  const orders = new asc.ConcurrentQueue(queue, { schema: orderSchema, poisonQueue, concurrency: 2, enqueueDefaults: { timeToLiveInSeconds: 60, encoding: "base64" } });
  typeOf(orders).is<asc.ConcurrentQueue<Order>>();
  await orders.enqueue({ id: "1", customer: "x", amount: 1 }, { idempotencyKey: "1" });
  typeOf(orders.consume((order) => void typeOf(order).is<Order>())).is<QueueConsumer<Order>>();
  orders.consume(async (order, { commit }) => void (await commit([["create", { rowKey: order.id }]])), { inbox: new asc.CommitInbox(table), partitionOf: ({ customer }) => customer });
  typeOf(await orders.redrive({ maxMessages: 3 })).is<asc.RedriveResult>();
  await orders.updateMetadata((metadata) => void (metadata["a"] = "b"), { lock });

  // @ts-expect-error A property is missing.
  await orders.enqueue({ id: "1" });
  // @ts-expect-error A queue has no lease: a lock is needed.
  await orders.updateMetadata(() => {}, {});
  // @ts-expect-error A key is for one message, not a default.
  new asc.ConcurrentQueue(queue, { enqueueDefaults: { idempotencyKey: "x" } });
}

/** Each facade offers all calls on a target under the same names. */
export function haveTheSameNames(target: UpdateTarget<Counter>): void {
  const all: ConcurrentTarget<Counter>[] = [new asc.ConcurrentBlob<Counter>(blob), new asc.ConcurrentBlob(blob, { target })];
  all satisfies Pick<asc.ConcurrentBlob<Counter>, keyof ConcurrentTarget<Counter>>[];
  same<keyof ConcurrentTarget<Counter>, "read" | "tryRead" | "readIfChanged" | "update" | "createIfNotExists" | "overwrite" | "deleteIfUnchanged" | "watch">();
}
