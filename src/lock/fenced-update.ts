import type { CallOptions } from "../clients/call.js";
import type { TableLike, TransactionActionLike } from "../clients/table.js";
import { onAbort, throwIfAborted } from "../core/deadline.js";
import { observed, WriteCall } from "../core/pending-call.js";
import { read, request, tryLimitOf } from "../core/request.js";
import type { TryLimit } from "../core/request.js";
import { fullJitter, retry } from "../core/retry.js";
import { isNotFound, toConcurrencyError } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { Attempts } from "../core/telemetry.js";
import type { RetryLimits } from "../core/validate.js";
import { createError, isConcurrencyError, TargetNotFoundError } from "../errors.js";
import { newWriteId } from "../target/journal.js";
import { entityDiff, entityUrl, entityValue, equalStored, tombstoneName } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { encodeEntity } from "../target/table-entity.js";
import { keptBy } from "../transaction/operations.js";
import { readRow } from "../transaction/row.js";
import type { Row } from "../transaction/row.js";
import { DELETE } from "../update/mutator.js";
import type { Mutator, UpdateResult } from "../update/mutator.js";
import type { Fence, FencedRequest } from "./fence.js";
import { lockEnded, requireHeld } from "./held-call.js";
import type { HeldLock } from "./held-call.js";

/** The row that is updated, and the fence that its writes carry. */
export interface FencedRow {
  readonly table: TableLike;
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly fence: Fence;
  readonly lock: HeldLock;
  /** Throws if the service would not accept the write. */
  readonly checkLimits: (action: TransactionActionLike, stored: StoredEntity) => void;
  /** Resolves when the updates of the row that this process began before have ended. Not awaited before a conflict. */
  readonly untilTurn: (abortSignal: AbortSignal) => Promise<void>;
}

/** One update of an entity, after defaults and checks. */
export interface FencedUpdate<T extends object> {
  readonly mutator: Mutator<T>;
  readonly initial: object | (() => object) | undefined;
  readonly limits: RetryLimits;
  readonly options: CallOptions;
  readonly trace: Attempts;
}

/** An ETag that no entity has: the current one is not known, and a write with it must fail. */
const staleETag = `W/"datetime'2000-01-01T00%3A00%3A00.0000000Z'"`;
/** Deleting a tombstone only tidies up: it must not delay the caller for long. */
const cleanUpTimeoutInMs = 5_000;

/** Says that an attempt met a conflict, and the call has not been settled. */
const metConflict = new Error("the attempt met a conflict");

/**
 * Reads the entity, applies the mutator, and writes under the fence and the entity's ETag; starts again if another client, one
 * that does not use the lock, wrote in between.
 */
export async function updateFenced<T extends object>(row: FencedRow, update: FencedUpdate<T>): Promise<UpdateResult<T>> {
  const { limits, options, trace } = update;
  const { retryDelayInMs, maxRetryDelayInMs } = limits;
  const url = entityUrl(row.table, row.partitionKey, row.rowKey);
  throwIfAborted(options.abortSignal);
  requireHeld(row.lock, url);
  const call = new WriteCall<UpdateResult<T>>({ ...limits, onUnknown: "throw", options, trace, url });
  const run = new FencedRun(row, update, call, url);
  const off = onAbort(row.lock.signal, () => call.reject(lockEnded(row.lock, url, call.inFlight ? call.writeToken : undefined)));
  call.onSettled = () => {
    off();
    run.stop();
  };
  const running = retry(() => run.attempt(), {
    // The attempts are counted by the call, which is settled after the last one.
    maxAttempts: Infinity,
    shouldRetry: (error) => error === metConflict,
    backoff: (conflicts) => fullJitter(conflicts - 1, retryDelayInMs, maxRetryDelayInMs),
    abortSignal: run.signal,
  }).catch((error: unknown) => call.reject(toConcurrencyError(error, url)));
  // A mutator that hangs does not delay a call that is cancelled, or whose time is over.
  const result = await call.promise;
  await running;
  return result;
}

