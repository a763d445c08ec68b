import type { OperationTracingOptions } from "@azure/core-tracing";
import type { LeasableLike } from "../clients/leasable.js";
import { nativeSignal } from "../core/deadline.js";
import type { StopSignal } from "../core/deadline.js";
import { readWithTries } from "../core/request.js";
import type { TryLimit } from "../core/request.js";
import { isSameETag, isSnapshotUrl } from "../core/validate.js";
import type { Journal } from "./journal.js";

declare const valueType: unique symbol;
declare const inputType: unique symbol;
declare const concurrency: unique symbol;

/**
 * Something that can be read and written: what {@link jsonBlob}, {@link tableEntity}, {@link jsonFile}, ... return. Opaque: only
 * the library, and {@link defineTarget}, create targets.
 *
 * `T` is the value as it is read, `I` the value as it is created (for an entity: without its keys).
 */
export interface Target<T, I = T> {
  /** The function that created it, for example `"jsonBlob"`. */
  readonly kind: string;
  /** The URL of the target, without the query. */
  readonly url: string;
  /** By type only. A target of one type is not a target of a wider or narrower type: it is read and written. */
  readonly [valueType]: (value: T) => T;
  /** By type only. */
  readonly [inputType]: (value: I) => I;
}

/** Any input type: a {@link Target} is invariant in it, and calls that create nothing, {@link readTarget} for example, do not use it. */
export type AnyInput = any; // eslint-disable-line @typescript-eslint/no-explicit-any -- only `any` matches every invariant type

/** A {@link Target} with ETag conditions: {@link optimisticUpdate} accepts it. */
export interface UpdateTarget<T, I = T> extends Target<T, I> {
  /** By type only. */
  readonly [concurrency]: "etag";
}

/**
 * A {@link Target} without ETag conditions, so that only a lease or a lock excludes a second writer: {@link leasedUpdate} accepts
 * it, {@link optimisticUpdate} does not.
 */
export interface LeasedTarget<T, I = T> extends Target<T, I> {
  /** By type only. */
  readonly [concurrency]: "lease";
}

/** One state of a target, as an adapter read or wrote it. */
export interface Snapshot<Raw> {
  /** The value in its stored form; never modified in place, so it can be shared. */
  readonly raw: Raw;
  readonly etag: string;
  readonly journal: Journal | undefined;
  /** What a write has to preserve (headers, ...). Only the adapter interprets it. Undefined: the target is recreated, so nothing. */
  readonly keep?: unknown;
}

/** What the requests of a call have in common. */
export interface CallContext {
  /** Ends the requests. Clients do not get it: each try of a request has a signal of its own, see {@link withSignal}. */
  readonly abortSignal: AbortSignal | StopSignal;
  /** The time for one try of a read or a write. */
  readonly tryLimit: TryLimit;
  /** Reads must come from the primary. @defaultValue false: a caller that only reads may accept an outdated state */
  readonly primaryOnly?: boolean | undefined;
  readonly tracingOptions: OperationTracingOptions | undefined;
  readonly leaseId: string | undefined;
  /** For requests that prepare a write without deciding it: requests with the signal of a try count as sends of the write. */
  readonly preparationSignal?: AbortSignal | undefined;
  /** Gives the lease another id, so that no request sent under it so far can take effect any more. */
  readonly changeLeaseId?: (() => Promise<void>) | undefined;
  /** The name under which the journal is stored: hidden from values, and preserved even if this writer does not journal. */
  readonly journalName: string;
  /** Called for each request that is sent. */
  readonly onRequest?: (() => void) | undefined;
}

/** The options of one request. */
export interface RequestContext extends CallContext {
  readonly abortSignal: AbortSignal;
}

/** How a value is written without having been read. */
export interface OverwriteHow {
  /** Only over the version with this ETag. Never given to an adapter that requires a lease. Undefined: over any version. */
  readonly ifMatch: string | undefined;
  readonly journal: Journal | undefined;
}

/**
 * What the update engine knows of a service: how to read, and how to write under a condition. `Raw` is the stored form (text,
 * bytes, typed properties). The engine keeps drafts in this form, so that each mutator gets a private copy by decoding, and a
 * caller gets back what a reader would read.
 */
