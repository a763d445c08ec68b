import type { CallOptions } from "../../clients/call.js";
import type { InboxTableAction, InboxTableLike } from "../../clients/table.js";
import { startStopwatch } from "../../core/stopwatch.js";
import type { Clock } from "../../core/stopwatch.js";
import { withSpan } from "../../core/telemetry.js";
import { checkOneOf } from "../../core/validate.js";
import { commitOnce } from "./commit.js";
import type { Inbox, InboxClaim, InboxDelivery, InboxVerdict } from "./inbox.js";
import { purgeRecords } from "./purge.js";
import { ownerIdOf, readRecord, rowKeyOf } from "./record.js";
import { ClaimWrite, TransitionWrite } from "./transition-write.js";
import type { HeldClaim } from "./transition-write.js";
import { maxGroup, submitWrites, WriteBatcher } from "./write-batcher.js";

/** Options of {@link TableInbox}. */
export interface TableInboxOptions {
  /** See {@link TableInbox}. @defaultValue "claim" */
  mode?: "claim" | "commit" | undefined;
  /** Creates the table, if it is missing, when a consumer starts. @defaultValue false */
  createTable?: boolean | undefined;
}

/** Options of {@link TableInbox.purge}. */
export interface PurgeOptions extends CallOptions {
  /** @defaultValue 8 days ago: a message lives 7 unless its sender says otherwise */
  olderThan?: Date | undefined;
  /** Only records of this queue's claims, or of this partition's commits. @defaultValue all in the table */
  partitionKey?: string | undefined;
}

/**
 * An inbox in a table.
 *
 * Mode `"claim"`: a record for each key, in one partition for each queue. A received batch is claimed in one
 * transaction before the handlers start, and completed in few. No two handlers work on the same key at the same time,
 * and none on a key that is done; a handler that crashed half way is run again.
 *
 * Mode `"commit"`: the handler calls `context.commit(partitionKey, actions)`, and the record is written in the same
 * transaction as its own entities, so into the same table and partition, with a row key that begins with `inbox!`.
 * The effect happens exactly once. Handlers of duplicates do run, until their commit says so.
 *
 * Records are kept until {@link TableInbox.purge} is called, from time to time, by whoever likes. A duplicate that
 * arrives after its record was purged takes effect again: raise `olderThan` if messages live longer than 7 days, or
 * if producers repeat themselves later than that.
 *
 * All claims of a queue are in one partition, whatever the day: two messages with the same key find each other even if
 * midnight is between them. It limits a queue to about 1,000 messages a second, which is half of what a queue can do.
 */
export class TableInbox implements Inbox {
  readonly mode: "claim" | "commit";
  readonly #table: InboxTableLike;
  readonly #createTable: boolean;
  readonly #consumer = crypto.randomUUID();
  readonly #batchers = new Map<string, WriteBatcher>();

  constructor(table: InboxTableLike, options: TableInboxOptions = {}) {
    this.#table = table;
    this.mode = checkOneOf("mode", options.mode ?? "claim", ["claim", "commit"]);
    this.#createTable = options.createTable ?? false;
  }

