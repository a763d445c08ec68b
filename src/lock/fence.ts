import type { OperationTracingOptions } from "@azure/core-tracing";
import type { TableCallOptions, TransactionActionLike, TableLike } from "../clients/table.js";
import { formatVersionName, isLaterFormat, laterFormatError } from "../core/format-version.js";
import { tryLimitOf } from "../core/request.js";
import type { TryLimit } from "../core/request.js";
import { retry } from "../core/retry.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import { logger, redactUrl } from "../core/telemetry.js";
import { maxTryTimeoutInMs } from "../core/validate.js";
import { createError, CommitUnknownError, ConflictError, FencedError, LockModeMismatchError, SchemaError } from "../errors.js";
import { defaultJournalName, newWriteId } from "../target/journal.js";
import { partitionUrl } from "../target/stored-entity.js";
import { commitTransaction } from "../transaction/commit-transaction.js";
import type { TransactionOutcome } from "../transaction/commit-transaction.js";
import type { Operation } from "../transaction/operations.js";
import { readRows } from "../transaction/read-rows.js";
import { noRow } from "../transaction/row.js";
import type { Row, RowOptions } from "../transaction/row.js";
import { epochOf, fenceOperation, fenceRowKey, granularityOf, isConfirmed, markOperation, rowAfter } from "./fence-row.js";
import type { TableLockGranularity } from "./fence-row.js";
import type { HeldCall } from "./held-call.js";

const maxAttempts = 20;

const usualTryLimit = tryLimitOf(maxTryTimeoutInMs);

/** The fence of one holder in one partition. */
export interface FenceSettings {
  readonly table: TableLike;
  readonly partitionKey: string;
  /** The fence row: one for the partition, or one for each entity that is locked individually. */
  readonly rowKey: string;
  readonly granularity: TableLockGranularity;
  readonly epoch: number;
  /**
   * Asks the service whether this holder still has the lock, with a request that is sent after the call.
   * @throws {@link LeaseLostError} if it has not.
   */
  readonly confirm: (options: TableCallOptions) => Promise<void>;
}

/** A request of the holder: the call that it belongs to ends when the lock does. */
export interface FencedRequest {
  readonly call: Pick<HeldCall, "signal" | "requireHeld" | "beginWrite" | "endWrite">;
  readonly tracingOptions?: OperationTracingOptions | undefined;
  /** @defaultValue the usual one: writes go one after the other, and one response that never arrives must not block them */
  readonly tryLimit?: TryLimit | undefined;
}

/**
 * Makes the service itself reject the writes of a holder that has a successor. The fence is a row of the partition with the
 * epoch of the lock's last holder. A holder writes its own epoch before it reads anything, and each of its writes includes, in
 * the same entity group transaction, a conditional update of that row: as soon as a successor has written its epoch, no write
 * of the old holder is committed any more, however long it was paused.
 *
 * A fence row may be deleted at any time, by {@link TableLock.purge} above all. Then a write of an old holder fails, as its row is
 * missing, or has another ETag if it exists again. But the row does not show any more how far the epochs had come, so a holder
 * that was paused before it wrote its epoch could write an old one. So a holder that finds no row, or a row that a holder in the
 * same situation wrote, first writes its epoch, and *then* asks the service whether it still has the lock: no successor had
 * the lock at that time, so none had raised the fence before. Only then does it use the partition, and its next write marks the
 * row as confirmed: those who raise the fence from there need not ask.
 */
export class Fence {
  readonly #settings: FenceSettings;
  readonly #url: string;
  /** The row as this holder last wrote it, confirmed. */
  #row: Row | undefined;
  /** Writes are sent one at a time: two at once would conflict with each other. */
  #lastWrite: Promise<unknown> = Promise.resolve();

  constructor(settings: FenceSettings) {
    this.#settings = settings;
    this.#url = partitionUrl(settings.table, settings.partitionKey);
  }