export interface ServiceAdapter<T, Raw> {
  readonly kind: string;
  readonly url: string;
  /** Identifies the credentials and policies of the client. Only updates with the same scope are combined. */
  readonly credentialScope: object;
  /** Identifies the target and all options of the adapter, within its credential scope. */
  readonly key: string;
  /** A well-formed ETag that never matches: the ETag of a value that has been superseded. */
  readonly staleETag: string;
  /** Why nothing can be written: the client is one of a snapshot. Undefined: it can be written. */
  readonly readOnly?: string | undefined;
  /** What to do about a missing target, if an initial value does not help. */
  readonly notFoundAdvice?: string;
  /** Whether a write can carry a journal. Otherwise a lost response is resolved by comparing the intended with the stored value. */
  readonly journaled: boolean;
  /** Whether the store may drop the journal of a write: what is stored without one may then be a write of this library. */
  readonly mayLackJournal?: true;
  /**
   * Distinguishes the operations of this target in a journal that it shares with another one: the same `operationId` for the content and
   * for the metadata of a blob are two operations. Letters only. Absent: the journal is its own, or that of the content.
   */
  readonly journalScope?: string | undefined;
  /** If it is an entity: the URL of its partition, which a transaction may read and write as a whole. */
  readonly partition?: string | undefined;
  /** The lease is the only condition: `write` and `delete` apply to any stored version. */
  readonly requiresLease?: true;
  /** How many requests a write of this value takes, one after the other. Absent: one. */
  readonly writeSteps?: ((raw: Raw) => number) | undefined;
  /** What a leased update leases; undefined: the target has no leases. */
  readonly leasable?: LeasableLike | undefined;

  decode(raw: Raw): T;
  /** Throws a `TypeError` for a value that cannot be stored. */
  encode(value: T, previous: Raw | undefined): Raw;
  equals(a: Raw, b: Raw): boolean;
  /** Whether what is stored contains a part of the change from `base` to `draft`. Absent: if it equals `draft`. */
  containsChange?(stored: Raw, draft: Raw, base: Raw): boolean;
  /**
   * What a value becomes by the schema: with defaults and coercions on a read, as it is on a write. Rejects with a `SchemaError`.
   * Undefined: every value is valid.
   */
  readonly validate: ((raw: Raw, phase: "read" | "write") => Promise<Raw>) | undefined;

  /** `undefined`: the target does not exist. */
  read(context: RequestContext): Promise<Snapshot<Raw> | undefined>;
  /**
   * As `read`, but the service sends no content if the ETag is unchanged. Absent where the service has no such read:
   * {@link readIfChanged} then reads everything and compares the ETags.
   */
  readonly readIfChanged?: ((etag: string, context: RequestContext) => Promise<Snapshot<Raw> | "unchanged" | undefined>) | undefined;
  /** Writes only if the target still has the ETag of `base`. */
  write(base: Snapshot<Raw>, raw: Raw, journal: Journal | undefined, context: RequestContext): Promise<Snapshot<Raw>>;
  /** Creates only if the target does not exist. */
  create(raw: Raw, journal: Journal | undefined, context: RequestContext): Promise<Snapshot<Raw>>;
  /** Deletes only if the target still has this ETag. */
  delete(etag: string, context: RequestContext): Promise<void>;
  /**
   * For a write that the service can reject for reasons that `read` does not show, because it is one of several in a
   * transaction: ensures that no earlier send commits later. False, or an error: not certain, send again.
   */
  invalidateEarlierSends?(rejection: unknown, context: RequestContext): Promise<boolean>;
  /**
   * Writes without reading first, and so preserves nothing. Returns the ETag. Absent where the service has conditional writes only:
   * {@link overwrite} then reads first.
   */
  readonly overwrite?: ((raw: Raw, context: RequestContext, how: OverwriteHow) => Promise<string>) | undefined;
  /** Called under the lease: deletes what a crashed writer left beside the target. */
  cleanUp?(context: RequestContext): Promise<void>;
}

/**
 * The context with the signal of one try.
 *
 * @param prepares - Whether requests that prepare the write have a signal of their own, which is not that of the try.
 */
export function withSignal(context: CallContext, abortSignal: AbortSignal = nativeSignal(context.abortSignal), prepares = false): RequestContext {
  return new TryContext(context, abortSignal, prepares);
}

/**
 * A class: an object whose members become getters is a slow one in V8, and this is made for each request. A copy by spread would lack the
 * getters.
 */
class TryContext implements RequestContext {
  readonly #context: CallContext;
  readonly abortSignal: AbortSignal;
  readonly tryLimit: TryLimit;
  readonly primaryOnly: boolean | undefined;
  readonly changeLeaseId: (() => Promise<void>) | undefined;
  readonly journalName: string;
  readonly onRequest: (() => void) | undefined;
  readonly #prepares: boolean;

  constructor(context: CallContext, abortSignal: AbortSignal, prepares: boolean) {
    this.#context = context;
    this.#prepares = prepares;
    this.abortSignal = abortSignal;
    this.tryLimit = context.tryLimit;
    this.primaryOnly = context.primaryOnly;
    this.changeLeaseId = context.changeLeaseId;
    this.journalName = context.journalName;
    this.onRequest = context.onRequest;
  }

  // Getters of the context: a request may begin another attempt, and a lease may change its id.

  get tracingOptions(): OperationTracingOptions | undefined {
    return this.#context.tracingOptions;
  }