  async prepare(options: CallOptions = {}): Promise<void> {
    if (!this.#createTable) return;
    await this.#table.createTable(options.abortSignal ? { abortSignal: options.abortSignal as AbortSignal } : {});
  }

  async claim(deliveries: readonly InboxDelivery[], { abortSignal }: CallOptions = {}): Promise<InboxVerdict[]> {
    const [some] = deliveries;
    if (!some) return [];
    const partitionKey = some.queue;
    const timeoutInMs = timeoutOf(some);
    const writes = new Map<InboxDelivery, ClaimWrite>();
    const rows = new Set<string>();
    for (const delivery of deliveries) {
      const rowKey = await rowKeyOf(delivery.queue, delivery.key);
      // A transaction takes each row once: of messages that share a key, the first goes ahead.
      if (rows.has(rowKey)) continue;
      rows.add(rowKey);
      writes.set(delivery, new ClaimWrite(partitionKey, rowKey, ownerIdOf(this.#consumer, delivery), delivery));
    }
    const group = [...writes.values()];
    // What was delivered before is likely to have a record: looking first saves the conflict.
    const again = [...writes].filter(([delivery]) => delivery.dequeueCount > 1);
    await Promise.all(
      again.map(async ([, write]) => write.found(await readRecord(this.#table, partitionKey, write.rowKey, timeoutInMs, abortSignal))),
    );
    for (let i = 0; i < group.length; i += maxGroup) {
      await submitWrites(this.#table, partitionKey, group.slice(i, i + maxGroup), timeoutInMs, abortSignal);
    }
    return deliveries.map((delivery) => {
      const write = writes.get(delivery);
      return write ? this.#verdict(write, delivery) : { kind: "busy", forInMs: delivery.visibilityInMs };
    });
  }

  #verdict(write: ClaimWrite, delivery: InboxDelivery): InboxVerdict {
    const { result } = write;
    if (result.kind !== "claimed") return result;
    const { messageId, dequeueCount } = delivery;
    const { etag, attempts, holdInMs } = result;
    const record = { owner: write.owner, messageId, dequeueCount, attempts, holdInMs };
    const held: HeldClaim = { partitionKey: delivery.queue, rowKey: write.rowKey, record, etag, over: false };
    return { kind: "claimed", claim: this.#claimOf(held, delivery) };
  }

  #claimOf(held: HeldClaim, delivery: InboxDelivery): InboxClaim {
    const batcher = this.#batcherOf(delivery);
    const step = async (to: "claimed" | "done" | "released"): Promise<boolean> => {
      const write = new TransitionWrite(held, to);
      await batcher.add(write);
      return write.carriedOut;
    };
    const { attempts, holdInMs } = held.record;
    // An extension without an answer may be found to have landed by the next one: time counts from the first.
    let clock: Clock | undefined;
    return {
      attempts,
      holdInMs,
      // However long the claim took: nobody can have written it before the message was received.
      clock: delivery.clock,
      extend: async () => {
        clock ??= startStopwatch();
        const started = clock;
        if (!(await step("claimed"))) return { kind: "lost", error: new Error("the inbox record was taken over") };
        clock = undefined;
        return { kind: "renewed", clock: started, holdInMs };
      },
      complete: () => step("done"),
      release: async () => {
        await step("released");
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
    actions: readonly InboxTableAction[],
    options: CallOptions = {},
  ): Promise<"committed" | "duplicate"> {
    // The record is the hundredth.
    if (actions.length >= maxGroup) throw new RangeError(`a commit takes ${maxGroup - 1} actions; got ${actions.length}`);
    const stranger = actions.find(([, entity]) => entity.partitionKey !== partitionKey);
    if (stranger) throw new RangeError(`all entities of a commit are of one partition: ${partitionKey}, not ${stranger[1].partitionKey}`);
    const { messageId, dequeueCount } = delivery;
    const record = { owner: `${ownerIdOf(this.#consumer, delivery)}/${call}`, messageId, dequeueCount };
    const rowKey = await rowKeyOf(delivery.queue, delivery.key);
    return commitOnce(this.#table, { partitionKey, rowKey, record, actions }, options);
  }

  /** Removes old records, page by page, and returns how many. Safe to call any time, from anywhere, also at once. */
  purge(options: PurgeOptions = {}): Promise<number> {
    const olderThan = options.olderThan ?? new Date(Date.now() - 8 * 86_400_000);
    return withSpan("TableInbox.purge", options, (tracingOptions) =>
      purgeRecords(this.#table, { olderThan, partitionKey: options.partitionKey }, { ...options, tracingOptions }),
      { targetKind: "inbox" },
    );
  }
}

/** A request that takes longer than this would leave too little of the message's time. */
function timeoutOf(delivery: InboxDelivery): number {
  return Math.min(10_000, delivery.visibilityInMs / 4);
}
