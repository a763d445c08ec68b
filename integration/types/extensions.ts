import * as asc from "azure-storage-concurrency";
import type { AdapterRequest, Codec, Inbox, InboxClaim, InboxClaimResult, InboxDelivery, LeasedTarget, LockHandleLike, LockProviderLike, StandardSchemaLike, StoredValue, TargetAdapter, UpdateTarget } from "azure-storage-concurrency";
import type { BlockBlobLike, ContainerLike, FileLike, QueueLike, TableLike } from "azure-storage-concurrency/clients";
import { MemoryInbox } from "azure-storage-concurrency/testing";

import { typeOf } from "./expect.js";
import { appendBlob, blob, container, file, pageBlob, queue, share, table } from "./storage.js";
import type { Counter, Order } from "./storage.js";

/** A format of the caller's own. */
export function encode(): void {
  const lines: Codec<string[]> = {
    contentType: "text/plain",
    decode: (content) => new TextDecoder().decode(content).split("\n"),
    encode: (value) => new TextEncoder().encode(value.join("\n")),
  };
  typeOf(asc.encodedBlob(blob, lines, { keepTier: true })).is<UpdateTarget<string[]>>();
  typeOf(asc.encodedFile(file, lines, { maxSizeInBytes: 10 })).is<LeasedTarget<string[]>>();
  // @ts-expect-error A codec works both ways.
  asc.encodedBlob(blob, { decode: () => 1 });
  // @ts-expect-error A codec makes bytes.
  asc.encodedBlob<string>(blob, { decode: () => "", encode: (value) => value });
  // @ts-expect-error The codec is needed.
  asc.encodedBlob(blob);
}

/** A store of the caller's own. */
export async function defineTargets(): Promise<void> {
  const rows = new Map<string, StoredValue<Counter>>();
  const adapter: TargetAdapter<Counter> = {
    kind: "map",
    url: "map:counter",
    async read({ abortSignal }) {
      abortSignal.throwIfAborted();
      return rows.get("counter");
    },
    async write(value, condition, journal) {
      if ("ifMatch" in condition && condition.ifMatch !== rows.get("counter")?.etag) throw new asc.PreconditionError("The counter was changed.");
      rows.set("counter", { value, etag: "1", journal });
      return { etag: "1" };
    },
    async delete(ifMatch) {
      if (ifMatch === "1") rows.clear();
    },
  };
  const target = asc.defineTarget(adapter);
  typeOf(target).is<UpdateTarget<Counter>>();
  await asc.optimisticUpdate(target, (draft) => void draft.count++, { initial: { count: 0 } });
  asc.defineTarget<Counter>({ kind: "map", url: "map:x", read: async () => undefined, write: async () => ({ etag: "1" }) });

  // @ts-expect-error A write returns the new ETag.
  asc.defineTarget<Counter>({ kind: "map", url: "map:x", read: async () => undefined, write: async () => {} });
  // @ts-expect-error Absence is undefined.
  asc.defineTarget<Counter>({ kind: "map", url: "map:x", read: async () => null, write: async () => ({ etag: "1" }) });
  // @ts-expect-error A url is needed: calls on the same one share requests.
  asc.defineTarget<Counter>({ kind: "map", read: async () => undefined, write: async () => ({ etag: "1" }) });
}

/** An inbox of the caller's own, for example in a SQL database. */
export class MapInbox implements Inbox {
  readonly #states = new Map<string, "claimed" | "completed">();

  async prepare({ abortSignal }: AdapterRequest): Promise<void> {
    abortSignal.throwIfAborted();
  }

  async claim(deliveries: readonly InboxDelivery[]): Promise<readonly InboxClaimResult[]> {
    return deliveries.map(({ idempotencyKey, queueUrl, claimDurationInMs }): InboxClaimResult => {
      const key = `${queueUrl} ${idempotencyKey}`;
      const state = this.#states.get(key);
      if (state === "completed") return { kind: "completed" };
      if (state === "claimed") return { kind: "busy", retryAfterInMs: claimDurationInMs };
      this.#states.set(key, "claimed");
      return { kind: "claimed", claim: this.#claimOf(key) };
    });
  }

  #claimOf(key: string): InboxClaim {
    return {
      failures: 0,
      renew: async () => "renewed",
      complete: async () => (this.#states.set(key, "completed"), "completed"),
      release: async (failed) => void (failed || this.#states.delete(key)),
    };
  }
}

export function useIt(): void {
  new MemoryInbox() satisfies Inbox;
  new asc.QueueConsumer(queue, (order: Order) => order.id, { inbox: new MapInbox() });
  // @ts-expect-error An inbox of another kind cannot commit.
  new asc.QueueConsumer(queue, (order: Order) => order.id, { inbox: new MapInbox(), partitionOf: () => "p" });
  // @ts-expect-error No such result.
  ({ kind: "done" }) satisfies InboxClaimResult;
  // @ts-expect-error How long to wait is needed.
  ({ kind: "busy" }) satisfies InboxClaimResult;
}

/** Locks of another library, in place of `BlobLocks`. */
export async function bringLocks(handle: LockHandleLike): Promise<void> {
  const locks: LockProviderLike = { acquire: async () => handle, tryAcquire: async () => undefined };
  await asc.leasedUpdate(asc.queueMetadata(queue), () => {}, { lock: { locks, name: "queue" } });
  await asc.acquireLease(file, { crashGuard: locks });
  // @ts-expect-error Absence is undefined.
  ({ acquire: async () => handle, tryAcquire: async () => null }) satisfies LockProviderLike;
  // @ts-expect-error A handle has a signal.
  ({ assertHeld: () => {}, release: async () => {} }) satisfies LockHandleLike;
}

/** A schema without a library. */
export function bringASchema(): void {
  const schema: StandardSchemaLike<Counter> = {
    "~standard": {
      version: 1,
      vendor: "example",
      validate: (value) => (typeof value === "object" ? { value: value as Counter } : { issues: [{ message: "no object", path: ["a", { key: 1 }] }] }),
    },
  };
  typeOf(asc.jsonBlob(blob, { schema })).is<UpdateTarget<Counter>>();
}

/** The clients of the SDKs have the types that the calls ask for. */
export function bringClients(): object[] {
  blob satisfies BlockBlobLike & asc.BlockBlobLike;
  container satisfies ContainerLike & asc.ContainerLike;
  table satisfies TableLike & asc.TableLike;
  queue satisfies QueueLike & asc.QueueLike;
  file satisfies FileLike & asc.FileLike;
  appendBlob satisfies asc.AppendBlobLike;
  pageBlob satisfies asc.PageBlobLike;
  share satisfies asc.ShareLike;
  typeOf(asc.logger.verbose("x")).is<void>();
  return [blob, container, table, queue, file];
}
