import type { TransactionTableLike } from "../clients.js";
import { delay, fullJitter } from "../core/delay.js";
import { explain, isDenied, isMissingParent } from "../core/storage-errors.js";
import { beginTogether, endUnsettled, logger } from "../core/telemetry.js";
import { defaultJournalName, formatJournal } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { partitionUrl } from "../target/stored-entity.js";
import type { RequestContext } from "../target/target.js";
import { commitGroup } from "./commit-transaction.js";
import type { GroupVerdict } from "./commit-transaction.js";
import { limitOf, operationsOf } from "./operations.js";
import type { Operation } from "./operations.js";
import { PartitionView } from "./partition-view.js";
import { queriesRowKey } from "./row.js";
import type { Row, RowOptions } from "./row.js";
import { Graveyard } from "./tombstone-cleanup.js";
import { TransactionRound } from "./transaction-batch.js";
import type { TransactionCall } from "./transaction-batch.js";

/** So many in one round at most: they have to fit into 100 operations. */
const maxBatch = 50;
/** With more tombstones than this the cleaning up does not wait until nobody waits. */
const maxTombstones = 100;
/** With more rows than this all are forgotten: they may be of use, or not. */
const maxRows = 1_000;

const groups = new WeakMap<object, Map<string, PartitionGroup>>();

/** What the transactions of one group have in common. */
export interface PartitionSettings {
  readonly table: TransactionTableLike;
  readonly owner: object;
  readonly partitionKey: string;
  readonly guardQueries: boolean;
  readonly coalesce: boolean;
}

/**
 * Hands a call to the group of its partition: the transactions of one process on one partition, under the same rights,
 * run one after the other on what the ones before them did, and are committed together.
 */
export function joinPartition(settings: PartitionSettings, call: TransactionCall): void {
  if (call.settled) return;
  if (!settings.coalesce) {
    new PartitionGroup(settings, undefined).add(call);
    return;
  }
  const { owner, table, partitionKey, guardQueries } = settings;
  let ofOwner = groups.get(owner);
  if (!ofOwner) groups.set(owner, (ofOwner = new Map<string, PartitionGroup>()));
  const key = JSON.stringify([table.url, table.tableName, partitionKey, guardQueries]);
  let group = ofOwner.get(key);
  if (!group) {
    const own = ofOwner;
    ofOwner.set(key, (group = new PartitionGroup(settings, () => own.delete(key))));
  }
  group.add(call);
}

class PartitionGroup {
  readonly #settings: PartitionSettings;
  readonly #onIdle: (() => void) | undefined;
  #queue: TransactionCall[] = [];
  #inFlight: readonly TransactionCall[] = [];
  #running = false;
  /** Rows as they are known to be stored, while there is a queue; emptied as soon as a race shows that they are not. */
  #rows = new Map<string, Row>();
  readonly #graveyard: Graveyard;
  #io = new AbortController();

  constructor(settings: PartitionSettings, onIdle: (() => void) | undefined) {
    this.#settings = settings;
    this.#onIdle = onIdle;
    this.#graveyard = new Graveyard(settings.table, settings.partitionKey);
  }

  add(call: TransactionCall): void {
    call.onSettled = () => this.#stopIfAbandoned();
    this.#queue.push(call);
    if (!this.#running) {
      this.#running = true;
      void this.#drain();
    }
  }

