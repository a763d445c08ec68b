import * as library from "../../src/index.js";
import type { Entity, LockedTable } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakePageBlob } from "../fakes/fake-page-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeRestError } from "../fakes/rest-errors.js";
import type { SimProcess } from "../simulation/storage/world.js";

/** Part of the URL of each client, as a SAS is. No error may show it. */
export const secret = "S3CR3T";

/** What the calls of one case use. */
export class Env {
  readonly #process: SimProcess;
  readonly service = new FakeService();
  /** What has to end before the next case. */
  readonly ends: (() => unknown)[] = [];

  constructor(process: SimProcess) {
    this.#process = process;
  }

  readonly blob = (name = "doc") => withSas(this.#process.blob(name));
  readonly table = (name = "orders") => withSas(this.#process.table(name));
  readonly queue = (name = "jobs") => withSas(Object.assign(this.#process.queue(name), { setMetadata: () => Promise.resolve({}) }));
  readonly container = () => withSas(Object.assign(Object.create({}) as object, this.#process.container));
  readonly locks = (): library.BlobLocks => new library.BlobLocks(this.container());
  readonly appendBlob = () => withSas(new FakeAppendBlob(this.service));
  readonly pageBlob = () => withSas(new FakePageBlob(this.service));

  /** A client of a file, share or directory for which all requests are rejected. */
  readonly missing = (): never => new MissingFile(`https://account.file.core.windows.net/share/doc?sv=1&sig=${secret}`, {}) as never;

  /** A service that is stopped at the end of the case. */
  stopped<S extends { stop(options?: library.StopOptions): Promise<void> }>(service: S): S {
    (service as unknown as { on(event: "error", listener: () => void): void }).on("error", () => undefined);
    this.ends.push(() => service.stop({ drainTimeoutInMs: 0 }));
    return service;
  }

  /** Ends 100 ms after it was asked for. */
  soon(): AbortSignal {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 100);
    return controller.signal;
  }
}

class MissingFile {
  readonly name = "doc";
  readonly path = "doc";
  readonly shareName = "share";
  readonly url: string;
  readonly pipeline: object;
  readonly create = refused;
  readonly delete = refused;
  readonly download = refused;
  readonly getProperties = refused;
  readonly rename = refused;
  readonly setHttpHeaders = refused;
  readonly setMetadata = refused;
  readonly uploadRange = refused;

  /** The library makes clients of other files with it. */
  constructor(url: string, pipeline: object) {
    this.url = url;
    this.pipeline = pipeline;
  }

  getShareLeaseClient(): object {
    return { acquireLease: refused, releaseLease: refused, renewLease: refused, changeLease: refused, breakLease: refused };
  }

  getDirectoryClient(): this {
    return this;
  }

  getFileClient(): this {
    return this;
  }

  async *listFilesAndDirectories(): AsyncGenerator<never> {
    yield await refused();
  }
}

function refused(): Promise<never> {
  return Promise.reject(new FakeRestError(404, "ResourceNotFound", { code: "ResourceNotFound" }));
}

function withSas<T extends object>(client: T): T {
  return new Proxy(client, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (name === "url") return `${String(value)}?sv=1&sig=${secret}`;
      return typeof value === "function" ? (value as (...args: unknown[]) => unknown).bind(target) : value;
    },
  });
}

/** How one function is called: what valid arguments are, and the call with any arguments. */
export interface PublicCall {
  readonly args: readonly unknown[];
  readonly call: (...args: never[]) => unknown;
}

type Calls = Readonly<Record<string, (env: Env) => PublicCall | Promise<PublicCall>>>;

interface Doc {
  n: number;
}

const draft = (doc: Doc): void => { doc.n++; };
const setText = (metadata: Record<string, string>): void => void (metadata["a"] = "1");
const setContentType = (headers: library.HttpHeaders): void => void (headers.contentType = "text/plain");
const initial = { n: 0 };
const action = (rowKey: string): unknown[] => ["upsert", { rowKey, n: 1 }];
const take = async (items: AsyncIterable<unknown>): Promise<unknown> => {
  for await (const item of items) return item;
  return undefined;
};
const plain = (name: keyof typeof library, args: (env: Env) => readonly unknown[]): Calls => ({
  [name]: (env) => ({ args: args(env), call: library[name] as never }),
});
/** Each method of an object that is made anew; the result of a constructor is the object itself. */
const methods = (name: string, create: (env: Env) => object | Promise<object>, args: Readonly<Record<string, (env: Env) => readonly unknown[]>>): Calls =>
  Object.fromEntries(
    Object.entries(args).map(([method, of]) => [
      `${name}.${method}`,
      async (env: Env): Promise<PublicCall> => {
        const object = await create(env);
        const call = (...given: unknown[]): unknown => {
          const result = (object as Record<string, (...all: unknown[]) => unknown>)[method]?.(...given);
          return isIterable(result) ? take(result) : result;
        };
        return { args: of(env), call: call };
      },
    ]),
  );
const constructed = (name: keyof typeof library, args: (env: Env) => readonly unknown[]): Calls => ({
  [name]: (env) => ({ args: args(env), call: ((...given: unknown[]) => new (library[name] as unknown as new (...all: unknown[]) => object)(...given)) }),
});

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value && !("then" in value);
}

const none = (): readonly unknown[] => [{}];
const events = { on: () => ["error", () => undefined], once: () => ["error", () => undefined], off: () => ["error", () => undefined] };
const background = { ...events, start: none, stop: () => [{ drainTimeoutInMs: 0 }], run: (env: Env) => [{ abortSignal: env.soon() }] };
const facade = {
  acquireLease: none, tryAcquireLease: none, withLease: () => [() => 1, {}], inspectLease: none, breakLease: none, createIfNotExists: () => [initial, {}], overwrite: () => [initial, {}],
  read: none, tryRead: none, readIfChanged: () => ["etag", {}], update: () => [draft, {}], watch: none,
};
const schema = { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) } };
const queueOptions = { decode: (text: string) => text, visibilityTimeoutInSeconds: 30, schema };
const message = { queue: undefined, payload: { n: 1 } };
const delivery = (env: Env): unknown => ({ queueUrl: env.queue().url, idempotencyKey: "k", messageId: "m", insertedOn: new Date(), dequeueCount: 1, claimDurationInMs: 60_000, receivedOn: new Date(), payloadHash: "h", group: undefined, sequence: undefined });
const request = { abortSignal: new AbortController().signal, tracingOptions: {} };
const job = { everyInMs: 60_000, run: () => undefined };
const consumer = (env: Env): object => env.stopped(new library.QueueConsumer(env.queue(), () => undefined));
const held = async (env: Env): Promise<LockedTable> => {
  const locked = await new library.TableLock(env.table(), env.locks()).acquire();
  env.ends.push(() => locked.release());
  return locked;
};
const lease = async (env: Env): Promise<object> => {
  await env.blob().upload(new Uint8Array(), 0);
  const handle = await library.acquireLease(env.blob());
  env.ends.push(() => handle.release());
  return handle;
};

