import type { AdapterRequest, PurgeResult } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import type { TableAction, TableLike } from "../../clients/table.js";
import { actionsIn } from "../../core/table-action.js";
import { checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { commitOnce } from "./commit-once.js";
import type { InboxDelivery } from "./inbox.js";
import { checkTable, forgetRecord, getRecord, prepareTable } from "./inbox-table.js";
import type { CommitRecordOptions, InboxOptions, InboxRecordInfo } from "./inbox-table.js";
import { purgeRecords } from "./purge.js";
import type { PurgeInboxOptions } from "./purge.js";
import { ownerIdOf, queueIdentityOf, rowKeyOf } from "./record.js";
import { maxGroup } from "./write-batcher.js";

const names: OptionNames<InboxOptions> = { createTable: 1 };

/** `"duplicate"`: the key was committed before, and nothing was written now. See {@link CommitInbox}. */
export type CommitResult = "committed" | "duplicate";

/**
 * Commits the effect of a message and the record that it took effect in one transaction: exactly once. The handler calls
 * `context.commit(actions)`, and the record is written with its entities, and so into the same table and partition, with a row key
 * that begins with `~asc~inbox!`. Handlers of duplicates do run, until their commit returns `"duplicate"`.
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
  prepare(request: AdapterRequest): Promise<void> {
    return prepareTable(this.#table, this.#createTable, request);
  }

  /**
   * What is recorded of a key in the partition of the effect; undefined if nothing is. Costs 1 request.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   */
  get(queue: QueueLike, idempotencyKey: string, options: CommitRecordOptions): Promise<InboxRecordInfo | undefined> {
    return getRecord("CommitInbox.get", true, this.#table, queue, idempotencyKey, options);
  }

  /**
   * Deletes the record of a key in the partition of the effect: the next message with this key takes effect, again if it did before. Returns whether there was
   * one. Costs 2 requests.
   * @throws {@link ConflictError} if the key is claimed, as a handler may be running, until 15 minutes after the claim has expired.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   * @throws {@link CommitUnknownError} if the delete gets no response.
   */
  forget(queue: QueueLike, idempotencyKey: string, options: CommitRecordOptions): Promise<boolean> {
    return forgetRecord("CommitInbox.forget", true, this.#table, queue, idempotencyKey, options);
  }

  /**
   * Deletes old records of claims and commits, page by page. Safe to call while consumers run, by one process at a time: claims whose handlers may be
   * running are kept.
   * @throws `RangeError` if `olderThanInMs` is negative.
   * @throws {@link OperationTimeoutError} if a request gets no response within a minute.
   */
  purge(options?: PurgeInboxOptions): Promise<PurgeResult> {
    return purgeRecords("CommitInbox.purge", this.#table, options);
  }

  /** @internal Writes the actions if the key was not committed before. `call` counts the calls of one handler. */
  async commit(delivery: InboxDelivery, call: number, partitionKey: string, actions: readonly TableAction[], request: AdapterRequest): Promise<CommitResult> {
    const prepared = actionsIn(partitionKey, actions, "commit");
    // The record itself is the hundredth action.
    if (actions.length >= maxGroup) throw new RangeError(`commit: at most ${maxGroup - 1} actions fit into a transaction with the record; got ${actions.length}`);
    const { messageId, dequeueCount, payloadHash, idempotencyKey } = delivery;
    const record = { owner: `${ownerIdOf(this.#consumer, delivery)}/${call}`, messageId, dequeueCount, payloadHash };
    const rowKey = await rowKeyOf(queueIdentityOf(delivery.queueUrl), idempotencyKey);
    return commitOnce(this.#table, { partitionKey, rowKey, idempotencyKey, record, actions: prepared }, request);
  }
}
