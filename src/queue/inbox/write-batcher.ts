import type { AbortSignalLike, InboxTableAction, InboxTableLike } from "../../clients.js";
import { throwIfAborted } from "../../core/abort.js";
import { delay, fullJitter } from "../../core/delay.js";
import { failedOperation, isMissing, isRace } from "../../core/storage-errors.js";
import { logger } from "../../core/telemetry.js";
import { boundedCall } from "../bounded-call.js";
import { readRecord } from "./record.js";
import type { InboxRecord } from "./record.js";
import type { HeldClaim, StepItem } from "./transition-write.js";

/** What an entity group transaction takes. */
export const maxGroup: number = 100;

/** Handlers of one batch end close to each other. So long a message waits for company, less if there is enough. */
const lingerInMs = 5;

interface Waiting {
  readonly item: StepItem;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Gathers the steps of many claims in one partition into few transactions, one at a time. */
export class Gather {
  readonly #table: InboxTableLike;
  readonly #partitionKey: string;
  readonly #boundInMs: number;
  #waiting: Waiting[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: { readonly items: readonly StepItem[]; readonly controller: AbortController } | undefined;

  constructor(table: InboxTableLike, partitionKey: string, boundInMs: number) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#boundInMs = boundInMs;
  }

  add(item: StepItem): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#arm();
    });
  }

  /** Takes back the steps of a claim. A transaction in which nobody is interested any more is cut off. */
  abandon(claim: HeldClaim): void {
    for (const { item } of this.#waiting) if (item.claim === claim) item.abandoned = true;
    if (!this.#sending) return;
    const { items, controller } = this.#sending;
    for (const item of items) if (item.claim === claim) item.abandoned = true;
    if (items.every((item) => item.abandoned)) controller.abort();
  }

  #arm(): void {
    if (this.#sending || this.#waiting.length === 0) return;
    if (this.#waiting.length >= maxGroup) void this.#send();
    else this.#timer ??= setTimeout(() => void this.#send(), lingerInMs);
  }

  async #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const group = this.#next();
    const items = group.map(({ item }) => item);
    const controller = new AbortController();
    this.#sending = { items, controller };
    try {
      await submitGroup(this.#table, this.#partitionKey, items, this.#boundInMs, controller.signal);
      for (const { resolve } of group) resolve();
    } catch (error) {
      // Some may be through in spite of it; the others are asked again by those who wait for them.
      for (const { item, resolve, reject } of group) if (item.settled) resolve(); else reject(error);
    } finally {
      this.#sending = undefined;
      this.#arm();
    }
  }

  /** A transaction takes each row once: a second step of the same claim waits for the next. */
  #next(): Waiting[] {
    const rows = new Set<string>();
    const group: Waiting[] = [];
    this.#waiting = this.#waiting.filter((waiting) => {
      const { rowKey } = waiting.item;
      if (group.length === maxGroup || rows.has(rowKey)) return true;
      rows.add(rowKey);
      group.push(waiting);
      return false;
    });
    return group;
  }
}

/** One step of one record, that goes to the table together with others. */
export interface GroupItem {
  readonly rowKey: string;
  /** Nothing left to do. */
  readonly settled: boolean;
  /** What to send. The record is to carry `group`, which tells later that the whole group landed. */
  action(group: string): InboxTableAction;
  /** It was carried out. An item that needs the ETag, and does not get it, stays unsettled. */
  landed(etag: string | undefined): void;
  /** What the table has: settles the item, or makes it ready to be sent on top of that. */
  found(record: InboxRecord | undefined): void;
}

/** A group that is not through by then is given up; the caller decides whether to begin again. */
const maxRounds = 25;

/**
 * Carries out the steps of many records in as few entity group transactions as possible. One record that has moved
 * fails them all: it is read, judged anew, and the rest goes again.
 *
 * Conflicts are rare, but may come in droves (a whole file of messages sent twice). So the first conflict costs one
 * read, and each further one twice as many of the records behind it. The service does not always say which one it was;
 * then all are read.
 *
 * An answer that is lost leaves open whether the group landed. It did so as a whole or not at all, and may still be on
 * its way: one record tells, and sending it again does no harm, as each step is conditional on what the record was.
 */
export async function submitGroup(
  table: InboxTableLike,
  partitionKey: string,
  items: readonly GroupItem[],
  boundInMs: number,
  abortSignal?: AbortSignalLike,
): Promise<void> {
  const read = (item: GroupItem): Promise<InboxRecord | undefined> =>
    readRecord(table, partitionKey, item.rowKey, boundInMs, abortSignal);
  const look = async (some: readonly GroupItem[]): Promise<void> => {
    await Promise.all(some.map(async (item) => item.found(await read(item))));
  };
  const group = crypto.randomUUID();
  let lookahead = 1;
  let lastError: unknown;
  for (let round = 0; round < maxRounds; round++) {
    const open = items.filter((item) => !item.settled);
    const [first] = open;
    if (!first) return;
    const actions = open.map((item) => item.action(group));
    const outcome = await boundedCall(boundInMs, (options) => table.submitTransaction(actions, options), { abortSignal });
    if (outcome.kind === "ok") {
      const etags = outcome.value.subResponses.map((response) => response.etag);
      open.forEach((item, i) => item.landed(etags[i]));
      // A table that keeps the ETag to itself: have a look at it.
      return look(open.filter((item) => !item.settled));
    }
    lastError = outcome.error;
    throwIfAborted(abortSignal);
    if (outcome.kind === "refused") {
      if (!isRace(lastError) && !isMissing(lastError)) throw lastError;
      logger.verbose(`lost a race for a record in partition ${JSON.stringify(partitionKey)} of the inbox`);
      const culprit = failedOperation(lastError);
      await look(culprit === undefined ? open : open.slice(culprit, culprit + lookahead));
      lookahead *= 2;
      continue;
    }
    const record = await read(first);
    first.found(record);
    if (record?.group === group) {
      for (const item of open) if (item !== first) item.landed(undefined);
      return look(open.filter((item) => !item.settled));
    }
    await delay(fullJitter(round, 10, 500), abortSignal);
  }
  throw lastError;
}
