import type { CallOptions } from "../../clients/call.js";
import type { TransactionActionLike, TableLike } from "../../clients/table.js";
import { startStopwatch } from "../../core/stopwatch.js";
import type { Clock } from "../../core/stopwatch.js";
import { withSpan } from "../../core/telemetry.js";
import { checkOneOf } from "../../core/validate.js";
import { commitOnce } from "./commit.js";
import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "./inbox.js";
import { purgeRecords } from "./purge.js";
import { ownerIdOf, readRecord, rowKeyOf } from "./record.js";
import { ClaimWrite, TransitionWrite } from "./transition-write.js";
import type { HeldClaim } from "./transition-write.js";
import { maxGroup, submitWrites, WriteBatcher } from "./write-batcher.js";

/** Options of {@link TableInbox}. */
export interface TableInboxOptions {
  /** See {@link TableInbox}. @defaultValue "claim" */
  mode?: "claim" | "commit" | undefined;
  /** Creates the table when a consumer starts, if it does not exist. @defaultValue false */
  createTable?: boolean | undefined;
}

/** Options of {@link TableInbox.purge}. */
export interface PurgeOptions extends CallOptions {
  /** Records that were last written before are removed. @defaultValue 8 days ago: a message lives 7 unless its sender says otherwise */
  olderThan?: Date | undefined;
  /** Only records of this queue's claims, or of this partition's commits. @defaultValue all in the table */
  partitionKey?: string | undefined;
}

/**
 * An inbox in a table.
 *
 * Mode `"claim"`: a record for each key, in one partition for each queue. A received batch is claimed in one transaction before the
 * handlers start, and completed in few. No two handlers process the same key at the same time, and none a key that is done; a
 * handler that crashed midway is run again.
 *
 * Mode `"commit"`: the handler calls `context.commit(partitionKey, actions)`, and the record is written in the same transaction as
 * its own entities, and so into the same table and partition, with a row key that begins with `inbox!`. The entities are written
 * exactly once. Handlers of duplicates do run, until their commit returns `"duplicate"`.
 *
 * Records are kept until {@link TableInbox.purge} is called, from time to time, by any process. A duplicate that arrives after its
 * record was purged takes effect again: raise `olderThan` if messages live longer than 7 days, or if producers send duplicates
 * later than that.
 *
 * All claims of a queue are in one partition, whatever the day: two messages with the same key are recognised even if midnight is
 * between them. It limits a queue to about 1,000 messages a second, which is half of what a queue can do.
 */
export class TableInbox implements Inbox {
  readonly mode: "claim" | "commit";
  readonly #table: TableLike;
  readonly #createTable: boolean;
  readonly #consumer = crypto.randomUUID();
  readonly #batchers = new Map<string, WriteBatcher>();

  constructor(table: TableLike, options: TableInboxOptions = {}) {
    this.#table = table;
    this.mode = checkOneOf("mode", options.mode ?? "claim", ["claim", "commit"]);
    this.#createTable = options.createTable ?? false;
  }