/** What a mutator did. */
type Step =
  | { readonly kind: "unchanged"; readonly stored: StoredEntity }
  | { readonly kind: "deleted"; readonly before: StoredEntity }
  | { readonly kind: "changed"; readonly stored: StoredEntity };

class FencedRun<T extends object> {
  readonly #row: FencedRow;
  readonly #update: FencedUpdate<T>;
  readonly #call: WriteCall<UpdateResult<T>>;
  readonly #url: string;
  readonly #io = new AbortController();
  /** False once the outcome is known: there is no I/O to abort, and `abort()` would allocate a DOMException with a stack trace. */
  #interruptible = true;

  constructor(row: FencedRow, update: FencedUpdate<T>, call: WriteCall<UpdateResult<T>>, url: string) {
    this.#row = row;
    this.#update = update;
    this.#call = call;
    this.#url = url;
  }

  get signal(): AbortSignal {
    return this.#io.signal;
  }

  stop(): void {
    if (this.#interruptible) this.#io.abort();
  }

  async attempt(): Promise<void> {
    const call = this.#call;
    if (call.hadConflict) await this.#row.untilTurn(this.signal);
    if (call.isSettled()) return;
    call.trace.begin();
    const row = await this.#read();
    const step = await this.#apply(row);
    // Cancelled while the mutator ran: its change must not be written.
    if (call.isSettled()) return;
    if (step.kind === "unchanged") this.#resolve(step.stored, "unchanged", row.etag);
    else await this.#write(row, step);
  }

  #read(): Promise<Row> {
    const { table, partitionKey, rowKey } = this.#row;
    return readRow(table, partitionKey, rowKey, { ...this.#request(), abortSignal: this.signal, tryLimit: this.#tryLimit });
  }

  async #apply(row: Row): Promise<Step> {
    const call = this.#call;
    call.attempts++;
    call.currentETag = row.etag;
    const { mutator, initial } = this.#update;
    const start = typeof initial === "function" ? observed((initial as () => object)()) : initial;
    const keys = { partitionKey: this.#row.partitionKey, rowKey: this.#row.rowKey };
    const base = row.stored ?? (start === undefined ? undefined : encodeEntity(start, undefined, keys, {}));
    if (!base) throw createError(TargetNotFoundError, `${this.#url} does not exist: pass initial to create it.`, { url: this.#url });
    const draft = this.#value(base);
    const context = { attempt: call.attempts, signal: this.signal };
    const result = (await mutator(draft, context)) as T | typeof DELETE | undefined;
    if (result === DELETE) return row.stored ? { kind: "deleted", before: row.stored } : { kind: "unchanged", stored: base };
    const stored = encodeEntity(result === undefined ? draft : result, base, keys, {});
    return { kind: row.stored && equalStored(row.stored, stored) ? "unchanged" : "changed", stored };
  }

  async #write(row: Row, step: Exclude<Step, { kind: "unchanged" }>): Promise<void> {
    const call = this.#call;
    const action = this.#actionFor(row, step);
    if (step.kind === "changed") this.#row.checkLimits(action, step.stored);
    let etag: string | undefined;
    try {
      [etag] = await this.#row.fence.submit([action], this.#fencedRequest());
    } catch (error) {
      call.inFlight = false;
      if (!isConcurrencyError(error, "CONFLICT")) throw error;
      call.hadConflict = true;
      if (call.attempts >= call.settings.maxAttempts) call.rejectConflict(error);
      if (call.isSettled()) return;
      call.trace.end("conflict");
      throw metConflict;
    }
    call.inFlight = false;
    this.#interruptible = false;
    if (step.kind === "deleted") {
      call.resolve({ value: this.#value(step.before), outcome: "deleted", operationId: newWriteId(), attempts: call.attempts }, "deleted");
      await this.#deleteTombstone(etag);
      return;
    }
    this.#resolve(step.stored, row.stored ? "updated" : "created", etag ?? (await this.#etagOf(step.stored)));
  }

  /** A delete is a conditional Replace by a tombstone: the SDK sends deletes within a transaction without their ETag. */
  #actionFor(row: Row, step: Exclude<Step, { kind: "unchanged" }>): TransactionActionLike {
    const { partitionKey, rowKey } = this.#row;
    const keys = { partitionKey, rowKey };
    if (step.kind === "changed" && row.etag === undefined) return ["create", { ...keys, ...Object.fromEntries(step.stored) }];
    const { mode, properties } =
      step.kind === "deleted"
        ? { mode: "Replace" as const, properties: { [tombstoneName]: { type: "Boolean", value: true } } }
        : row.stored
          ? entityDiff(row.stored, step.stored)
          : { mode: "Replace" as const, properties: Object.fromEntries(step.stored) };
    return ["update", { ...keys, ...properties, ...keptBy(mode, row) }, mode, { etag: row.etag ?? "" }];
  }

  /** The response was lost, and with it the ETag. */
  async #etagOf(stored: StoredEntity): Promise<string> {
    const now = await this.#read().catch(() => undefined);
    return now?.etag !== undefined && now.stored && equalStored(now.stored, stored) ? now.etag : staleETag;
  }

  /** A tombstone that stays counts as a deleted entity, and `purgeTombstones` deletes it. */
  async #deleteTombstone(written: string | undefined): Promise<void> {
    // The response was lost, and with it the ETag: what is stored now may be the tombstone, or a later entity.
    const found = written === undefined ? await this.#readTombstone() : undefined;
    const etag = written ?? found;
    if (etag === undefined) return;
    const { table, partitionKey, rowKey } = this.#row;
    const deleted = await request((abortSignal) => table.deleteEntity(partitionKey, rowKey, { ...this.#request(), abortSignal, etag }), { timeoutInMs: cleanUpTimeoutInMs });
    if (deleted.kind !== "ok" && !isNotFound(deleted.error)) logger.verbose(`a tombstone in ${this.#url} was not deleted: ${errorLabel(deleted.error)}`);
  }

  async #readTombstone(): Promise<string | undefined> {
    const { table, partitionKey, rowKey } = this.#row;
    const row = await read((abortSignal) => readRow(table, partitionKey, rowKey, { ...this.#request(), abortSignal }), { timeoutInMs: cleanUpTimeoutInMs }).catch(() => undefined);
    return row && !row.stored ? row.etag : undefined;
  }

  #resolve(stored: StoredEntity, outcome: "created" | "updated" | "unchanged", etag: string = staleETag): void {
    this.#interruptible = false;
    this.#call.resolve({ value: this.#value(stored), etag, outcome, operationId: newWriteId(), attempts: this.#call.attempts }, outcome);
  }

  #value(stored: StoredEntity): T {
    return entityValue(stored, this.#row.partitionKey, this.#row.rowKey) as T;
  }

  get #tryLimit(): TryLimit {
    return tryLimitOf(this.#call.settings.tryTimeoutInMs);
  }

  #fencedRequest(): FencedRequest {
    const call = this.#call;
    const held = {
      signal: this.signal,
      requireHeld: () => requireHeld(this.#row.lock, this.#url),
      beginWrite: (writeId: string) => {
        held.requireHeld();
        call.writeToken = writeId;
        call.inFlight = true;
      },
      endWrite: () => void (call.inFlight = false),
    };
    return { call: held, tryLimit: this.#tryLimit, ...this.#request() };
  }

  #request(): Pick<CallOptions, "tracingOptions"> & { tracingOptions?: NonNullable<CallOptions["tracingOptions"]> } {
    const { trace } = this.#call;
    trace.countRequest();
    return trace.tracingOptions ? { tracingOptions: trace.tracingOptions } : {};
  }
}
