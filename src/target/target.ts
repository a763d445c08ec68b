import type { OperationTracingOptions } from "@azure/core-tracing";
import type { LeasableLike } from "../clients/leasable.js";
import type { Journal } from "./journal.js";

/** What an update reads and writes: made by `jsonBlob`, `tableEntity`, ... */
export interface UpdateTarget<T> {
  readonly kind: string;
  /** Where it is, without the query. */
  readonly url: string;
  /** Not there at run time; it makes a target of one type differ from a target of another. */
  readonly valueType?: T;
  readonly needsLease?: false;
}

/**
 * What has no If-Match, so that only a lease (or a lock) keeps two writers apart: made by `jsonFile`, `shareMetadata`,
 * `containerMetadata`, `queueMetadata`, ... `leasedUpdate` takes it, `optimisticUpdate` does not.
 */
export interface GuardedTarget<T> {
  readonly kind: string;
  /** Where it is, without the query. */
  readonly url: string;
  /** Not there at run time; it makes a target of one type differ from a target of another. */
  readonly valueType?: T;
  readonly needsLease: true;
}

/** One state of a target, as an adapter read or wrote it. */
export interface Snapshot<Raw> {
  /** The value in the form that is stored; never changed in place, so it can be shared. */
  readonly raw: Raw;
  readonly etag: string;
  readonly journal: Journal | undefined;
  /** What a write has to preserve and only the adapter understands (headers, tags, ...). */
  readonly keep?: unknown;
}

/** What goes with every request. */
export interface RequestContext {
  readonly abortSignal: AbortSignal;
  readonly tracingOptions: OperationTracingOptions | undefined;
  readonly leaseId: string | undefined;
  /** For requests that prepare a write and do not decide it: those to `abortSignal` are counted. */
  readonly preparationSignal?: AbortSignal | undefined;
  /** Makes sure that no request that was sent under the lease so far has an effect any more: gives it another id. */
  readonly changeLeaseId?: (() => Promise<void>) | undefined;
  /** Where the journal is kept: hidden from values, and preserved, even if this writer does not journal. */
  readonly journalName: string;
  /** Called for each request that is made. */
  readonly onRequest?: (() => void) | undefined;
}

/**
 * All that the update engine knows of a service: how to read, and how to write under a condition. `Raw` is the
 * stored form (text, bytes, typed properties); the engine keeps drafts in it, so that each mutator gets a private
 * copy by decoding, and what callers get back is what a reader would read.
 */
export interface TargetAdapter<T, Raw> {
  readonly kind: string;
  readonly url: string;
  /** The client's pipeline: stands for its credentials and policies. Updates are combined within one owner only. */
  readonly owner: object;
  /** Identifies the target and all options of the adapter, within its owner. */
  readonly key: string;
  /** A well-formed ETag that never matches: belongs to a value that has been superseded. */
  readonly staleETag: string;
  /** What to do about a target that is not there, where an initial value is of no use. */
  readonly notFoundAdvice?: string;
  /** Whether a write can carry a journal. Otherwise lost answers are resolved by comparing wanted with found. */
  readonly journaled: boolean;
  /** Has no condition but the lease: `write` and `remove` overwrite whatever is there. */
  readonly requiresLease?: true;
  /** What a pessimistic update leases; undefined: it has no leases. */
  readonly leasable?: LeasableLike | undefined;

  decode(raw: Raw): T;
  /** Throws a `TypeError` for what cannot be stored. */
  encode(value: T, previous: Raw | undefined): Raw;
  equals(a: Raw, b: Raw): boolean;
  /** Rejects with a `SchemaError`. Undefined: anything goes. */
  readonly check: ((value: T, phase: "read" | "write") => Promise<void>) | undefined;