  /** Writes the epoch of this holder. Costs 2 requests, once; 3 if the row has to be created, or is not confirmed. */
  async raise(request: FencedRequest): Promise<void> {
    await this.#untilSettled(request, async () => {
      const raised = await this.#raised(request);
      return "changed" in raised ? raised.changed : undefined;
    });
  }

  /**
   * Commits all actions or none, and only if no successor has raised the fence. Costs 1 request. Returns the new ETag of each row;
   * none if the response was lost.
   */
  submit(actions: readonly TransactionActionLike[], request: FencedRequest): Promise<readonly (string | undefined)[]> {
    let etags: readonly (string | undefined)[] = [];
    const attempts = (): Promise<void> =>
      this.#untilSettled(request, async (attempt) => {
        const { changed, committed } = await this.#submitOnce(actions, request, attempt);
        etags = committed?.etags?.slice(1) ?? [];
        return changed;
      });
    const write = this.#lastWrite.then(attempts);
    this.#lastWrite = write.catch(() => undefined);
    return write.then(() => etags);
  }

  /** The row with the epoch of this holder, confirmed; `changed` if another holder wrote it meanwhile. */
  async #raised(request: FencedRequest): Promise<{ readonly row: Row } | { readonly changed: { readonly error: unknown } }> {
    if (this.#row) return { row: this.#row };
    const { epoch, confirm } = this.#settings;
    const { row: found, mark } = await this.#read(request);
    let row = found;
    // If the epoch is there already, the response to an earlier write was lost: no other holder has this epoch.
    if (epochOf(row) !== epoch || mark.missing) {
      const { outcome, ...written } = await this.#commit(row, mark.missing ? [this.#mark(mark.row)] : [], isConfirmed(row), request);
      if (outcome.kind === "rejected") throw this.#toError(outcome.error);
      const after = rowAfter(row, written, outcome);
      if (!after) return { changed: { error: outcome.kind === "committed" ? undefined : outcome.error } };
      row = after;
    }
    if (!isConfirmed(row)) await confirm(rowOptionsOf(request));
    request.call.requireHeld();
    return { row: (this.#row = row) };
  }

  /** `changed` is the conflict if the fence row has changed, so that another attempt may succeed. */
  async #submitOnce(
    actions: readonly TransactionActionLike[],
    request: FencedRequest,
    attempt: number,
  ): Promise<{ readonly committed?: TransactionOutcome; readonly changed?: { readonly error: unknown } }> {
    const raised = await this.#raised(request);
    if ("changed" in raised) return raised;
    const { row } = raised;
    const writeId = newWriteId();
    request.call.beginWrite(writeId);
    const others = actions.map((action): Operation => ({ rowKey: action[1].rowKey, base: noRow, changes: false, leavesTombstone: false, wanted: undefined, action }));
    const committed = await this.#commit(row, others, true, request, writeId);
    const { outcome } = committed;
    if (outcome.kind !== "unknown") request.call.endWrite();
    this.#row = rowAfter(row, committed, outcome);
    switch (outcome.kind) {
      case "committed":
        return { committed };
      case "rejected":
        throw this.#toError(outcome.error);
      case "unknown":
        throw createError(CommitUnknownError, `The outcome of a write to partition ${JSON.stringify(this.#settings.partitionKey)} is unknown: the request was sent but its response was lost. Read the entities to decide.`, {
          url: this.#url,
          attempts: attempt,
          operationId: committed.token,
          cause: outcome.error,
        });
      case "conflict": {
        logger.verbose(`a write to ${this.#url} met a conflict`);
        const now = committed.witness ? this.#check(committed.witness.row) : (await this.#read(request)).row;
        // The fence row is unchanged: one of the caller's own conditions did not hold.
        if (now.etag !== row.etag) return { changed: { error: outcome.error } };
        this.#row = row;
        throw new OwnConflict(outcome.error);
      }
    }
  }

  /** Repeats an attempt while the fence row changes during it. */
  async #untilSettled({ call }: FencedRequest, attempt: (attempt: number) => Promise<{ readonly error: unknown } | undefined>): Promise<void> {
    const started = performance.now();
    let attempts = 0;
    try {
      await retry(
        async (number) => {
          attempts = number;
          const changed = await attempt(number);
          if (changed) throw new FenceChanged(changed.error);
        },
        { maxAttempts, shouldRetry: (error) => error instanceof FenceChanged, abortSignal: call.signal },
      );
    } catch (error) {
      throw error instanceof FenceChanged || error instanceof OwnConflict ? this.#conflict(error.cause, attempts, started) : error;
    }
  }

  /** Reads the fence row; and, for an entity, the row that says that the entities of the partition are locked individually. */
  async #read(request: FencedRequest): Promise<{ readonly row: Row; readonly mark: { readonly row: Row; readonly missing: boolean } }> {
    const { table, partitionKey, rowKey } = this.#settings;
    const rows = await readRows(table, partitionKey, [...new Set([rowKey, fenceRowKey])], rowOptionsOf(request)).catch((error: unknown) => {
      throw this.#toError(error);
    });
    const mark = this.#checkGranularity(rows.get(fenceRowKey) ?? noRow);
    const missing = rowKey !== fenceRowKey && granularityOf(mark) === undefined;
    return { row: this.#check(rows.get(rowKey) ?? noRow), mark: { row: mark, missing } };
  }

  /** @throws {@link FencedError} if a successor has written the row. */
  #check(row: Row): Row {
    const { epoch, partitionKey } = this.#settings;
    const fencedBy = epochOf(this.#checkGranularity(row));
    if (fencedBy === undefined) {
      const message = `The row that stores who may write to partition ${JSON.stringify(partitionKey)} cannot be read: another program has changed it. Nothing was written. Stop all users of the lock, and call purge({ olderThanInMs: 0 }).`;
      throw createError(SchemaError, message, { url: this.#url, phase: "read", issues: [{ message: "epoch" }], etag: row.etag });
    }
    if (fencedBy <= epoch) return row;
    throw createError(
      FencedError,
      `A later holder (epoch ${fencedBy}) has fenced partition ${JSON.stringify(partitionKey)}; this holder has epoch ${epoch}. Nothing was written.`,
      { url: this.#url, epoch, fencedBy },
    );
  }

  /** Locks of another granularity do not exclude this one, and their epochs cannot be compared with this holder's. Nor is anything known of a row of a later format. */
  #checkGranularity(row: Row): Row {
    const { table, partitionKey, granularity } = this.#settings;
    if (isLaterFormat(row.stored?.get(formatVersionName)?.value)) throw laterFormatError(`The row that stores who may write to partition ${JSON.stringify(partitionKey)}`, this.#url);
    const found = granularityOf(row);
    if (found === undefined || found === granularity) return row;
    throw createError(
      LockModeMismatchError,
      `The partition ${JSON.stringify(partitionKey)} of table ${table.tableName} was locked with the granularity "${found}", not "${granularity}". Use the same granularity everywhere; to change it, stop all users of the lock, and call purge({ olderThanInMs: 0 }).`,
      { url: redactUrl(table.url), setting: "granularity", expected: granularity, found },
    );
  }

  #mark(row: Row): Operation {
    return markOperation(this.#settings.partitionKey, row, this.#settings.granularity);
  }

  #commit(row: Row, others: readonly Operation[], confirmed: boolean, { call, tracingOptions, tryLimit }: FencedRequest, writeId: string = newWriteId()): Promise<TransactionOutcome> {
    const { table, partitionKey } = this.#settings;
    const fence = fenceOperation(row, { ...this.#settings, confirmed });
    const context = {
      abortSignal: call.signal,
      tryLimit: tryLimit ?? usualTryLimit,
      tracingOptions,
      leaseId: undefined,
      journalName: defaultJournalName,
    };
    // Only a row that is raised is created, without actions of the caller: creating it twice does no harm.
    return commitTransaction(table, partitionKey, [fence, ...others], context, { mayRepeat: true, writeId }, () => 0);
  }

  #toError(error: unknown): unknown {
    return toConcurrencyError(error, this.#url);
  }

  #conflict(cause: unknown, attempts: number, started: number): ConflictError {
    return createError(ConflictError, `A condition of the write to partition ${JSON.stringify(this.#settings.partitionKey)} did not hold. Nothing was written.`, {
      url: this.#url,
      attempts,
      elapsedInMs: performance.now() - started,
      currentETag: undefined,
      cause,
    });
  }
}

/** The fence row changed during an attempt: the next one starts from the current row. */
class FenceChanged extends Error {
  constructor(cause: unknown) {
    super("the fence row changed", { cause });
  }
}

/** One of the caller's own conditions failed. */
class OwnConflict extends Error {
  constructor(cause: unknown) {
    super("a condition of the write did not hold", { cause });
  }
}

/** The options for reading rows on behalf of a request. */
export function rowOptionsOf({ call, tracingOptions, tryLimit }: FencedRequest): RowOptions {
  return { abortSignal: call.signal, tryLimit: tryLimit ?? usualTryLimit, ...(tracingOptions && { tracingOptions }) };
}
