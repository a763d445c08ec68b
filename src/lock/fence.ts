import type { TransactionActionLike, TableLike } from "../clients/table.js";
import { tryLimitOf } from "../core/request.js";
import type { TryLimit } from "../core/request.js";
import { retry } from "../core/retry.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import { logger } from "../core/telemetry.js";
import { maxTryTimeoutInMs } from "../core/validate.js";
import { createError, CommitUnknownError, ConflictError, FencedError } from "../errors.js";
import { defaultJournalName, newWriteId } from "../target/journal.js";
import { partitionUrl } from "../target/stored-entity.js";
import { commitTransaction } from "../transaction/commit-transaction.js";
import type { TransactionOutcome } from "../transaction/commit-transaction.js";
import type { Operation } from "../transaction/operations.js";
import { ownRowPrefix, readRow } from "../transaction/row.js";
import type { Row, RowOptions } from "../transaction/row.js";

/** The row of a partition that stores the epoch of the last holder of the lock that guards it. */
export const fenceRowKey: string = `${ownRowPrefix}fence`;

const maxAttempts = 20;

/**
 * Makes the service itself reject the writes of a holder that has a successor. The fence is a row of the partition with the
 * epoch of the lock's last holder. A holder writes its own epoch before it reads anything, and each of its writes includes, in
 * the same entity group transaction, a conditional update of that row: as soon as a successor has written its epoch, no write
 * of the old holder is committed any more, however long it was paused.
 */
export class Fence {
  readonly #table: TableLike;
  readonly #partitionKey: string;
  readonly #rowKey: string;
  readonly #epoch: number;
  /** The row as this holder last wrote it. */
  #row: Row | undefined;
  /** Writes are sent one at a time: two at once would conflict with each other. */
  #lastWrite: Promise<unknown> = Promise.resolve();

