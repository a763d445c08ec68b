import type { AdapterRequest, CallOptions, PurgeResult } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import type { TableLike } from "../../clients/table.js";
import { startStopwatch } from "../../core/deadline.js";
import { checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "./inbox.js";
import { checkTable, forgetRecord, getRecord, prepareTable } from "./inbox-table.js";
import type { InboxOptions, InboxRecordInfo } from "./inbox-table.js";
import { purgeRecords } from "./purge.js";
import type { PurgeInboxOptions } from "./purge.js";
import { ownerIdOf, queueIdentityOf, readRecord, rowKeyOf } from "./record.js";
import { ClaimWrite, TransitionWrite } from "./transition-write.js";
import type { HeldClaim } from "./transition-write.js";
import { maxGroup, submitWrites, WriteBatcher } from "./write-batcher.js";

const names: OptionNames<InboxOptions> = { createTable: 1 };

/**
 * An inbox in a table that claims each key before its handler starts. A received batch is claimed in one transaction, and
 * completed in few. No two handlers process the same key at the same time, and none a key that is completed; a handler that
 * crashed midway is run again.
 *
 * Records are kept until {@link ClaimInbox.purge} is called, from time to time, by any process. A duplicate that arrives after its
 * record was purged takes effect again: raise `olderThanInMs` if messages live longer than 7 days, or if producers send duplicates
 * later than that.
 *
 * All claims of a queue are in one partition, whatever the day: two messages with the same key are recognised even if midnight is
 * between them. It limits a queue to about 1,000 messages a second, which is half of what a queue can do.
 * @example
 * ```ts
 * const consumer = new QueueConsumer(queue, handler, { inbox: new ClaimInbox(table) });
 * ```
 */
export class ClaimInbox implements Inbox {
  readonly #table: TableLike;
  readonly #createTable: boolean;
  readonly #consumer = crypto.randomUUID();
  readonly #batchers = new Map<string, WriteBatcher>();

  /**
   * Sends no request. Several consumers, also of different queues and accounts, can share the table.
   * @throws `TypeError` if `table` is not a table client, or an option is unknown.
   */
  constructor(table: TableLike, options: InboxOptions = {}) {
    checkOptions("ClaimInbox", options, names);
    this.#table = checkTable("ClaimInbox", table);
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
   * Called by the consumer. Costs 1 request for a batch of new keys, and more if keys have a record already.
   * @throws `RestError` if the table does not exist, or the service rejects a request.
   */
  async claim(deliveries: readonly InboxDelivery[], { abortSignal }: AdapterRequest): Promise<readonly InboxClaimResult[]> {
    const [first] = deliveries;
    if (!first) return [];
    const clock = startStopwatch();
    const partitionKey = queueIdentityOf(first.queueUrl);
    const timeoutInMs = timeoutOf(first);
    const writes = new Map<InboxDelivery, ClaimWrite>();
    const rows = new Set<string>();
    for (const delivery of deliveries) {
      const rowKey = await rowKeyOf(partitionKey, delivery.idempotencyKey);
      // A transaction may contain each row once: of messages that share a key, the first one is claimed.
      if (rows.has(rowKey)) continue;
      rows.add(rowKey);
      writes.set(delivery, new ClaimWrite(partitionKey, rowKey, ownerIdOf(this.#consumer, delivery), delivery, clock));
    }
    const group = [...writes.values()];
    // A message that was delivered before is likely to have a record: reading it first avoids the conflict.
    const redelivered = [...writes].filter(([delivery]) => delivery.dequeueCount > 1);
    await Promise.all(
      redelivered.map(async ([, write]) => write.found(await readRecord(this.#table, partitionKey, write.rowKey, timeoutInMs, abortSignal))),
    );
    for (let i = 0; i < group.length; i += maxGroup) {
      await submitWrites(this.#table, partitionKey, group.slice(i, i + maxGroup), timeoutInMs, abortSignal);
    }
    return deliveries.map((delivery) => {
      const write = writes.get(delivery);
      return write ? this.#resultOf(write, partitionKey, delivery) : { kind: "busy", retryAfterInMs: delivery.claimDurationInMs };
    });
  }

  /**
   * What is recorded of a key; undefined if nothing is. Costs 1 request.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   */
  get(queue: QueueLike, idempotencyKey: string, options: CallOptions = {}): Promise<InboxRecordInfo | undefined> {
    return getRecord("ClaimInbox.get", false, this.#table, queue, idempotencyKey, options);
  }

  /**
   * Deletes the record of a key: the next message with this key takes effect, again if it did before. Returns whether there was
   * one. Costs 2 requests.
   * @throws {@link ConflictError} if the key is claimed, as a handler may be running, until 15 minutes after the claim has expired.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   * @throws {@link CommitUnknownError} if the delete gets no response.
   */
  forget(queue: QueueLike, idempotencyKey: string, options: CallOptions = {}): Promise<boolean> {
    return forgetRecord("ClaimInbox.forget", false, this.#table, queue, idempotencyKey, options);
  }

  /**
   * Deletes old records of claims and commits, page by page. Safe to call while consumers run, by one process at a time: claims whose handlers may be
   * running are kept.
   * @throws `RangeError` if `olderThanInMs` is negative.
   * @throws {@link OperationTimeoutError} if a request gets no response within a minute.
   */
  purge(options?: PurgeInboxOptions): Promise<PurgeResult> {
    return purgeRecords("ClaimInbox.purge", this.#table, options);
  }

  #resultOf(write: ClaimWrite, partitionKey: string, delivery: InboxDelivery): InboxClaimResult {
    const { result } = write;
    if (result.kind !== "claimed") return result;
    const { messageId, dequeueCount, payloadHash, claimDurationInMs } = delivery;
    const record = { owner: write.owner, messageId, dequeueCount, payloadHash, failures: result.failures, claimDurationInMs };
    const held: HeldClaim = { partitionKey, rowKey: write.rowKey, record, etag: result.etag, ended: false };
    return { kind: "claimed", claim: claimOf(held, this.#batcherOf(partitionKey, delivery)) };
  }

  #batcherOf(partitionKey: string, delivery: InboxDelivery): WriteBatcher {
    let batcher = this.#batchers.get(partitionKey);
    if (!batcher) this.#batchers.set(partitionKey, (batcher = new WriteBatcher(this.#table, partitionKey, timeoutOf(delivery))));
    return batcher;
  }
}

function claimOf(held: HeldClaim, batcher: WriteBatcher): InboxClaim {
  const transition = async (write: TransitionWrite, { abortSignal }: AdapterRequest): Promise<boolean> => {
    await batcher.add(write, abortSignal);
    return write.succeeded;
  };
  return {
    failures: held.record.failures,
    renew: async (request) => ((await transition(new TransitionWrite(held, "claimed"), request)) ? "renewed" : "lost"),
    complete: async (request) => ((await transition(new TransitionWrite(held, "done"), request)) ? "completed" : "lost"),
    release: async (failed, request) => {
      await transition(new TransitionWrite(held, "released", failed), request);
    },
  };
}

/** A request that takes longer than this would leave too little of the visibility timeout, which is half of the claim's duration. */
function timeoutOf(delivery: InboxDelivery): number {
  return Math.min(10_000, delivery.claimDurationInMs / 8);
}
