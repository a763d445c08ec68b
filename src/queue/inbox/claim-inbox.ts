import type { AdapterRequest, CallOptions, PurgeResult } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import type { TableLike } from "../../clients/table.js";
import { startStopwatch } from "../../core/deadline.js";
import { isConcurrencyError } from "../../errors.js";
import { isBadRequest } from "../../core/storage-errors.js";
import { errorLabel, logger } from "../../core/telemetry.js";
import { checkNumber, checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { tableUrl } from "../../target/stored-entity.js";
import { ClaimWrite } from "./claim-write.js";
import type { ClaimOutcome, ClaimTarget, RecordTarget } from "./claim-write.js";
import { groupRowKeyOf } from "./group-row.js";
import type { GroupRow } from "./group-row.js";
import { getGroup, skipSequence } from "./groups.js";
import type { InboxGroupInfo } from "./groups.js";
import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "./inbox.js";
import { checkTable, forgetRecord, getRecord, prepareTable, recordedShards } from "./inbox-table.js";
import type { ClaimRecordOptions, InboxOptions, InboxPlace, InboxRecordInfo } from "./inbox-table.js";
import { purgeRecords } from "./purge.js";
import type { PurgeInboxOptions } from "./purge.js";
import { ownerIdOf, queueIdentityOf, rowKeyOf } from "./record.js";
import { checkShards, compareShards, maxShards, shardOf, shardsMarker } from "./shards.js";
import { TransitionWrite } from "./transition-write.js";
import type { HeldClaim, HeldGroup } from "./transition-write.js";
import { submitWrites, WriteBatcher } from "./write-batcher.js";

/** Options of {@link ClaimInbox}. */
export interface ClaimInboxOptions extends InboxOptions {
  /**
   * Over how many partitions the records of a queue are spread. The service serves 2,000 entity operations a second in each, and a
   * message takes 3 of them with its purge, or 5 with a group. All consumers of the table must have the same number. The
   * first one records it, and then no other one can start with another number. 1 to 256.
   * @defaultValue 1: enough for about 650 messages a second, and the fewest requests
   */
  shards?: number | undefined;
}

const names: OptionNames<ClaimInboxOptions> = { createTable: 1, shards: 1 };

/** How many groups are remembered as this process has left them. */
const maxKnownGroups = 1_000;

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
 * between them. It limits a queue to about 650 messages a second: see {@link ClaimInboxOptions.shards}.
 *
 * A message with a group is claimed together with its group, in the same transaction: at most one handler of a group runs at a time.
 * @example
 * ```ts
 * const consumer = new QueueConsumer(queue, handler, { inbox: new ClaimInbox(table) });
 * ```
 */
export class ClaimInbox implements Inbox {
  readonly #table: TableLike;
  readonly #createTable: boolean;
  readonly #shards: number;
  readonly #place: InboxPlace;
  #shardsChecked = false;
  readonly #consumer = crypto.randomUUID();
  readonly #batchers = new Map<string, WriteBatcher>();
  /** The rows of groups with a sequence, by partition and row key, as this process has left them. */
  readonly #knownGroups = new Map<string, GroupRow>();
  /** The rows of groups that another consumer had when this process last read them. */
  readonly #heldElsewhere = new Set<string>();

  /**
   * Sends no request. Several consumers, also of different queues and accounts, can share the table.
   * @throws `TypeError` if `table` is not a table client, or an option is unknown.
   * @throws `RangeError` if `shards` is not a whole number of 1 to 256.
   */
  constructor(table: TableLike, options: ClaimInboxOptions = {}) {
    checkOptions("ClaimInbox", options, names);
    this.#table = checkTable("ClaimInbox", table);
    this.#createTable = options.createTable ?? false;
    this.#shards = checkNumber("shards", options.shards ?? 1, { min: 1, max: maxShards, integer: true });
    this.#place = { table, shards: this.#shards, checkShards: (call) => this.#compareShards(call) };
  }

  /**
   * Called by the consumer. Creates the table if `createTable` is set; otherwise checks that it exists. Then checks the number of shards.
   * Costs 1 request, 1 more with `createTable`, and 1 more for the first consumer of a table, which records the number.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws {@link LockModeMismatchError} if other consumers of the table have another number of shards.
   * @throws `RestError` if the table cannot be created or read.
   */
  async prepare(request: AdapterRequest): Promise<void> {
    const marker = await prepareTable(this.#table, this.#createTable, request, shardsMarker);
    await checkShards(this.#table, this.#shards, marker, request);
    this.#shardsChecked = true;
  }

  /**
   * Called by the consumer. Costs 1 request for a batch of new keys (for each shard of them), with and without groups, and more if keys
   * have a record already or groups are held. With `order: "sequence"`, 1 read for each group whose last message another process completed.
   * @throws `RestError` if the table does not exist, or the service rejects a request.
   */
  async claim(deliveries: readonly InboxDelivery[], { abortSignal }: AdapterRequest): Promise<readonly InboxClaimResult[]> {
    const [first] = deliveries;
    if (!first) return [];
    const clock = startStopwatch();
    const writes = new Map<InboxDelivery, ClaimWrite>();
    const partitions = new Map<string, ClaimWrite[]>();
    const rows = new Set<string>();
    for (const delivery of deliveries) {
      const { partitionKey, rowKey, groupRowKey } = await this.#keysOf(delivery);
      const own = [rowKey, groupRowKey].filter((key) => key !== undefined).map((key) => rowIdOf(partitionKey, key));
      // Of messages that share a key or a group, the first one is claimed.
      if (own.some((id) => rows.has(id))) continue;
      for (const id of own) rows.add(id);
      const groupId = groupRowKey === undefined ? "" : rowIdOf(partitionKey, groupRowKey);
      const [knownGroup, isHeldElsewhere] = [this.#knownGroups.get(groupId), this.#heldElsewhere.has(groupId)];
      const write = new ClaimWrite({ partitionKey, rowKey, owner: ownerIdOf(this.#consumer, delivery), delivery, groupRowKey, knownGroup, isHeldElsewhere, clock });
      writes.set(delivery, write);
      partitions.set(partitionKey, [...(partitions.get(partitionKey) ?? []), write]);
    }
    const rejections: unknown[] = [];
    const submit = async ([partitionKey, some]: [string, readonly ClaimWrite[]]): Promise<void> => {
      try {
        await submitWrites(this.#table, partitionKey, some, timeoutOf(first), abortSignal);
      } catch (error) {
        if (!isBadRequest(error) && !isConcurrencyError(error, "SCHEMA")) throw error;
        rejections.push(error);
      }
    };
    await Promise.all([...partitions].map(submit));
    // A row that the service does not accept, or that a later version of the library has written, says nothing about the others. If it is alone, the consumer gets to know.
    if (rejections.length > 0 && ![...writes.values()].some(({ settled }) => settled)) throw rejections[0];
    for (const error of rejections) logger.warning(`some keys cannot be claimed in the inbox ${tableUrl(this.#table)}: ${errorLabel(error)}`);
    return deliveries.map((delivery) => {
      const write = writes.get(delivery);
      return write?.settled ? this.#resultOf(write) : { kind: "busy", retryAfterInMs: delivery.claimDurationInMs };
    });
  }

  /**
   * What is recorded of a key; undefined if nothing is. Costs 1 request; with `shards`, and without the option `group`, 1 for each shard.
   * The first call of this object costs 1 more, unless a consumer has used it: it checks the number of shards.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   * @throws {@link LockModeMismatchError} if the consumers of the table have another number of shards.
   */
  get(queue: QueueLike, idempotencyKey: string, options: ClaimRecordOptions = {}): Promise<InboxRecordInfo | undefined> {
    return getRecord("ClaimInbox.get", this.#place, queue, idempotencyKey, options);
  }

  /**
   * Deletes the record of a key: the next message with this key takes effect, again if it did before. Returns whether there was
   * one. Costs 2 requests; with `shards`, and without the option `group`, 1 for each shard and 1.
   * The first call costs 1 more, as with {@link ClaimInbox.get}.
   * @throws {@link ConflictError} if the key is claimed, as a handler may be running, until 15 minutes after the claim has expired.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   * @throws {@link CommitUnknownError} if the delete gets no response.
   * @throws {@link LockModeMismatchError} if the consumers of the table have another number of shards.
   */
  forget(queue: QueueLike, idempotencyKey: string, options: ClaimRecordOptions = {}): Promise<boolean> {
    return forgetRecord("ClaimInbox.forget", this.#place, queue, idempotencyKey, options);
  }

  /**
   * What is recorded of a group; undefined if nothing is: no handler has it, and none of its messages had a sequence. Costs 1 request.
   * The first call costs 1 more, as with {@link ClaimInbox.get}.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   * @throws {@link LockModeMismatchError} if the consumers of the table have another number of shards.
   */
  getGroup(queue: QueueLike, group: string, options: CallOptions = {}): Promise<InboxGroupInfo | undefined> {
    return getGroup("ClaimInbox.getGroup", this.#place, queue, group, options);
  }

  /**
   * For consumers with `order: "sequence"`: sets the last sequence of a group, so that the message after it may start. To be called by
   * an operator, if a message of the group will never be completed, or to begin a group with another sequence than 1. A message that was
   * skipped, and arrives later, is moved to the poison queue. Returns whether it was set: false if the last sequence is not lower already. Costs 2 requests,
   * and 3 after a crash. The first call costs 1 more, as with {@link ClaimInbox.get}.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   * @throws {@link ConflictError} if a handler has the group, until 15 minutes after its claim has expired, or another process has changed the group at the same time.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   * @throws {@link CommitUnknownError} if the write gets no response. Call it again.
   * @throws {@link LockModeMismatchError} if the consumers of the table have another number of shards.
   */
  skip(queue: QueueLike, group: string, sequence: number, options: CallOptions = {}): Promise<boolean> {
    return skipSequence("ClaimInbox.skip", this.#place, queue, group, sequence, options);
  }

  /**
   * Deletes old records of claims and commits, page by page. Safe to call while consumers run, by one process at a time: claims whose handlers may be
   * running are kept.
   * @throws `RangeError` if `olderThanInMs` is negative.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws {@link OperationTimeoutError} if a request gets no response within a minute.
   */
  purge(options?: PurgeInboxOptions): Promise<PurgeResult> {
    return purgeRecords("ClaimInbox.purge", this.#table, options);
  }

  /** Once, unless no consumer has started yet. */
  async #compareShards(call: CallOptions): Promise<void> {
    if (this.#shardsChecked) return;
    const shards = await recordedShards(this.#table, call);
    if (shards === undefined) return;
    compareShards(this.#table, this.#shards, { shards });
    this.#shardsChecked = true;
  }

  async #keysOf({ queueUrl, idempotencyKey, group }: InboxDelivery): Promise<Pick<ClaimTarget, "partitionKey" | "rowKey" | "groupRowKey">> {
    const queue = queueIdentityOf(queueUrl);
    const partitionKey = shardOf(queue, this.#shards, idempotencyKey, group);
    return { partitionKey, rowKey: await rowKeyOf(queue, idempotencyKey), groupRowKey: group === undefined ? undefined : await groupRowKeyOf(queue, group) };
  }

  #resultOf({ result, target }: ClaimWrite): InboxClaimResult {
    if (target.groupRowKey !== undefined) this.#noteHolder(rowIdOf(target.partitionKey, target.groupRowKey), result.kind === "busy");
    return this.#claimResultOf(target, target.groupRowKey, result);
  }

  /** A delivery that waits for its group is claimed again and again: a read for each of these costs less than a conflict. */
  #noteHolder(groupId: string, isHeldElsewhere: boolean): void {
    this.#heldElsewhere.delete(groupId);
    if (isHeldElsewhere) this.#heldElsewhere.add(groupId);
    forgetOldest(this.#heldElsewhere);
  }

  #claimResultOf({ partitionKey, rowKey, owner, delivery }: RecordTarget, groupRowKey: string | undefined, result: ClaimOutcome): InboxClaimResult {
    if (result.kind !== "claimed") return result;
    const { messageId, dequeueCount, payloadHash, claimDurationInMs } = delivery;
    const record = { owner, messageId, dequeueCount, payloadHash, failures: result.failures, claims: result.claims, claimDurationInMs };
    const group = groupRowKey === undefined ? undefined : this.#heldGroup(partitionKey, groupRowKey, delivery.sequence, result.groupStays);
    const held: HeldClaim = { partitionKey, rowKey, record, etag: result.etag, ended: undefined, group };
    return { kind: "claimed", claim: this.#claimOf(held, this.#batcherOf(partitionKey, delivery)) };
  }

  #heldGroup(partitionKey: string, rowKey: string, sequence: number | undefined, stays: boolean): HeldGroup {
    const id = rowIdOf(partitionKey, rowKey);
    const onCompleted = (etag: string): void => {
      this.#knownGroups.delete(id);
      this.#knownGroups.set(id, { ...freeGroup, lastSequence: sequence, etag });
      forgetOldest(this.#knownGroups);
    };
    return { rowKey, sequence, stays, onCompleted };
  }

  #claimOf(held: HeldClaim, batcher: WriteBatcher): InboxClaim {
    const transition = async (write: TransitionWrite, { abortSignal }: AdapterRequest): Promise<boolean> => {
      await batcher.add(write, abortSignal);
      return write.succeeded;
    };
    return {
      failures: held.record.failures,
      claims: held.record.claims,
      renew: async (request) => ((await transition(new TransitionWrite(held, "claimed"), request)) ? "renewed" : "lost"),
      complete: async (request) => ((await transition(new TransitionWrite(held, "done"), request)) ? "completed" : "lost"),
      completeAndClaim: async (delivery, request) => {
        const clock = startStopwatch();
        const { groupRowKey, ...keys } = await this.#keysOf(delivery);
        const next = { ...keys, owner: ownerIdOf(this.#consumer, delivery), delivery, clock };
        const write = new TransitionWrite(held, "done", { next: groupRowKey === held.group?.rowKey && mayFollow(held, next) ? next : undefined });
        if (!(await transition(write, request))) return "lost";
        return { next: write.next && this.#claimResultOf(next, groupRowKey, write.next) };
      },
      release: async (failed, request) => {
        await transition(new TransitionWrite(held, "released", { failed }), request);
      },
    };
  }

  #batcherOf(partitionKey: string, delivery: InboxDelivery): WriteBatcher {
    let batcher = this.#batchers.get(partitionKey);
    if (!batcher) this.#batchers.set(partitionKey, (batcher = new WriteBatcher(this.#table, partitionKey, timeoutOf(delivery))));
    return batcher;
  }
}

/** Of another key: a transaction may contain each row once. Of the same partition: the shard is that of the group. */
function mayFollow({ rowKey, group }: HeldClaim, next: RecordTarget): boolean {
  const { sequence } = next.delivery;
  return group !== undefined && next.rowKey !== rowKey && sequence === (group.sequence === undefined ? undefined : group.sequence + 1);
}

function forgetOldest(known: Pick<Map<string, unknown>, "size" | "delete"> & { keys(): Iterable<string> }): void {
  for (const oldest of known.keys()) {
    if (known.size <= maxKnownGroups) break;
    known.delete(oldest);
  }
}

const freeGroup = { state: "released", owner: "", messageId: "", dequeueCount: 0, recordRowKey: "", claimDurationInMs: 0, writtenAt: 0 } as const;

function rowIdOf(partitionKey: string, rowKey: string): string {
  return JSON.stringify([partitionKey, rowKey]);
}

/** A request that takes longer than this would leave too little of the visibility timeout, which is half of the claim's duration. */
function timeoutOf(delivery: InboxDelivery): number {
  return Math.min(10_000, delivery.claimDurationInMs / 8);
}