  get leaseId(): string | undefined {
    return this.#context.leaseId;
  }

  /** On demand: few writes send other requests first. */
  get preparationSignal(): AbortSignal | undefined {
    return this.#prepares ? nativeSignal(this.#context.abortSignal) : this.#context.preparationSignal;
  }
}

/** Reads what is stored, in as many tries as it takes. `undefined`: the target does not exist. */
export function readSnapshot<Raw>(adapter: Pick<ServiceAdapter<never, Raw>, "read">, context: CallContext): Promise<Snapshot<Raw> | undefined> {
  return readWithTries((abortSignal) => adapter.read(withSignal(context, abortSignal)), context);
}

/** Reads what is stored, unless it is the version that the caller already has. */
export async function readIfChanged<T, Raw>(
  adapter: ServiceAdapter<T, Raw>,
  etag: string,
  context: CallContext,
): Promise<Snapshot<Raw> | "unchanged" | undefined> {
  const { readIfChanged: readConditionally } = adapter;
  if (readConditionally) return readWithTries((abortSignal) => readConditionally(etag, withSignal(context, abortSignal)), context);
  const found = await readSnapshot(adapter, context);
  return isSameETag(found?.etag, etag) ? "unchanged" : found;
}

const adapterKey = Symbol.for("azure-storage-concurrency.adapter");

/** Creates the opaque target that users pass to the helpers. */
export function targetOf<T, Raw, I = T>(adapter: ServiceAdapter<T, Raw>): UpdateTarget<T, I> {
  return opaque(adapter) as UpdateTarget<T, I>;
}

/** The same for targets that need a lease. */
export function leasedTargetOf<T, Raw, I = T>(adapter: ServiceAdapter<T, Raw> & { readonly requiresLease: true }): LeasedTarget<T, I> {
  return opaque(adapter) as LeasedTarget<T, I>;
}

/** Behind a function: the adapter has the client, whose credentials must not be printed with the target, even with its hidden properties. */
function opaque<T, Raw>(adapter: ServiceAdapter<T, Raw>): object {
  return Object.defineProperty({ kind: adapter.kind, url: adapter.url }, adapterKey, { value: () => adapter });
}

/** The adapter of a target, or undefined if `target` is not a target. */
export function adapterOf(target: unknown): ServiceAdapter<unknown, unknown> | undefined {
  if (typeof target !== "object" || target === null) return undefined;
  return (target as { [adapterKey]?: () => ServiceAdapter<unknown, unknown> })[adapterKey]?.();
}

/** Throws before any request if an object is not such a client, and names what is needed. */
export function requireClient(kind: string, client: unknown, wanted: string, methods: readonly string[] = []): void {
  const given = (client ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof given["url"] === "string" && methods.every((name) => typeof given[name] === "function")) return;
  throw new TypeError(`${kind} needs ${wanted}; got ${client === null ? "null" : typeof client === "object" ? "another object" : typeof client}.`);
}

/** The reason why nothing can be written through a client, for {@link ServiceAdapter.readOnly}. */
export function readOnlyReason({ url }: { readonly url: string }): { readonly readOnly?: string } {
  return isSnapshotUrl(url) ? { readOnly: "its client is one of a snapshot or an old version, which cannot be changed" } : {};
}

/** The result of {@link readTarget}: a value and its ETag. */
export interface ReadResult<T> {
  /** The value, which belongs to the caller. */
  readonly value: T;
  /** The ETag of exactly this value. */
  readonly etag: string;
}

/** The snapshots behind results, so that an update can start from a result: a snapshot holds what a write must preserve. */
const snapshots = new WeakMap<object, { credentialScope: object; key: string; journalName: string; snapshot: Snapshot<unknown> }>();

/** The result for a snapshot that was read, after the schema check. */
export async function checkedResult<T, Raw>(
  adapter: ServiceAdapter<T, Raw>,
  snapshot: Snapshot<Raw>,
  journalName: string,
): Promise<ReadResult<T>> {
  const checked = adapter.validate ? { ...snapshot, raw: await adapter.validate(snapshot.raw, "read") } : snapshot;
  const result = { value: adapter.decode(checked.raw), etag: snapshot.etag };
  snapshots.set(result, { credentialScope: adapter.credentialScope, key: adapter.key, journalName, snapshot: checked });
  return result;
}

/** The snapshot behind a result of `readTarget`. */
export function snapshotOf<T, Raw>(result: ReadResult<T>, adapter: ServiceAdapter<T, Raw>, journalName: string): Snapshot<Raw> {
  const known = snapshots.get(result);
  if (known?.key !== adapter.key || known.credentialScope !== adapter.credentialScope || known.journalName !== journalName) {
    throw new TypeError("startFrom must be a result of readTarget for the same target, with the same client and journal.");
  }
  return known.snapshot as Snapshot<Raw>;
}
