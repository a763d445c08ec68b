import type { AbortSignalLike } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { abortReason, onAbort, throwIfAborted } from "../../core/deadline.js";
import { resolveWrite } from "../../core/resolve-write.js";
import { fullJitter } from "../../core/retry.js";
import { failedOperation, isBadRequest } from "../../core/storage-errors.js";
import { logger } from "../../core/telemetry.js";
import type { BatchedRow, BatchedWrite } from "./batched-write.js";
import { readRow, recordOf } from "./record.js";
import type { TransitionWrite } from "./transition-write.js";
import { isConcurrencyError, quotedText } from "../../errors.js";

/** The maximum number of operations in an entity group transaction. */
export const maxGroup: number = 100;

/** Handlers of one batch end at about the same time. A write waits this long for others, less if there are enough. */
const lingerInMs = 5;

interface Waiting {
  readonly write: TransitionWrite;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Combines the transitions of many claims in one partition into few transactions, sent one at a time. */
export class WriteBatcher {
  readonly #table: TableLike;
  readonly #partitionKey: string;
  readonly #timeoutInMs: number;
  #waiting: Waiting[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: { readonly writes: readonly TransitionWrite[]; readonly controller: AbortController } | undefined;

  constructor(table: TableLike, partitionKey: string, timeoutInMs: number) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#timeoutInMs = timeoutInMs;
  }

  /** Sends the write with others. If the signal aborts, no caller waits for it any more. */
  add(write: TransitionWrite, abortSignal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const off = onAbort(abortSignal, () => {
        this.#abandon(write);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason of a signal
        reject(abortReason(abortSignal));
      });
      if (write.abandoned) return;
      const settle = (then: () => void): void => {
        off();
        then();
      };
      this.#waiting.push({ write, resolve: () => settle(resolve), reject: (error) => settle(() => reject(error)) }); // eslint-disable-line @typescript-eslint/prefer-promise-reject-errors -- as thrown
      this.#arm();
    });
  }

  /** Withdraws a write. A transaction that no caller waits for any more is cut off. */
  #abandon(write: TransitionWrite): void {
    write.abandoned = true;
    if (this.#sending?.writes.every((other) => other.abandoned)) this.#sending.controller.abort();
  }

  #arm(): void {
    if (this.#sending || this.#waiting.length === 0) return;
    if (this.#waiting.length >= maxGroup) void this.#send();
    else this.#timer ??= setTimeout(() => void this.#send(), lingerInMs);
  }

  async #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const next = this.#next();
    const writes = next.map(({ write }) => write);
    const controller = new AbortController();
    this.#sending = { writes, controller };
    try {
      await submitWrites(this.#table, this.#partitionKey, writes, this.#timeoutInMs, controller.signal);
      for (const { resolve } of next) resolve();
    } catch (error) {
      // Some writes may be settled nevertheless. For the others, their callers decide.
      for (const { write, resolve, reject } of next) if (write.settled) resolve(); else reject(error);
    } finally {
      this.#sending = undefined;
      this.#arm();
    }
  }

  /** A second transition of the same claim waits for the next transaction. */
  #next(): Waiting[] {
    const fits = transactionFilter();
    const next: Waiting[] = [];
    this.#waiting = this.#waiting.filter((waiting) => {
      if (!fits(waiting.write)) return true;
      next.push(waiting);
      return false;
    });
    return next;
  }
}

/** Whether a write fits into a transaction with those before it: a transaction may contain each row once, and has at most 100 rows. */
function transactionFilter(): (write: BatchedWrite) => boolean {
  const taken = new Set<string>();
  return ({ rows }) => {
    if (taken.size + rows.length > maxGroup || rows.some(({ rowKey }) => taken.has(rowKey))) return false;
    for (const { rowKey } of rows) taken.add(rowKey);
    return true;
  };
}

/** A batch that is not settled after this many conflicts is given up; the caller decides whether to start again. */
const maxConflicts = 25;
/** Few: the callers retry themselves, and the visibility timeout of their messages is limited. */
const maxResends = 3;

/**
 * Commits the writes of many rows in as few entity group transactions as possible. If one row has changed, the service
 * rejects the whole transaction: that row is read, its write is decided again, and the rest is sent again.
 *
 * Conflicts are rare, but may come in large numbers (a whole file of messages sent twice). So the first conflict costs one read,
 * and each further conflict reads twice as many of the rows that follow. The service does not always report which row it
 * was; then all are read.
 *
 * A row that the service does not accept (another program has filled it with properties, for example) must not keep the others from being
 * written: the transaction is split until it is alone. The error of such a row is thrown when the others are settled.
 *
 * A transaction whose response is lost was committed as a whole or not at all, and may still be in flight: its first row shows
 * which, and sending it again does no harm, as each write is conditional on the earlier state of its rows.
 */