  /** `undefined`: not there. */
  read(context: RequestContext): Promise<Snapshot<Raw> | undefined>;
  /**
   * As `read`, but the service sends nothing if the ETag is still this one. Left out where the service has no such
   * read: {@link readIfChanged} then reads all of it and compares.
   */
  readIfChanged?(etag: string, context: RequestContext): Promise<Snapshot<Raw> | "unchanged" | undefined>;
  /** Only if the target still has the ETag of `base`. */
  write(base: Snapshot<Raw>, raw: Raw, journal: Journal | undefined, context: RequestContext): Promise<Snapshot<Raw>>;
  /** Only if there is none. */
  create(raw: Raw, journal: Journal | undefined, context: RequestContext): Promise<Snapshot<Raw>>;
  /** Only if the target still has this ETag. */
  delete(etag: string, context: RequestContext): Promise<void>;
  /**
   * For a write that may be refused for reasons that `read` does not show, as it is one of several in a transaction:
   * makes sure that no earlier try lands after all. False, or an error: cannot tell, try again.
   */
  invalidateEarlierSends?(refusal: unknown, context: RequestContext): Promise<boolean>;
  /** Whatever is there. */
  overwrite(raw: Raw, context: RequestContext): Promise<string>;
  /** Under the lease: removes what a writer that crashed has left beside the target. */
  cleanUp?(context: RequestContext): Promise<void>;
}

/** What is stored, unless that is what the caller knows already. */
export async function readIfChanged<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  etag: string,
  context: RequestContext,
): Promise<Snapshot<Raw> | "unchanged" | undefined> {
  if (adapter.readIfChanged) return adapter.readIfChanged(etag, context);
  const found = await adapter.read(context);
  return found?.etag === etag ? "unchanged" : found;
}

const adapterKey = Symbol.for("azure-storage-concurrency.adapter");

/** Makes the opaque target that users pass around. */
export function targetOf<T, Raw>(adapter: TargetAdapter<T, Raw>): UpdateTarget<T> {
  const target: UpdateTarget<T> = { kind: adapter.kind, url: adapter.url };
  Object.defineProperty(target, adapterKey, { value: adapter });
  return target;
}

/** The same for what needs a lease. */
export function guardedTargetOf<T, Raw>(adapter: TargetAdapter<T, Raw> & { readonly requiresLease: true }): GuardedTarget<T> {
  const target: GuardedTarget<T> = { kind: adapter.kind, url: adapter.url, needsLease: true };
  Object.defineProperty(target, adapterKey, { value: adapter });
  return target;
}

/** The adapter of a target, or undefined if `target` is none. */
export function adapterOf(target: unknown): TargetAdapter<unknown, unknown> | undefined {
  if (typeof target !== "object" || target === null) return undefined;
  return (target as { [adapterKey]?: TargetAdapter<unknown, unknown> })[adapterKey];
}

/** What has no URL is no client: said at once, and by name. */
export function requireClient(kind: string, client: unknown, wanted: string): void {
  const url = (client as { url?: unknown } | null | undefined)?.url;
  if (typeof url !== "string") throw new TypeError(`${kind} needs ${wanted}; got ${client === null ? "null" : typeof client}`);
}

/** A value and the ETag that it was read with. */
export interface ReadResult<T> {
  value: T;
  etag: string;
}

/** What a result was made from, so that an update can start from it: it holds what a write must preserve. */
const snapshots = new WeakMap<object, { owner: object; key: string; journalName: string; snapshot: Snapshot<unknown> }>();

/** The result for a snapshot that was read, after the schema's check. */
export async function checkedResult<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  snapshot: Snapshot<Raw>,
  journalName: string,
): Promise<ReadResult<T>> {
  const value = adapter.decode(snapshot.raw);
  await adapter.check?.(value, "read");
  const result = { value, etag: snapshot.etag };
  snapshots.set(result, { owner: adapter.owner, key: adapter.key, journalName, snapshot });
  return result;
}

/** The snapshot behind a result of {@link readTarget}. */
export function snapshotOf<T, Raw>(result: ReadResult<T>, adapter: TargetAdapter<T, Raw>, journalName: string): Snapshot<Raw> {
  const known = snapshots.get(result);
  if (known?.key !== adapter.key || known.owner !== adapter.owner || known.journalName !== journalName) {
    throw new TypeError("firstRead must be what readTarget returned for the same target, with the same client and journal");
  }
  return known.snapshot as Snapshot<Raw>;
}
