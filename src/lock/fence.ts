import type { TableCallOptions, TransactionActionLike, TransactionTableLike } from "../clients.js";
import { CommitUnknownError, ConflictError, FencedError } from "../errors.js";
import { logger } from "../core/telemetry.js";
import { partitionUrl } from "../target/stored-entity.js";
import { commitGroup } from "../transaction/commit-transaction.js";
import type { GroupVerdict } from "../transaction/commit-transaction.js";
import type { Operation } from "../transaction/operations.js";
import { ownRowPrefix, readRow } from "../transaction/row.js";
import type { Row } from "../transaction/row.js";
import { explain } from "../core/storage-errors.js";
import { defaultJournalName } from "../target/journal.js";

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
    const started = performance.now();
    for (let attempt = 1; ; attempt++) {
      const row = await this.#look(options);
      if (epochOf(row) === this.#epoch) {
        this.#row = row;
        return;
      }
      const committed = await this.#commit(row, [], options);
      const { verdict } = committed;
      if (verdict.kind === "refused") throw this.#explain(verdict.error);
      this.#row = rowAfter(row, this.#epoch, committed);
      if (this.#row) return;
      // Whatever became of it, the row tells: nobody else has this number.
      if (verdict.kind !== "landed" && attempt >= maxAttempts) throw this.#conflict(verdict.error, attempt, started);
    }
  }

  /** Writes all or nothing, and only if no successor has raised the fence. Costs 1 request. */
  submit(actions: readonly TransactionActionLike[], options: TableCallOptions): Promise<void> {
    const next = this.#last.then(() => this.#submit(actions, options));
    this.#last = next.catch(() => undefined);
    return next;
  }

  async #submit(actions: readonly TransactionActionLike[], options: TableCallOptions): Promise<void> {
    const started = performance.now();
    for (let attempt = 1; ; attempt++) {
      const row = this.#row ?? (await this.#look(options));
      const committed = await this.#commit(row, actions, options);
      const { verdict } = committed;
      this.#row = rowAfter(row, this.#epoch, committed);
      switch (verdict.kind) {
        case "landed":
          return;
        case "refused":
          throw this.#explain(verdict.error);
        case "unknown":
          throw new CommitUnknownError(`whether a write to partition ${JSON.stringify(this.#partitionKey)} landed cannot be known`, {
            attempts: attempt,
            cause: verdict.error,
          });
        case "race": {
          logger.verbose(`lost a race for ${partitionUrl(this.#table, this.#partitionKey)}`);
          const now = await this.#look(options);
          this.#row = now;
          // The fence is where it was: it is one of the caller's own conditions that did not hold.
          if (now.etag === row.etag || attempt >= maxAttempts) throw this.#conflict(verdict.error, attempt, started);
        }
      }
    }
  }

  /** The row as it is now; a `FencedError` if a successor has been there. */
  async #look(options: TableCallOptions): Promise<Row> {
    const row = await readRow(this.#table, this.#partitionKey, this.#rowKey, options).catch((error: unknown) => {
      throw this.#explain(error);
    });
    const fencedBy = epochOf(row);
    if (fencedBy > this.#epoch) {
      throw new FencedError(
        `partition ${JSON.stringify(this.#partitionKey)} belongs to holder number ${fencedBy} by now, and this is number ${this.#epoch}: nothing was written`,
        { epoch: this.#epoch, fencedBy },
      );
    }
    return row;
  }

  #commit(row: Row, actions: readonly TransactionActionLike[], options: TableCallOptions): Promise<GroupVerdict> {
    const entity = { partitionKey: this.#partitionKey, rowKey: this.#rowKey, epoch: { type: "Int64", value: String(this.#epoch) } };
    const fence: Operation = {
      rowKey: this.#rowKey,
      base: row,
      changes: true,
      leavesTombstone: false,
      action: row.etag === undefined ? ["create", entity] : ["update", entity, "Merge", { etag: row.etag }],
    };
    const others = actions.map((action): Operation => ({ rowKey: action[1].rowKey, base: row, changes: false, leavesTombstone: false, action }));
    return commitGroup(this.#table, this.#partitionKey, [fence, ...others], {
      abortSignal: options.abortSignal ?? new AbortController().signal,
      tracingOptions: options.tracingOptions,
      leaseId: undefined,
      journalName: defaultJournalName,
    });
  }

  #explain(error: unknown): unknown {
    return explain(error, partitionUrl(this.#table, this.#partitionKey));
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

/** The row after a write whose answer arrived. */
function rowAfter(row: Row, epoch: number, { verdict, etags, journals }: GroupVerdict): Row | undefined {
  const [journal] = journals.values();
  if (verdict.kind !== "landed" || etags?.[0] === undefined || !journal) return undefined;
  const stored = new Map(row.stored).set("epoch", { type: "Int64" as const, value: String(epoch) });
  return { stored, etag: etags[0], journal, journalValue: undefined };
}

function epochOf(row: Row): number {
  return Number(row.stored?.get("epoch")?.value ?? 0);
}
