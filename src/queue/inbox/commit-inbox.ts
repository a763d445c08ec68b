import type { AdapterRequest, PurgeResult } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import type { TableAction, TableLike } from "../../clients/table.js";
import { checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { runWithReceipt } from "../../transaction/run-transaction.js";
import type { ReceiptTransactionOptions } from "../../transaction/run-transaction.js";
import type { TransactionRun } from "../../transaction/transaction-run.js";
import { actionsBesideRecord, commitOnce, outgoingOf } from "./commit-once.js";
import type { InboxCommitResult, KeyRecord } from "./commit-once.js";
import type { InboxDelivery } from "./inbox.js";
import { checkTable, forgetRecord, getRecord, prepareTable } from "./inbox-table.js";
import type { CommitRecordOptions, InboxOptions, InboxRecordInfo } from "./inbox-table.js";
import { purgeRecords } from "./purge.js";
import type { PurgeInboxOptions } from "./purge.js";
import { ownerIdOf, queueIdentityOf, readRecord, rowKeyOf } from "./record.js";
import type { StoredMessage } from "./stored-outgoing.js";
import { transactOnce } from "./transact-once.js";
import type { InboxTransaction } from "./transact-once.js";

const names: OptionNames<InboxOptions> = { createTable: 1 };

/** One attempt of a handler to commit. `call` counts the attempts of one delivery. */
export interface CommitAttempt {
  readonly delivery: InboxDelivery;
  readonly call: number;
  readonly partitionKey: string;
}

const readTimeoutInMs = 30_000;

/** `"duplicate"`: the key was committed before, and nothing was written now. See {@link CommitInbox}. */
export type CommitResult = "committed" | "duplicate";

/**
 * Commits the effect of a message and the record that it took effect in one transaction: exactly once. The handler calls
 * `context.commit(actions)` or `context.transaction(fn)`, and the record is written with its entities, and so into the same table and
 * partition, with a row key that begins with `~asc~inbox!`. Handlers of duplicates do run, until their commit returns `"duplicate"`.
 *
 * Records are kept until {@link CommitInbox.purge} is called, from time to time, by any process. A duplicate that arrives after its
 * record was purged takes effect again.
 * @example
 * ```ts
 * const consumer = new QueueConsumer(
 *   queue,
 *   (order: Order, context) => context.commit([["create", { rowKey: order.id, total: order.total }]]),
 *   { inbox: new CommitInbox(table), partitionOf: (order) => order.customer },
 * );
 * ```
 */
export class CommitInbox {
  /** Distinguishes it from an inbox that claims keys. */
  readonly commits = true as const;
  readonly #table: TableLike;
  readonly #createTable: boolean;
  readonly #consumer = crypto.randomUUID();

  /**
   * Sends no request.
   * @param table - The table of the entities that the handlers write.
   * @throws `TypeError` if `table` is not a table client, or an option is unknown.
   */
  constructor(table: TableLike, options: InboxOptions = {}) {
    checkOptions("CommitInbox", options, names);
    this.#table = checkTable("CommitInbox", table);
    this.#createTable = options.createTable ?? false;
  }

  /**
   * Called by the consumer. Creates the table if `createTable` is set; otherwise checks that it exists. Costs 1 request.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws `RestError` if the table cannot be created or read.
   */
  async prepare(request: AdapterRequest): Promise<void> {
    await prepareTable(this.#table, this.#createTable, request);
  }

  /**
   * What is recorded of a key in the partition of the effect; undefined if nothing is. Costs 1 request.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   */
  get(queue: QueueLike, idempotencyKey: string, options: CommitRecordOptions): Promise<InboxRecordInfo | undefined> {
    return getRecord("CommitInbox.get", { table: this.#table, shards: undefined }, queue, idempotencyKey, options);
  }

  /**
   * Deletes the record of a key in the partition of the effect: the next message with this key takes effect, again if it did before. Returns whether there was
   * one. Costs 2 requests.
   * @throws {@link ConflictError} if the key is claimed, as a handler may be running, until 15 minutes after the claim has expired.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   * @throws {@link CommitUnknownError} if the delete gets no response.
   */
  forget(queue: QueueLike, idempotencyKey: string, options: CommitRecordOptions): Promise<boolean> {
    return forgetRecord("CommitInbox.forget", { table: this.#table, shards: undefined }, queue, idempotencyKey, options);
  }

  /**
   * Deletes old records of claims and commits, page by page. Safe to call while consumers run, by one process at a time: claims whose handlers may be
   * running are kept.
   * @throws `RangeError` if `olderThanInMs` is negative.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws {@link OperationTimeoutError} if a request gets no response within a minute.
   */
  purge(options?: PurgeInboxOptions): Promise<PurgeResult> {
    return purgeRecords("CommitInbox.purge", this.#table, options);
  }

  /** @internal Writes the actions, and what is to be sent, if the key was not committed before. */
  async commit(attempt: CommitAttempt, actions: readonly TableAction[], outgoing: readonly StoredMessage[], request: AdapterRequest): Promise<InboxCommitResult> {
    const prepared = actionsBesideRecord(attempt.partitionKey, actions);
    return commitOnce(this.#table, { ...(await this.#recordOf(attempt)), actions: prepared, outgoing }, request);
  }

  /** @internal Runs the function in a transaction that contains the record, unless the key was committed before. */
  async transact(attempt: CommitAttempt, fn: InboxTransaction["fn"], options: ReceiptTransactionOptions, request: AdapterRequest): Promise<InboxCommitResult & { readonly value: unknown }> {
    const isRedelivery = attempt.call > 1 || attempt.delivery.dequeueCount > 1;
    return transactOnce(this.#table, { ...(await this.#recordOf(attempt)), fn, isRedelivery }, options, request);
  }

  /** @internal Runs the function without a commit: for the queues that it names. Its failure does not matter: it has been committed before. */
  async tryOut(partitionKey: string, fn: InboxTransaction["fn"], request: AdapterRequest): Promise<void> {
    const run = async (tx: TransactionRun): Promise<never> => {
      await fn(tx);
      throw new Error("not to be committed");
    };
    await runWithReceipt("transaction", this.#table, partitionKey, run, undefined, request).catch(() => undefined);
  }

  /** @internal What an earlier delivery has committed and has to send. */
  async outgoing(attempt: CommitAttempt, { abortSignal }: AdapterRequest): Promise<readonly StoredMessage[]> {
    const { partitionKey, rowKey } = await this.#recordOf(attempt);
    const found = await readRecord(this.#table, partitionKey, rowKey, readTimeoutInMs, abortSignal);
    return found ? outgoingOf(this.#table, found) : [];
  }

  async #recordOf({ delivery, call, partitionKey }: CommitAttempt): Promise<KeyRecord> {
    const { messageId, dequeueCount, payloadHash, idempotencyKey, queueUrl } = delivery;
    const record = { owner: `${ownerIdOf(this.#consumer, delivery)}/${call}`, messageId, dequeueCount, payloadHash };
    return { partitionKey, rowKey: await rowKeyOf(queueIdentityOf(queueUrl), idempotencyKey), idempotencyKey, record };
  }
}
