import { CallQueue, CallQueues } from "../core/call-queue.js";
import type { FailedWrite } from "../core/call-queue.js";
import { nativeSignal } from "../core/deadline.js";
import { isConflict, isEntityAlreadyExists } from "../core/storage-errors.js";
import { beginTogether } from "../core/telemetry.js";
import { defaultJournalName, formatJournal, maxOperationIds, newWriteId } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { partitionUrl } from "../target/stored-entity.js";
import { accompany } from "./companion.js";
import { commitTransaction, tokenOfWrite } from "./commit-transaction.js";
import type { TransactionOutcome } from "./commit-transaction.js";
import { limitOf } from "./operations.js";
import type { Operation } from "./operations.js";
import { PartitionView } from "./partition-view.js";
import { operationsRowKey } from "./row.js";
import type { Row, RowOptions } from "./row.js";
import { TombstoneCleanup } from "./tombstone-cleanup.js";
import { TransactionBatch } from "./transaction-batch.js";
import type { PartitionSettings, TransactionCall } from "./transaction-call.js";

/** The maximum number of transactions in one batch: they have to fit into 100 operations. */
const maxBatch = 50;
/** With more tombstones than this, the clean-up does not wait until the queue is empty. */
const maxTombstones = 100;
/** With more rows than this, the cache is emptied: it may not be needed any more. */
const maxRows = 1_000;

const queues = new CallQueues<TransactionQueue>();

/** Adds a call to the queue of its partition. */
export function enqueueTransaction(settings: PartitionSettings, call: TransactionCall): void {
  if (!settings.coalesce) {
    new TransactionQueue(settings, undefined).add(call);
    return;
  }
  if (call.isSettled()) return;
  const { credentialScope, table, partitionKey, detectPhantoms } = settings;
  const key = JSON.stringify([table.url, table.tableName, partitionKey, detectPhantoms]);
  queues.get(credentialScope, key, (onIdle) => new TransactionQueue(settings, onIdle)).add(call);
}

/**
 * The transactions of this process on one partition under the same credentials. The transactions of a batch run one after the
 * other, each on what those before it wrote, and are committed together.
 */
class TransactionQueue extends CallQueue<TransactionCall> {
  readonly #settings: PartitionSettings;
  /** Rows as they are known to be stored, kept while there is work. Emptied when a conflict shows that they are outdated. */
  #rows = new Map<string, Row>();
  readonly #tombstones: TombstoneCleanup;

  constructor(settings: PartitionSettings, onIdle: (() => void) | undefined) {
    super(partitionUrl(settings.table, settings.partitionKey), onIdle, settings.credentialScope);
    this.#settings = settings;
    this.#tombstones = new TombstoneCleanup(settings.table, settings.partitionKey);
  }