/** The methods of what a function gets are called in that function. */
const inTransaction = (args: Readonly<Record<string, readonly unknown[]>>): Calls =>
  Object.fromEntries(
    Object.entries(args).map(([method, valid]) => [
      `Transaction.${method}`,
      (env: Env) => ({
        args: valid,
        call: (...given: never[]) => library.runTransaction(env.table(), "p", (tx) => (tx as unknown as Record<string, (...all: unknown[]) => unknown>)[method]?.(...given) as Promise<void>),
      }),
    ]),
  );

/** All functions that an application can call. `public-calls.test.ts` compares the list with the API report. */
export const publicCalls: Calls = {
  ...plain("acquireLease", (env) => [env.blob(), {}]),
  ...plain("tryAcquireLease", (env) => [env.blob(), {}]),
  ...plain("withLease", (env) => [env.blob(), () => 1, {}]),
  ...plain("inspectLease", (env) => [env.blob(), {}]),
  ...plain("breakLease", (env) => [env.blob(), {}]),
  ...plain("appendExactlyOnce", (env) => [env.appendBlob(), "record", { createIfNotExists: {} }]),
  ...plain("optimisticUpdate", (env) => [library.jsonBlob(env.blob()), draft, { initial }]),
  ...plain("leasedUpdate", (env) => [library.jsonBlob(env.blob()), draft, { initial }]),
  ...plain("overwrite", (env) => [library.jsonBlob(env.blob()), initial, {}]),
  ...plain("createIfNotExists", (env) => [library.jsonBlob(env.blob()), initial, {}]),
  ...plain("deleteIfUnchanged", (env) => [library.jsonBlob(env.blob()), "etag", {}]),
  ...plain("readTarget", (env) => [library.jsonBlob(env.blob()), {}]),
  ...plain("tryReadTarget", (env) => [library.jsonBlob(env.blob()), {}]),
  ...plain("readIfChanged", (env) => [library.jsonBlob(env.blob()), "etag", {}]),
  ...plain("resolveOutcome", (env) => [library.jsonBlob(env.blob()), "operation", {}]),
  watch: (env) => ({ args: [library.jsonBlob(env.blob()), {}], call: ((...args: Parameters<typeof library.watch>) => take(library.watch(...args))) as never }),
  ...plain("blobHttpHeaders", (env) => [env.blob()]),
  ...plain("blobMetadata", (env) => [env.blob()]),
  ...plain("blobTags", (env) => [env.blob()]),
  ...plain("bytesBlob", (env) => [env.blob(), {}]),
  ...plain("textBlob", (env) => [env.blob(), {}]),
  ...plain("jsonBlob", (env) => [env.blob(), {}]),
  ...plain("encodedBlob", (env) => [env.blob(), { encode: () => new Uint8Array(), decode: () => 1 }, {}]),
  ...plain("bytesFile", (env) => [env.missing(), {}]),
  ...plain("textFile", (env) => [env.missing(), {}]),
  ...plain("jsonFile", (env) => [env.missing(), {}]),
  ...plain("encodedFile", (env) => [env.missing(), { encode: () => new Uint8Array(), decode: () => 1 }, {}]),
  ...plain("fileHttpHeaders", (env) => [env.missing()]),
  ...plain("fileMetadata", (env) => [env.missing()]),
  ...plain("shareMetadata", (env) => [env.missing()]),
  ...plain("containerMetadata", (env) => [env.container()]),
  ...plain("containerAccessPolicy", (env) => [env.container()]),
  ...plain("queueMetadata", (env) => [env.queue()]),
  ...plain("tableEntity", (env) => [env.table(), "p", "r", {}]),
  ...plain("defineTarget", () => [{ kind: "k", url: "https://own/store", read: () => Promise.resolve(undefined), write: () => Promise.resolve({ etag: "1" }) }]),
  ...plain("downloadConsistent", (env) => [env.blob(), {}]),
  ...plain("downloadConsistentStream", (env) => [env.blob(), {}]),
  ...plain("claimPages", (env) => [env.pageBlob(), {}]),
  ...plain("enqueue", (env) => [env.queue(), { n: 1 }, {}]),
  ...plain("enqueueMany", (env) => [env.queue(), [1, 2], () => ({ idempotencyKey: "k" }), {}]),
  ...plain("redrive", (env) => [env.queue("poison"), env.queue(), {}]),
  ...plain("purgeOverflow", (env) => [env.container(), {}]),
  ...plain("purgeStagingFiles", (env) => [env.missing(), {}]),
  ...plain("purgeTombstones", (env) => [env.table(), {}]),
  ...plain("runTransaction", (env) => [env.table(), "p", (tx: library.Transaction) => tx.upsert({ rowKey: "r", n: 1 }), {}]),
  listEntities: (env) => ({ args: [env.table(), {}], call: ((...args: Parameters<typeof library.listEntities>) => take(library.listEntities(...args))) }),
  ...plain("retryWhileInUse", () => [() => 1, { maxAttempts: 3 }]),
  ...plain("excludeLibraryRows", () => ["n gt 1"]),
  ...plain("isLibraryRow", () => [{ rowKey: "r" }]),
  ...plain("isConcurrencyError", () => [new Error("e"), "CONFLICT"]),
  reportFailuresTo: (env) => {
    env.ends.push(() => library.reportFailuresTo("console"));
    return { args: ["none"], call: library.reportFailuresTo };
  },
  useMetrics: (env) => {
    env.ends.push(() => library.useMetrics(undefined));
    return { args: [undefined], call: library.useMetrics };
  },
  ...constructed("BlobLocks", (env) => [env.container(), {}]),
  ...methods("BlobLocks", (env) => env.locks(), {
    acquire: () => ["a", {}], tryAcquire: () => ["a", {}], acquireAll: () => [["a", "b"], {}], withLock: () => ["a", () => 1, {}], withLocks: () => [["a", "b"], () => 1, {}],
    break: () => ["a", {}], inspect: () => ["a", {}], list: none, purge: none,
  }),
  ...constructed("Semaphore", (env) => [env.locks(), "s", 3]),
  ...methods("Semaphore", (env) => new library.Semaphore(env.locks(), "s", 3), { acquire: none, tryAcquire: none, withSlot: () => [() => 1, {}], inspect: none }),
  ...constructed("ReaderWriterLock", (env) => [env.locks(), "rw"]),
  ...methods("ReaderWriterLock", (env) => new library.ReaderWriterLock(env.locks(), "rw"), {
    acquireReadLock: none, acquireWriteLock: none, tryAcquireReadLock: none, tryAcquireWriteLock: none, withReadLock: () => [() => 1, {}], withWriteLock: () => [() => 1, {}], inspect: none,
  }),
  ...constructed("TableLock", (env) => [env.table(), env.locks(), {}]),
  ...methods("TableLock", (env) => new library.TableLock(env.table(), env.locks()), { acquire: none, tryAcquire: none, withLock: () => [() => 1, {}], purge: none }),
  ...methods("LockedTable", held, { partition: () => ["p", {}], assertHeld: () => [], release: () => [] }),
  ...methods("FencedPartition", async (env) => (await held(env)).partition("p"), {
    create: () => [{ rowKey: "r" }, {}], get: () => ["r", {}], list: none, update: () => ["r", (entity: Entity<Doc>) => { entity.n++; }, { initial }], delete: () => ["r", {}], submit: () => [[action("r")], {}],
  }),
  ...methods("LeaseHandle", lease, { change: () => ["0f8fad5b-d9cb-469f-a165-70867728950e", {}], renew: none, release: () => [], assertHeld: () => [] }),
  ...methods("LockSet", (env) => env.locks().acquireAll(["a", "b"]), { get: () => ["a"] }),
  ...methods("PageWriter", (env) => library.claimPages(env.pageBlob()), { write: () => [0, new Uint8Array(512), {}], clear: () => [0, 512, {}] }),
  ...inTransaction({ create: [{ rowKey: "r", n: 1 }], update: [{ rowKey: "r", n: 1 }], upsert: [{ rowKey: "r" }], replace: [{ rowKey: "r" }], delete: ["r"], get: ["r", {}], getMany: [["r", "s"], {}], query: [{}, {}] }),
  ...constructed("LeaderElection", (env) => [env.locks(), "leader", () => undefined, {}]),
  ...methods("LeaderElection", (env) => env.stopped(new library.LeaderElection(env.locks(), "leader", () => undefined)), { ...background, resign: () => [], observe: none }),
  ...constructed("WorkBalancer", (env) => [env.locks(), "b", 4, () => undefined, {}]),
  ...methods("WorkBalancer", (env) => env.stopped(new library.WorkBalancer(env.locks(), "b", 4, () => undefined)), { ...background, inspect: none, shed: () => [1] }),
  ...constructed("QueueConsumer", (env) => [env.queue(), () => undefined, queueOptions]),
  ...methods("QueueConsumer", consumer, { ...background, health: () => [], notify: () => [], pause: () => [], resume: () => [] }),
  ...constructed("ClaimInbox", (env) => [env.table(), {}]),
  ...methods("ClaimInbox", (env) => new library.ClaimInbox(env.table()), {
    claim: (env) => [[delivery(env)], request], prepare: () => [request], get: (env) => [env.queue(), "k", {}], forget: (env) => [env.queue(), "k", {}], getGroup: (env) => [env.queue(), "g", {}],
    skip: (env) => [env.queue(), "g", 1, {}], purge: none,
  }),
  ...constructed("CommitInbox", (env) => [env.table(), {}]),
  ...methods("CommitInbox", (env) => new library.CommitInbox(env.table()), {
    prepare: () => [request], get: (env) => [env.queue(), "k", { partitionKey: "p" }], forget: (env) => [env.queue(), "k", { partitionKey: "p" }], purge: none,
  }),
  ...constructed("Once", (env) => [env.table(), {}]),
  ...methods("Once", (env) => new library.Once(env.table()), {
    run: () => ["key", () => 1, { fingerprint: { n: 1 } }], runTransaction: () => ["key", "p", (tx: library.Transaction) => tx.upsert({ rowKey: "r" }), {}], get: () => ["key", {}], forget: () => ["key", {}], purge: none,
  }),
  ...constructed("Outbox", (env) => [env.table(), { queues: [env.queue()] }]),
  ...methods("Outbox", (env) => env.stopped(new library.Outbox(env.table(), { queues: [env.queue()] })), { ...background, flush: none, list: none }),
  "Outbox.add": (env) => {
    const outbox = env.stopped(new library.Outbox(env.table(), { queues: [env.queue()] }));
    return {
      args: [undefined, env.queue(), message.payload, {}],
      call: (tx: library.Transaction | undefined, queue: library.QueueLike, ...rest: never[]) => library.runTransaction(env.table(), "p", (own) => {
        own.upsert({ rowKey: "r" });
        outbox.add(tx ?? own, queue, ...(rest as unknown as [unknown]));
      }),
    };
  },
  ...constructed("Schedule", (env) => [env.table(), env.locks(), { job }, {}]),
  ...methods("Schedule", (env) => env.stopped(new library.Schedule(env.table(), env.locks(), { job })), {
    ...background, history: () => ["job", {}], pause: () => ["job", {}], resume: () => ["job", {}], purge: none, status: none, trigger: () => ["job", {}],
  }),
  ...constructed("IdAllocator", (env) => [env.blob(), {}]),
  ...methods("IdAllocator", (env) => new library.IdAllocator(env.blob()), { next: none, nextMany: () => [5, {}], close: () => [] }),
  ...constructed("PreconditionError", () => ["message", {}]),
  ...constructed("ConcurrentBlob", (env) => [env.blob(), {}]),
  ...methods("ConcurrentBlob", (env) => new library.ConcurrentBlob(env.blob()), { ...facade, deleteIfUnchanged: () => ["etag", {}], leasedUpdate: () => [draft, {}], downloadConsistent: none, downloadConsistentStream: none }),
  ...constructed("ConcurrentFile", (env) => [env.missing(), {}]),
  ...methods("ConcurrentFile", (env) => new library.ConcurrentFile(env.missing()), { ...facade, updateHttpHeaders: () => [setContentType, {}], updateMetadata: () => [setText, {}] }),
  ...constructed("ConcurrentQueue", (env) => [env.queue(), {}]),
  ...methods("ConcurrentQueue", (env) => new library.ConcurrentQueue(env.queue(), { poisonQueue: env.queue("poison") }), {
    consume: () => [() => undefined, {}], enqueue: () => [1, {}], enqueueMany: () => [[1], () => ({}), {}], redrive: none, updateMetadata: (env) => [setText, { lock: { locks: env.locks(), name: "m" } }],
  }),
  ...constructed("ConcurrentTable", (env) => [env.table(), {}]),
  ...methods("ConcurrentTable", (env) => new library.ConcurrentTable(env.table(), { locks: env.locks() }), {
    entity: () => ["p", "r"], list: none, once: none, outbox: (env) => [{ queues: [env.queue()] }], purgeTombstones: none, runTransaction: () => ["p", () => 1, {}], schedule: () => [{ job }, {}],
    update: () => [{ partitionKey: "p", rowKey: "r" }, draft, { initial }],
  }),
};
