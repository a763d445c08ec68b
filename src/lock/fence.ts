import type { TableCallOptions, TransactionActionLike, TransactionTableLike } from "../clients/table.js";
import { retry } from "../core/retry.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import { logger } from "../core/telemetry.js";
import { CommitUnknownError, ConflictError, FencedError } from "../errors.js";
import { defaultJournalName } from "../target/journal.js";
import { partitionUrl } from "../target/stored-entity.js";
import { commitTransaction } from "../transaction/commit-transaction.js";
import type { TransactionOutcome } from "../transaction/commit-transaction.js";
import type { Operation } from "../transaction/operations.js";
import { ownRowPrefix, readRow } from "../transaction/row.js";
import type { Row } from "../transaction/row.js";

/** Where a partition keeps the number of the last holder of the lock that guards it. */
export const fenceRowKey: string = `${ownRowPrefix}fence`;

const maxAttempts = 20;

/**
 * Makes the service itself refuse the writes of a holder that has a successor. The fence is a row of the partition with
 * the number (epoch) of the lock's last holder. A holder writes its own before it reads anything, and every write of it
 * includes, in the same entity group transaction, a conditional update of that row: as soon as a successor has put its
 * number there, nothing of the old holder lands any more, however long it was paused.
 */
export class Fence {
  readonly #table: TransactionTableLike;
  readonly #partitionKey: string;
  readonly #rowKey: string;
  readonly #epoch: number;
  /** The row as this holder last wrote it. */
  #row: Row | undefined;
  /** One write after the other: two at a time would refuse each other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(table: TransactionTableLike, partitionKey: string, rowKey: string, epoch: number) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#rowKey = rowKey;
    this.#epoch = epoch;
  }

  /** Puts the number there. Costs 2 requests, once. */
  async raise(options: TableCallOptions): Promise<void> {
    await this.#untilSettled(options, async () => {
      const row = await this.#readFence(options);
      if (epochOf(row) === this.#epoch) {
        this.#row = row;
        return undefined;
      }
      const committed = await this.#commit(row, [], options);
      const { outcome } = committed;
      if (outcome.kind === "rejected") throw this.#explain(outcome.error);
      this.#row = rowAfter(row, this.#epoch, committed);
      // Whatever the outcome of the write, the row tells: no other holder has this number.
      return this.#row ? undefined : { error: outcome.kind === "committed" ? undefined : outcome.error };
    });
  }

  /** Writes all or nothing, and only if no successor has raised the fence. Costs 1 request. */
  submit(actions: readonly TransactionActionLike[], options: TableCallOptions): Promise<void> {
    const next = this.#last.then(() => this.#untilSettled(options, (attempt) => this.#submitOnce(actions, options, attempt)));
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Returns undefined when it is done, and the conflict if the fence has moved, so that another attempt may succeed. */
  async #submitOnce(
    actions: readonly TransactionActionLike[],
    options: TableCallOptions,
    attempt: number,
  ): Promise<{ readonly error: unknown } | undefined> {
    const row = this.#row ?? (await this.#readFence(options));
    const committed = await this.#commit(row, actions, options);
    const { outcome } = committed;
    this.#row = rowAfter(row, this.#epoch, committed);
    switch (outcome.kind) {
      case "committed":
        return undefined;
      case "rejected":
        throw this.#explain(outcome.error);
      case "unknown":
        throw new CommitUnknownError(`whether a write to partition ${JSON.stringify(this.#partitionKey)} landed cannot be known`, {
          attempts: attempt,
          cause: outcome.error,
        });
      case "conflict": {
        logger.verbose(`a write to ${partitionUrl(this.#table, this.#partitionKey)} met a conflict`);
        const now = committed.witness ? this.#checkFence(committed.witness.row) : await this.#readFence(options);
        this.#row = now;
        // The fence is where it was: it is one of the caller's own conditions that did not hold.
        if (now.etag === row.etag) throw new OwnConflict(outcome.error);
        return { error: outcome.error };
      }
    }
  }

  /** Repeats an attempt while the fence row moves under it. */
  async #untilSettled(options: TableCallOptions, attempt: (attempt: number) => Promise<{ readonly error: unknown } | undefined>): Promise<void> {
    const started = performance.now();
    let attempts = 0;
    try {
      await retry(
        async (number) => {
          attempts = number;
          const moved = await attempt(number);
          if (moved) throw new FenceMoved(moved.error);
        },
        { maxAttempts, shouldRetry: (error) => error instanceof FenceMoved, abortSignal: options.abortSignal },
      );
    } catch (error) {
      throw error instanceof FenceMoved || error instanceof OwnConflict ? this.#conflict(error.cause, attempts, started) : error;
    }
  }

  /** The row as it is now; a `FencedError` if a successor has been there. */
  async #readFence(options: TableCallOptions): Promise<Row> {
    const row = await readRow(this.#table, this.#partitionKey, this.#rowKey, options).catch((error: unknown) => {
      throw this.#explain(error);
    });
    return this.#checkFence(row);
  }

  #checkFence(row: Row): Row {
    const fencedBy = epochOf(row);
    if (fencedBy <= this.#epoch) return row;
    throw new FencedError(
      `partition ${JSON.stringify(this.#partitionKey)} belongs to holder number ${fencedBy} by now, and this is number ${this.#epoch}: nothing was written`,
      { epoch: this.#epoch, fencedBy },
    );
  }

  #commit(row: Row, actions: readonly TransactionActionLike[], options: TableCallOptions): Promise<TransactionOutcome> {
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
      tracingOptions: options.tracingOptions,
      leaseId: undefined,
      journalName: defaultJournalName,
    };
    return commitTransaction(this.#table, this.#partitionKey, [fence, ...others], context, () => 0);
  }

  #explain(error: unknown): unknown {
    return toConcurrencyError(error, partitionUrl(this.#table, this.#partitionKey));
  }

  #conflict(cause: unknown, attempts: number, started: number): ConflictError {
    return new ConflictError(`a condition of the write to partition ${JSON.stringify(this.#partitionKey)} did not hold. Nothing was written.`, {
      attempts,
      elapsedInMs: performance.now() - started,
      lastETag: undefined,
      cause,
    });
  }
}

/** The fence row moved under an attempt: the next one starts from where it is now. */
class FenceMoved extends Error {
  constructor(cause: unknown) {
    super("the fence row changed", { cause });
  }
}

/** A condition of the caller's own failed. */
class OwnConflict extends Error {
  constructor(cause: unknown) {
    super("a condition of the write did not hold", { cause });
  }
}

/** The row after a write whose response arrived. */
function rowAfter(row: Row, epoch: number, { outcome, etags, journals }: TransactionOutcome): Row | undefined {
  const [journal] = journals.values();
  if (outcome.kind !== "committed" || etags?.[0] === undefined || !journal) return undefined;
  const stored = new Map(row.stored).set("epoch", { type: "Int64" as const, value: String(epoch) });
  return { stored, etag: etags[0], journal, journalValue: undefined };
}

function epochOf(row: Row): number {
  return Number(row.stored?.get("epoch")?.value ?? 0);
}