  protected override async runBatch(): Promise<void> {
    // Calls that are made in the same tick are part of the first batch.
    await Promise.resolve();
    const { table, partitionKey } = this.#settings;
    const calls = this.#takeCalls();
    beginTogether(calls);
    const wasKnown = this.#rows.size > 0;
    const view = new PartitionView(table, partitionKey, this.#rows);
    const batch = new TransactionBatch(view, calls, this.#settings, () => this.#rowOptions(calls));
    await batch.run(() => this.waiting.some((call) => !call.isSettled()));
    this.#letDetachedRun(batch);
    this.requeue(batch.postponed());
    const operations = batch.operations();
    const outcome = batch.mustCommit(operations)
      ? await this.#commit(batch, operations)
      : await this.#validate(batch, wasKnown);
    this.endAttempt(calls, outcome);
    // A detached function, or that of a caller that has left, may wait for a read: it ends now, and a detached one runs again.
    if (batch.hasPendingReads()) this.abortRequests();
    if (this.#tombstones.size > maxTombstones) await this.#cleanUp();
    if (this.#rows.size > maxRows) this.#rows = new Map();
  }

  /** A write can store so many operation ids: the calls after that wait for the next batch. */
  #takeCalls(): TransactionCall[] {
    const calls = this.takeBatch(maxBatch);
    const identified = calls.filter(({ settings }) => settings.operationId !== undefined);
    const next = identified[maxOperationIds];
    if (!next) return calls;
    const batch = calls.slice(0, calls.indexOf(next));
    this.requeue(calls.slice(batch.length));
    this.waitFor(batch);
    return batch;
  }

  protected override beforeIdle(): Promise<void> {
    return this.#cleanUp();
  }

  protected override onBatchFailed(): void {
    this.#rows = new Map();
  }

  /** Detached calls run again on their own when their functions have ended: two runs of one function never overlap. */
  #letDetachedRun(batch: TransactionBatch): void {
    for (const [call, done] of batch.detached()) {
      void done.then(() => {
        call.endDetached();
        enqueueTransaction({ ...this.#settings, coalesce: false }, call);
      });
    }
  }

  /** Nothing to write. Reads at different moments saw one state only if all of them are still valid afterwards. */
  async #validate(batch: TransactionBatch, wasKnown: boolean): Promise<string> {
    const calls = batch.unsettled();
    const { view } = batch;
    this.waitFor(calls);
    if (!(wasKnown || view.severalReads) || (await view.isCurrent(this.#rowOptions(calls)))) {
      this.endWrite([]);
      batch.settleAll("unchanged");
      this.resetBackoff();
      return "unchanged";
    }
    this.#requeueFailed({ kind: "conflict", error: undefined }, batch, undefined);
    await this.pauseBeforeRetry(this.backoffAfterConflict(calls));
    return "conflict";
  }

  async #commit(batch: TransactionBatch, merged: readonly Operation[]): Promise<string> {
    const { table, partitionKey } = this.#settings;
    const { operationIds } = batch;
    const operations = operationIds.length === 0 ? merged : merged.map((operation) => (operation.rowKey === operationsRowKey ? { ...operation, changes: true } : operation));
    const limit = limitOf(operations, batch.view.written, partitionKey, partitionUrl(table, partitionKey));
    if (limit) {
      this.#requeueFailed({ kind: "rejected", error: limit }, batch, undefined);
      return "rejected";
    }
    const writers = batch.writers();
    const calls = batch.unsettled();
    // A caller has left since its function ran, and was told that nothing was written: the others go into a batch without it.
    const writeId = newWriteId();
    if (!this.beginWrite(writers, calls, (caller) => tokenOfWrite(operations, writeId, caller))) {
      this.requeue(batch.withdraw());
      return "interrupted";
    }
    const context = this.requestFor(calls, undefined, defaultJournalName);
    // Clients do not delete the row of the operations: if it is missing after a lost response, and no other row shows the write, it was not
    // created.
    const mayRepeat = operationIds.length > 0 || writers.every(({ settings }) => settings.onUnknown === "retry");
    const isAbandoned = (): boolean => writers.some((call) => call.isSettled());
    const onConflict = (): number => this.backoffAfterConflict(calls);
    const write = { mayRepeat, writeId, isAbandoned, operationIds };
    const committed = await accompany(batch.companions(), () => commitTransaction(table, partitionKey, operations, context, write, onConflict));
    const { outcome } = committed;
    this.endWrite(writers, outcome);
    if (outcome.kind === "unknown") batch.keepValues(writeId);
    if (outcome.kind === "committed") {
      this.#remember(batch, operations, committed);
      batch.settleAll("committed");
    } else this.#requeueFailed(outcome, batch, committed.witness);
    if (outcome.kind !== "conflict") this.resetBackoff();
    return outcome.kind;
  }

  #requeueFailed(
    outcome: FailedWrite,
    batch: TransactionBatch,
    witness: TransactionOutcome["witness"],
  ): void {
    const calls = batch.unsettled();
    this.settleFailed(outcome, outcome.kind === "rejected" ? calls : batch.writers(), calls);
    // Its caller asked for a retry: the place of one of several writes must not say that none of them was committed.
    if (outcome.kind === "unknown") for (const call of batch.writers()) call.writeToken = newWriteId();
    if (outcome.kind !== "rejected") {
      this.#rows = new Map(witness ? [[witness.rowKey, witness.row]] : []);
      for (const call of calls) call.readBeforeInsert = true;
      // A changed row says nothing about the receipts of the batch, which all of its calls would read.
      const isChange = isConflict(outcome.error) && !isEntityAlreadyExists(outcome.error);
      if (!isChange) for (const call of calls) call.readReceipt = true;
    }
    this.requeue(calls);
  }

  /** Caches what is stored after a commit whose response arrived, so that the next batch need not read it. */
  #remember(batch: TransactionBatch, operations: readonly Operation[], { etags, journals }: TransactionOutcome): void {
    const addTombstone = (operation: Operation, etag: string | undefined): void => {
      if (!batch.mustKeepTombstone(operation)) this.#tombstones.add(operation.rowKey, etag);
    };
    if (etags?.length !== operations.length) {
      this.#rows = new Map();
      for (const operation of operations) if (operation.leavesTombstone) addTombstone(operation, undefined);
      return;
    }
    for (const [index, operation] of operations.entries()) {
      const { rowKey, base, leavesTombstone, action } = operation;
      const etag = etags[index];
      if (etag === undefined || action[0] === "upsert") {
        this.#rows.delete(rowKey);
        continue;
      }
      const journal = journals.get(operation);
      const journaled = journal ? rowJournal(journal) : { journal: base.journal, journalValue: base.journalValue };
      this.#rows.set(rowKey, { stored: batch.view.current(rowKey), etag, ...journaled });
      if (leavesTombstone) addTombstone(operation, etag);
      else this.#tombstones.delete(rowKey);
    }
  }

  async #cleanUp(): Promise<void> {
    this.#rows = new Map();
    await this.#tombstones.clear();
  }

  #rowOptions(calls: readonly TransactionCall[]): RowOptions {
    const { abortSignal, tryLimit, tracingOptions, onRequest } = this.requestFor(calls, undefined, defaultJournalName);
    return { abortSignal: nativeSignal(abortSignal), tryLimit, onRequest, ...(tracingOptions && { tracingOptions }) };
  }
}

function rowJournal(journal: Journal): Pick<Row, "journal" | "journalValue"> {
  return { journal, journalValue: { type: "String", value: formatJournal(journal) } };
}