export async function submitWrites(
  table: TableLike,
  partitionKey: string,
  writes: readonly BatchedWrite[],
  timeoutInMs: number,
  abortSignal?: AbortSignalLike,
): Promise<void> {
  const read = (row: BatchedRow): Promise<object | undefined> => readRow(table, partitionKey, row.rowKey, timeoutInMs, abortSignal);
  const rejected = new Set<BatchedWrite>();
  let rejection: unknown;
  const readAll = async (rows: readonly BatchedRow[]): Promise<void> => {
    await Promise.all(
      rows.map(async (row) => {
        try {
          row.found(await read(row));
        } catch (error) {
          // A row that cannot be read, as a later version of the library has written it, must not keep the others from being written.
          if (!isConcurrencyError(error, "SCHEMA")) throw error;
          rejection = error;
          for (const write of writes) if (write.rows.includes(row)) rejected.add(write);
        }
      }),
    );
  };
  const openWrites = (): readonly BatchedWrite[] => writes.filter((write) => !write.settled && !rejected.has(write));
  const readUnread = async (): Promise<void> => {
    // What is found may make it necessary to read another row.
    for (let unread = unreadRows(openWrites()); unread.length > 0; unread = unreadRows(openWrites())) await readAll(unread);
  };
  const batch = crypto.randomUUID();
  let lookahead = 1;
  let lastError: unknown;
  for (let conflicts = 0; conflicts < maxConflicts; ) {
    await readUnread();
    const open = openWrites().filter(transactionFilter());
    const rows = open.flatMap((write) => write.rows);
    const [first] = rows;
    if (!first && rejected.size > 0) throw rejection;
    if (!first) return;
    const actions = rows.map((row) => row.action(batch));
    const { baseETag } = first;
    const outcome = await resolveWrite<{ subResponses: readonly { etag?: string | undefined }[] }, object | undefined>(
      {
        send: (signal) => table.submitTransaction(actions as never[], { abortSignal: signal }),
        readBack: () => read(first),
        recognise: (entity) => {
          const record = entity && recordOf(entity);
          return record?.batch === batch ? "committed" : record?.etag === baseETag ? "unchanged" : "not committed";
        },
        // Another row of the batch has changed, so no send of it can be committed any more.
        invalidateEarlierSends: () => Promise.resolve(true),
      },
      { abortSignal, tryLimit: { timeoutInMs: () => timeoutInMs }, maxResends, maxReadBacks: 1, backoff: (resend) => fullJitter(resend, 10, 500) },
    );
    switch (outcome.kind) {
      case "committed":
        rows.forEach((row, i) => row.committed(outcome.value.subResponses[i]?.etag));
        break;
      case "recognised":
        first.found(outcome.found);
        for (const row of rows) if (row !== first) row.committed(undefined);
        break;
      case "conflict": {
        conflicts++;
        lastError = outcome.error;
        throwIfAborted(abortSignal);
        logger.verbose(`a write to partition ${quotedText(partitionKey)} of the inbox met a conflict`);
        if ("found" in outcome) {
          first.found(outcome.found);
          break;
        }
        const failed = failedOperation(lastError);
        await readAll(failed === undefined ? rows : rows.slice(failed, failed + lookahead));
        lookahead *= 2;
        break;
      }
      case "rejected":
        if (writes.length === 1 || !isBadRequest(outcome.error)) throw outcome.error;
        for (const part of open.length === 1 ? [] : halvesOf(open)) {
          await submitWrites(table, partitionKey, part, timeoutInMs, abortSignal).catch((error: unknown) => (rejection = error));
        }
        rejection ??= outcome.error;
        for (const write of open) if (!write.settled) rejected.add(write);
        break;
      case "unknown":
        throwIfAborted(abortSignal);
        throw outcome.readError ?? outcome.error;
    }
  }
  throw lastError;
}

function halvesOf<W>(writes: readonly W[]): readonly (readonly W[])[] {
  const middle = Math.ceil(writes.length / 2);
  return [writes.slice(0, middle), writes.slice(middle)];
}

function unreadRows(writes: readonly BatchedWrite[]): readonly BatchedRow[] {
  return writes.flatMap(({ rows }) => rows.filter(({ unread }) => unread));
}