  /** Never rejects. */
  async #drain(): Promise<void> {
    let losses = 0;
    // Whoever calls in the same breath is part of the first round.
    await Promise.resolve();
    while (this.#hasWork()) {
      this.#io = new AbortController();
      const calls = this.#take();
      this.#inFlight = calls;
      beginTogether(calls);
      const wasKnown = this.#rows.size > 0;
      const view = new PartitionView(this.#settings.table, this.#settings.partitionKey, this.#rows);
      const round = new TransactionRound(view, calls, this.#settings);
      await round.run(() => this.#requestOptions(calls), () => this.#queue.some((call) => !call.settled));
      for (const [call, done] of round.asides()) {
        void done.then(() => joinPartition({ ...this.#settings, coalesce: false }, call));
      }
      this.#queue.unshift(...round.postponed());
      const operations = operationsOf(view, this.#settings.partitionKey, this.#settings.guardQueries);
      const outcome = operations.some(({ changes }) => changes)
        ? await this.#commit(round, operations)
        : await this.#validate(round, view, wasKnown);
      endUnsettled(calls, outcome === "again" ? "race" : "postponed");
      if (outcome === "again") await this.#backOff(losses++);
      else losses = 0;
      if (this.#graveyard.size > maxTombstones) await this.#bury();
      if (this.#rows.size > maxRows) this.#rows = new Map();
    }
    await this.#bury();
    this.#running = false;
    if (this.#hasWork()) {
      this.#running = true;
      void this.#drain();
    } else this.#onIdle?.();
  }

  #hasWork(): boolean {
    this.#inFlight = [];
    this.#queue = this.#queue.filter((call) => !call.settled);
    return this.#queue.length > 0;
  }

  #take(): TransactionCall[] {
    const alone = this.#queue.findIndex((call) => call.solo);
    return this.#queue.splice(0, alone < 0 ? maxBatch : Math.min(maxBatch, Math.max(alone, 1)));
  }

  /** Nothing to write. Reads of several moments are of one state only if all of it is still there afterwards. */
  async #validate(round: TransactionRound, view: PartitionView, wasKnown: boolean): Promise<"done" | "again"> {
    let current = true;
    try {
      // A guarded query counts as a read of its own: there may have been several of them that found nothing.
      const severalReads = view.touched.size > 1 || view.touched.has(queriesRowKey);
      if (wasKnown || severalReads) current = await view.isCurrent(this.#requestOptions(round.unsettled()));
    } catch (error) {
      for (const call of round.unsettled()) call.reject(explain(error, this.#url));
      return "done";
    }
    if (current) {
      round.settleAll("unchanged");
      return "done";
    }
    logger.verbose(`lost a race for ${this.#url}`);
    this.#lose(round, undefined);
    return "again";
  }

  async #commit(round: TransactionRound, operations: readonly Operation[]): Promise<"done" | "again"> {
    const { table, partitionKey } = this.#settings;
    const limit = limitOf(operations, round.view.written, partitionKey);
    if (limit) {
      this.#refuse(round, limit);
      return "done";
    }
    this.#inFlight = round.unsettled();
    if (this.#inFlight.length === 0) return "done";
    for (const call of round.changers()) call.inFlight = true;
    const committed = await commitGroup(table, partitionKey, operations, {
      abortSignal: this.#io.signal,
      ...this.#tracing(this.#inFlight),
      leaseId: undefined,
      journalName: defaultJournalName,
    });
    for (const call of round.changers()) call.inFlight = false;
    return this.#settle(round, operations, committed);
  }

  #settle(round: TransactionRound, operations: readonly Operation[], committed: GroupVerdict): "done" | "again" {
    const { verdict } = committed;
    switch (verdict.kind) {
      case "landed":
        this.#remember(round.view, operations, committed);
        round.settleAll("committed");
        return "done";
      case "refused":
        this.#refuse(round, verdict.error);
        return "done";
      case "unknown":
        logger.warning(`the fate of a write to ${this.#url} is unknown`);
        for (const call of round.changers()) {
          if (call.settings.onUnknown === "throw") call.rejectUnknown(verdict.error);
          call.mayHaveLanded = true;
        }
        this.#lose(round, verdict.error);
        return "again";
      case "race":
        logger.verbose(`lost a race for ${this.#url}`);
        this.#lose(round, verdict.error);
        return "again";
    }
  }

  /** What is stored after a commit whose answer arrived: the next round need not read it again. */
  #remember(view: PartitionView, operations: readonly Operation[], { etags, journals }: GroupVerdict): void {
    if (etags?.length !== operations.length) {
      this.#rows = new Map();
      for (const { rowKey, leavesTombstone } of operations) if (leavesTombstone) this.#graveyard.add(rowKey, undefined);
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
      this.#rows.set(rowKey, { stored: view.current(rowKey), etag, ...journaled });
      if (leavesTombstone) this.#graveyard.add(rowKey, etag);
      else this.#graveyard.delete(rowKey);
    }
  }

  #lose(round: TransactionRound, error: unknown): void {
    this.#rows = new Map();
    for (const call of round.unsettled()) {
      call.lostRaces++;
      if (call.attempts >= call.settings.maxAttempts) call.rejectConflict(error);
      call.careful = true;
    }
    this.#queue.unshift(...round.unsettled());
  }

  /** One transaction may be to blame for what was combined: they are tried one by one. */
  #refuse(round: TransactionRound, error: unknown): void {
    const calls = round.unsettled();
    const sharedFate = isDenied(error) || isMissingParent(error) || calls.length === 1;
    for (const call of calls) {
      if (sharedFate) call.reject(explain(error, this.#url));
      else call.solo = true;
    }
    this.#queue.unshift(...round.unsettled());
  }

  async #bury(): Promise<void> {
    this.#rows = new Map();
    await this.#graveyard.clear();
  }

  async #backOff(losses: number): Promise<void> {
    const call = this.#queue.find(({ settled }) => !settled);
    if (!call) return;
    this.#inFlight = [];
    const { retryDelayInMs, maxRetryDelayInMs } = call.settings;
    await delay(fullJitter(losses, retryDelayInMs, maxRetryDelayInMs), this.#io.signal).catch(() => undefined);
  }

  get #url(): string {
    return partitionUrl(this.#settings.table, this.#settings.partitionKey);
  }

  #requestOptions(calls: readonly TransactionCall[]): RowOptions {
    const { tracingOptions, onRequest } = this.#tracing(calls);
    return { abortSignal: this.#io.signal, onRequest, ...(tracingOptions && { tracingOptions }) };
  }

  #tracing(calls: readonly TransactionCall[]): Pick<RequestContext, "tracingOptions" | "onRequest"> {
    return {
      tracingOptions: calls.find((call) => !call.settled)?.trace.tracingOptions,
      onRequest: () => {
        for (const call of calls) call.trace.countRequest();
      },
    };
  }

  #stopIfAbandoned(): void {
    const waiting = this.#inFlight.length > 0 ? this.#inFlight : this.#queue;
    if (waiting.every((call) => call.settled)) this.#io.abort();
  }
}

function rowJournal(journal: Journal): Pick<Row, "journal" | "journalValue"> {
  return { journal, journalValue: { type: "String", value: formatJournal(journal) } };
}