  async prepare(options: CallOptions = {}): Promise<void> {
    if (!this.#createTable) return;
    await this.#table.createTable(options.abortSignal ? { abortSignal: options.abortSignal as AbortSignal } : {});
  }

  async claim(deliveries: readonly InboxDelivery[], { abortSignal }: CallOptions = {}): Promise<InboxClaimResult[]> {
    const [first] = deliveries;
    if (!first) return [];
    const partitionKey = first.queue;
    const timeoutInMs = timeoutOf(first);
    const writes = new Map<InboxDelivery, ClaimWrite>();
    const rows = new Set<string>();
    for (const delivery of deliveries) {
      const rowKey = await rowKeyOf(delivery.queue, delivery.key);
      // A transaction may contain each row once: of messages that share a key, the first one is claimed.
      if (rows.has(rowKey)) continue;
      rows.add(rowKey);
      writes.set(delivery, new ClaimWrite(partitionKey, rowKey, ownerIdOf(this.#consumer, delivery), delivery));
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
      return write ? this.#outcomeOf(write, delivery) : { kind: "busy", forInMs: delivery.visibilityInMs };
    });
  }

  #outcomeOf(write: ClaimWrite, delivery: InboxDelivery): InboxClaimResult {
    const { result } = write;
    if (result.kind !== "claimed") return result;
    const { messageId, dequeueCount } = delivery;
    const { etag, attempts, claimDurationInMs } = result;
    const record = { owner: write.owner, messageId, dequeueCount, attempts, claimDurationInMs };
    const held: HeldClaim = { partitionKey: delivery.queue, rowKey: write.rowKey, record, etag, ended: false };
    return { kind: "claimed", claim: this.#claimOf(held, delivery) };
  }

  #claimOf(held: HeldClaim, delivery: InboxDelivery): InboxClaim {
    const batcher = this.#batcherOf(delivery);
    const transition = async (to: "claimed" | "done" | "released"): Promise<boolean> => {
      const write = new TransitionWrite(held, to);
      await batcher.add(write);
      return write.succeeded;
    };
    const { attempts, claimDurationInMs } = held.record;
    // The next extension may find that one without a response was committed: the time counts from the first one.
    let clock: Clock | undefined;
    return {
      attempts,
      claimDurationInMs,
      // However long the claim took: it cannot have been written before the message was received.
      clock: delivery.clock,
      extend: async () => {
        clock ??= startStopwatch();
        const started = clock;
        if (!(await transition("claimed"))) return { kind: "lost", error: new Error("the inbox record was taken over") };
        clock = undefined;
        return { kind: "renewed", clock: started, claimDurationInMs };
      },
      complete: () => transition("done"),
      release: async () => {
        await transition("released");
      },
      abandon: () => batcher.abandon(held),
    };
  }

  #batcherOf(delivery: InboxDelivery): WriteBatcher {
    let batcher = this.#batchers.get(delivery.queue);
    if (!batcher) this.#batchers.set(delivery.queue, (batcher = new WriteBatcher(this.#table, delivery.queue, timeoutOf(delivery))));
    return batcher;
  }

  async commit(
    delivery: InboxDelivery,
    call: number,
    partitionKey: string,
    actions: readonly TransactionActionLike[],
    options: CallOptions = {},
  ): Promise<"committed" | "duplicate"> {
    // The record itself is the hundredth action.
    if (actions.length >= maxGroup) throw new RangeError(`a commit takes ${maxGroup - 1} actions; got ${actions.length}`);
    const foreign = actions.find(([, entity]) => entity.partitionKey !== partitionKey);
    if (foreign) throw new RangeError(`all entities of a commit are of one partition: ${partitionKey}, not ${foreign[1].partitionKey}`);
    const { messageId, dequeueCount } = delivery;
    const record = { owner: `${ownerIdOf(this.#consumer, delivery)}/${call}`, messageId, dequeueCount };
    const rowKey = await rowKeyOf(delivery.queue, delivery.key);
    return commitOnce(this.#table, { partitionKey, rowKey, record, actions }, options);
  }

  /** Removes old records, page by page, and returns how many. Safe to call at any time, also concurrently. */
  purge(options: PurgeOptions = {}): Promise<number> {
    const olderThan = options.olderThan ?? new Date(Date.now() - 8 * 86_400_000);
    return withSpan("TableInbox.purge", options, (tracingOptions) =>
      purgeRecords(this.#table, { olderThan, partitionKey: options.partitionKey }, { ...options, tracingOptions }),
      { targetKind: "inbox" },
    );
  }
}

/** A request that takes longer than this would leave too little of the visibility timeout. */
function timeoutOf(delivery: InboxDelivery): number {
  return Math.min(10_000, delivery.visibilityInMs / 4);
}
