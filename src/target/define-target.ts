import { deepEqual } from "fast-equals";
import type { AdapterRequest } from "../clients/call.js";
import { Deadline } from "../core/deadline.js";
import { requireETag } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import { formatJournal, parseJournal } from "./journal.js";
import type { Journal } from "./journal.js";
import { targetOf } from "./target.js";
import type { RequestContext, Snapshot, UpdateTarget } from "./target.js";

/**
 * A store of the caller's own for {@link defineTarget}. Values must be structured-cloneable: each mutator gets a private copy.
 *
 * @experimental
 */
export interface TargetAdapter<T> {
  /** The name of the kind of store in spans and messages. */
  readonly kind: string;
  /** Identifies the target within the process: calls with the same kind and url share requests. */
  readonly url: string;
  /**
   * Reads what is stored. Returns undefined if it does not exist.
   * @throws an error of the store if the read fails; {@link readTarget} rejects with it.
   */
  read(request: AdapterRequest): Promise<StoredValue<T> | undefined>;
  /**
   * Writes if the stored version has the ETag `ifMatch`, or if there is none (`ifNoneMatch`), and stores `journal` with the value.
   * @throws {@link PreconditionError} if the condition does not hold. After any other error the outcome is unknown, and the library
   * reads to determine it.
   */
  write(
    value: T,
    condition: { readonly ifMatch: string } | { readonly ifNoneMatch: "*" },
    journal: string | undefined,
    request: AdapterRequest,
  ): Promise<{ readonly etag: string }>;
  /**
   * Deletes if the stored version has this ETag. Without it, a mutator cannot return {@link DELETE}.
   * @throws {@link PreconditionError} if it has another ETag, or does not exist.
   */
  delete?(ifMatch: string, request: AdapterRequest): Promise<void>;
}

/**
 * What {@link TargetAdapter.read} returns. See {@link defineTarget}.
 *
 * @experimental
 */
export interface StoredValue<T> {
  /** The value. */
  readonly value: T;
  /** Identifies this version: another write gives another ETag, even of the same value. */
  readonly etag: string;
  /**
   * What {@link TargetAdapter.write} was given with this value. Undefined if the store has no place for it: a lost response is then
   * a {@link CommitUnknownError}.
   */
  readonly journal?: string | undefined;
}

/**
 * A target in a store of the caller's own: {@link optimisticUpdate}, {@link readTarget}, {@link watch}, ... work on it as on the
 * built-in ones.
 *
 * @experimental
 * @example
 * ```ts
 * const flags = defineTarget<Flags>({
 *   kind: "redis",
 *   url: "redis://cache/flags",
 *   read: (request) => readFlags(request.abortSignal),
 *   write: (value, condition, journal) => writeFlags(value, condition, journal),
 * });
 * await optimisticUpdate(flags, (draft) => { draft.beta = true; }, { initial: { beta: false } });
 * ```
 * @throws `TypeError` if the adapter lacks one of its members.
 */
export function defineTarget<T>(adapter: TargetAdapter<T>): UpdateTarget<T> {
  const { kind, url } = checkAdapter(adapter);

  async function read(context: RequestContext): Promise<Snapshot<T> | undefined> {
    const found = await send(context, (request) => adapter.read(request));
    return found && { raw: found.value, etag: requireETag(found.etag, url), journal: parseJournal(found.journal), keep: found.journal };
  }

  async function write(raw: T, base: Snapshot<T> | undefined, journal: Journal | undefined, context: RequestContext): Promise<Snapshot<T>> {
    // A writer that does not journal must not drop the journal of other writers.
    const text = journal ? formatJournal(journal) : (base?.keep as string | undefined);
    const condition = base ? { ifMatch: base.etag } : { ifNoneMatch: "*" as const };
    const { etag } = await sendWrite(context, (request) => adapter.write(structuredClone(raw), condition, text, request));
    return { raw, etag: requireETag(etag, url), journal, keep: text };
  }

  return targetOf<T, T>({
    kind,
    url,
    credentialScope: ownStores,
    key: JSON.stringify([kind, url]),
    staleETag: "superseded",
    journaled: true,
    mayLackJournal: true,
    decode: (raw) => structuredClone(raw),
    encode(value) {
      if (value === undefined) throw new TypeError(`${kind}: a value is needed; got undefined.`);
      return structuredClone(value);
    },
    equals: deepEqual,
    validate: undefined,
    read,
    write: (base, raw, journal, context) => write(raw, base, journal, context),
    create: (raw, journal, context) => write(raw, undefined, journal, context),
    async delete(etag, context) {
      if (!adapter.delete) throw new TypeError(`${kind}: the adapter has no delete.`);
      await sendWrite(context, (request) => adapter.delete?.(etag, request) ?? Promise.resolve());
    },
    // The store has conditional writes only.
    overwrite: undefined,
  });
}

/** The stores of callers have no credentials that the library knows of: their url identifies them. */
const ownStores = {};

function checkAdapter<T>(adapter: TargetAdapter<T>): TargetAdapter<T> {
  const given = adapter as Partial<TargetAdapter<T>> | null | undefined;
  for (const name of ["kind", "url"] as const) {
    if (typeof given?.[name] !== "string" || given[name] === "") throw new TypeError(`defineTarget: the adapter needs a ${name}.`);
  }
  for (const name of ["read", "write"] as const) {
    if (typeof given?.[name] !== "function") throw new TypeError(`defineTarget: the adapter needs a function ${name}.`);
  }
  if (given?.delete !== undefined && typeof given.delete !== "function") throw new TypeError("defineTarget: delete must be a function.");
  return adapter;
}

/**
 * Calls a function of the adapter, with a signal of its own: a call counts as one send, however many listeners the adapter adds to
 * its signal.
 */
async function send<R>(context: RequestContext, call: (request: AdapterRequest) => Promise<R>): Promise<R> {
  context.onRequest?.();
  const { abortSignal, tracingOptions = {} } = context;
  const deadline = new Deadline(Infinity, () => undefined);
  const abort = (): void => deadline.abort(abortSignal.reason);
  if (abortSignal.aborted) abort();
  abortSignal.addEventListener("abort", abort, { once: true });
  try {
    // Raced: an adapter that ignores its signal must not block the other callers of the target.
    return await deadline.race(call({ abortSignal: deadline.signal, tracingOptions }));
  } finally {
    abortSignal.removeEventListener("abort", abort);
  }
}

/**
 * The same for a write. An error of the store says nothing about the outcome, even if it looks like a response of Azure Storage with a status
 * code: only the adapter knows whether its store has rejected the write, and says so with a {@link PreconditionError}.
 */
async function sendWrite<R>(context: RequestContext, call: (request: AdapterRequest) => Promise<R>): Promise<R> {
  try {
    return await send(context, call);
  } catch (error) {
    if (context.abortSignal.aborted || isConcurrencyError(error, "PRECONDITION")) throw error;
    throw new Error("The write of the adapter failed.", { cause: error });
  }
}