  constructor(table: TableLike, partitionKey: string, rowKey: string, epoch: number) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#rowKey = rowKey;
    this.#epoch = epoch;
  }

  /** Writes the epoch of this holder. Costs 2 requests, once. */
  async raise(options: RowOptions): Promise<void> {
    await this.#untilSettled(options, async () => {
      const row = await this.#readFence(options);
      if (epochOf(row) === this.#epoch) {
        this.#row = row;
        return undefined;
      }
      const committed = await this.#commit(row, [], options);
      const { outcome } = committed;
      if (outcome.kind === "rejected") throw this.#toError(outcome.error);
      this.#row = rowAfter(row, this.#epoch, committed);
      // Whatever the outcome of the write, the row shows it: no other holder has this epoch.
      return this.#row ? undefined : { error: outcome.kind === "committed" ? undefined : outcome.error };
    });
  }

  /**
   * Commits all actions or none, and only if no successor has raised the fence. Costs 1 request. Returns the new ETag of each row;
   * none if the response was lost. Calls `onSend` when the write is about to be sent.
   */
  submit(actions: readonly TransactionActionLike[], options: RowOptions, onSend?: () => void): Promise<readonly (string | undefined)[]> {
    let etags: readonly (string | undefined)[] = [];
    const attempts = (): Promise<void> =>
      this.#untilSettled(options, async (attempt) => {
        const { changed, committed } = await this.#submitOnce(actions, options, attempt, onSend);
        etags = committed?.etags?.slice(1) ?? [];
        return changed;
      });
    const write = this.#lastWrite.then(attempts);
    this.#lastWrite = write.catch(() => undefined);
    return write.then(() => etags);
  }

  /** `changed` is the conflict if the fence row has changed, so that another attempt may succeed. */
  async #submitOnce(
    actions: readonly TransactionActionLike[],
    options: RowOptions,
    attempt: number,
    onSend: (() => void) | undefined,
  ): Promise<{ readonly committed?: TransactionOutcome; readonly changed?: { readonly error: unknown } }> {
    const row = this.#row ?? (await this.#readFence(options));
    onSend?.();
    const committed = await this.#commit(row, actions, options);
    const { outcome } = committed;
    this.#row = rowAfter(row, this.#epoch, committed);
    switch (outcome.kind) {
      case "committed":
        return { committed };
      case "rejected":
        throw this.#toError(outcome.error);
      case "unknown":
        throw createError(CommitUnknownError, `The outcome of a write to partition ${JSON.stringify(this.#partitionKey)} is unknown: the request was sent but its response was lost. Read the entities to decide.`, {
          url: partitionUrl(this.#table, this.#partitionKey),
          attempts: attempt,
          operationId: committed.token,
          cause: outcome.error,
        });
      case "conflict": {
        logger.verbose(`a write to ${partitionUrl(this.#table, this.#partitionKey)} met a conflict`);
        const now = committed.witness ? this.#checkFence(committed.witness.row) : await this.#readFence(options);
        this.#row = now;
        // The fence row is unchanged: one of the caller's own conditions did not hold.
        if (now.etag === row.etag) throw new OwnConflict(outcome.error);
        return { changed: { error: outcome.error } };
      }
    }
  }

  /** Repeats an attempt while the fence row changes during it. */
  async #untilSettled(options: RowOptions, attempt: (attempt: number) => Promise<{ readonly error: unknown } | undefined>): Promise<void> {
    const started = performance.now();
    let attempts = 0;
    try {
      await retry(
        async (number) => {
          attempts = number;
          const changed = await attempt(number);
          if (changed) throw new FenceChanged(changed.error);
        },
        { maxAttempts, shouldRetry: (error) => error instanceof FenceChanged, abortSignal: options.abortSignal },
      );
    } catch (error) {
      throw error instanceof FenceChanged || error instanceof OwnConflict ? this.#conflict(error.cause, attempts, started) : error;
    }
  }

  /** Reads the current row. Throws a `FencedError` if a successor has written it. */
  async #readFence(options: RowOptions): Promise<Row> {
    const row = await readRow(this.#table, this.#partitionKey, this.#rowKey, { ...options, tryLimit: tryLimitIn(options) }).catch((error: unknown) => {
      throw this.#toError(error);
    });
    return this.#checkFence(row);
  }

  #checkFence(row: Row): Row {
    const fencedBy = epochOf(row);
    if (fencedBy <= this.#epoch) return row;
    throw createError(
      FencedError,
      `A later holder (epoch ${fencedBy}) has fenced partition ${JSON.stringify(this.#partitionKey)}; this holder has epoch ${this.#epoch}. Nothing was written.`,
      { url: partitionUrl(this.#table, this.#partitionKey), epoch: this.#epoch, fencedBy },
    );
  }

  #commit(row: Row, actions: readonly TransactionActionLike[], options: RowOptions): Promise<TransactionOutcome> {
    const entity = { partitionKey: this.#partitionKey, rowKey: this.#rowKey, epoch: { type: "Int64", value: String(this.#epoch) } };
    const fence: Operation = {
      rowKey: this.#rowKey,
      base: row,
      changes: true,
      leavesTombstone: false,
      action: row.etag === undefined ? ["create", entity] : ["update", entity, "Merge", { etag: row.etag }],
    };
    const others = actions.map((action): Operation => ({ rowKey: action[1].rowKey, base: row, changes: false, leavesTombstone: false, action }));
    const context = {
      abortSignal: options.abortSignal ?? new AbortController().signal,
      tryLimit: tryLimitIn(options),
      tracingOptions: options.tracingOptions,
      leaseId: undefined,
      journalName: defaultJournalName,
    };
    // Clients do not delete fence rows: one that is missing after a lost response was not created.
    return commitTransaction(this.#table, this.#partitionKey, [fence, ...others], context, { mayRepeat: true, writeId: newWriteId() }, () => 0);
  }

  #toError(error: unknown): unknown {
    return toConcurrencyError(error, partitionUrl(this.#table, this.#partitionKey));
  }

  #conflict(cause: unknown, attempts: number, started: number): ConflictError {
    return createError(ConflictError, `A condition of the write to partition ${JSON.stringify(this.#partitionKey)} did not hold. Nothing was written.`, {
      url: partitionUrl(this.#table, this.#partitionKey),
      attempts,
      elapsedInMs: performance.now() - started,
      currentETag: undefined,
      cause,
    });
  }
}

/** Writes go one after the other: a request without a response must not block those behind it until its caller gives up. */
function tryLimitIn({ tryLimit = tryLimitOf(maxTryTimeoutInMs) }: RowOptions): TryLimit {
  return tryLimit;
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

/** The row after a committed write; undefined if its response was lost. */
function rowAfter(row: Row, epoch: number, { outcome, etags, journals }: TransactionOutcome): Row | undefined {
  const [journal] = journals.values();
  if (outcome.kind !== "committed" || etags?.[0] === undefined || !journal) return undefined;
  const stored = new Map(row.stored).set("epoch", { type: "Int64" as const, value: String(epoch) });
  return { stored, etag: etags[0], journal, journalValue: undefined };
}

function epochOf(row: Row): number {
  return Number(row.stored?.get("epoch")?.value ?? 0);
}
