import type { AbortSignalLike } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { abortReason, onAbort, throwIfAborted } from "../../core/deadline.js";
import { resolveWrite } from "../../core/resolve-write.js";
import { fullJitter } from "../../core/retry.js";
import { failedOperation } from "../../core/storage-errors.js";
import { logger } from "../../core/telemetry.js";
import { readRecord } from "./record.js";
import type { InboxRecord } from "./record.js";
import type { BatchedWrite, TransitionWrite } from "./transition-write.js";

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
    const group = this.#next();
    const writes = group.map(({ write }) => write);
    const controller = new AbortController();
    this.#sending = { writes, controller };
    try {
      await submitWrites(this.#table, this.#partitionKey, writes, this.#timeoutInMs, controller.signal);
      for (const { resolve } of group) resolve();
    } catch (error) {
      // Some writes may be settled nevertheless. For the others, their callers decide.
      for (const { write, resolve, reject } of group) if (write.settled) resolve(); else reject(error);
    } finally {
      this.#sending = undefined;
      this.#arm();
    }
  }

  /** A transaction may contain each row once: a second transition of the same claim waits for the next one. */
  #next(): Waiting[] {
    const rows = new Set<string>();
    const group: Waiting[] = [];
    this.#waiting = this.#waiting.filter((waiting) => {
      const { rowKey } = waiting.write;
      if (group.length === maxGroup || rows.has(rowKey)) return true;
      rows.add(rowKey);
      group.push(waiting);
      return false;
    });
    return group;
  }
}

/** A batch that is not settled after this many conflicts is given up; the caller decides whether to start again. */
const maxConflicts = 25;
/** Few: the callers retry themselves, and the visibility timeout of their messages is limited. */
const maxResends = 3;

/**
 * Commits the writes of many records in as few entity group transactions as possible. If one record has changed, the service
 * rejects the whole transaction: that record is read, its write is decided again, and the rest is sent again.
 *
 * Conflicts are rare, but may come in large numbers (a whole file of messages sent twice). So the first conflict costs one read,
 * and each further conflict reads twice as many of the records that follow. The service does not always report which record it
 * was; then all are read.
 *
 * A transaction whose response is lost was committed as a whole or not at all, and may still be in flight: its first record shows
 * which, and sending it again does no harm, as each write is conditional on the earlier state of its record.
 */
export async function submitWrites(
  table: TableLike,
  partitionKey: string,
  writes: readonly BatchedWrite[],
  timeoutInMs: number,
  abortSignal?: AbortSignalLike,
): Promise<void> {
  const read = (write: BatchedWrite): Promise<InboxRecord | undefined> =>
    readRecord(table, partitionKey, write.rowKey, timeoutInMs, abortSignal);
  const readAll = async (some: readonly BatchedWrite[]): Promise<void> => {
    await Promise.all(some.map(async (write) => write.found(await read(write))));
  };
  const group = crypto.randomUUID();
  let lookahead = 1;
  let lastError: unknown;
  for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
    const open = writes.filter((write) => !write.settled);
    const [first] = open;
    if (!first) return;
    const actions = open.map((write) => write.action(group));
    const { baseETag } = first;
    const outcome = await resolveWrite<{ subResponses: readonly { etag?: string | undefined }[] }, InboxRecord | undefined>(
      {
        send: (signal) => table.submitTransaction(actions as never[], { abortSignal: signal }),
        readBack: () => read(first),
        recognise: (record) => (record?.group === group ? "committed" : record?.etag === baseETag ? "unchanged" : "not committed"),
        // Another record of the batch has changed, so no send of it can be committed any more.
        invalidateEarlierSends: () => Promise.resolve(true),
      },
      { abortSignal, tryLimit: { timeoutInMs: () => timeoutInMs }, maxResends, maxReadBacks: 1, backoff: (resend) => fullJitter(resend, 10, 500) },
    );
    switch (outcome.kind) {
      case "committed": {
        const etags = outcome.value.subResponses.map((response) => response.etag);
        open.forEach((write, i) => write.committed(etags[i]));
        // A table that does not return the ETag: read it.
        return readAll(open.filter((write) => !write.settled));
      }
      case "recognised":
        first.found(outcome.found);
        for (const write of open) if (write !== first) write.committed(undefined);
        return readAll(open.filter((write) => !write.settled));
      case "conflict": {
        lastError = outcome.error;
        throwIfAborted(abortSignal);
        logger.verbose(`a write to partition ${JSON.stringify(partitionKey)} of the inbox met a conflict`);
        if ("found" in outcome) {
          first.found(outcome.found);
          break;
        }
        const failed = failedOperation(lastError);
        await readAll(failed === undefined ? open : open.slice(failed, failed + lookahead));
        lookahead *= 2;
        break;
      }
      case "rejected":
        throw outcome.error;
      case "unknown":
        throwIfAborted(abortSignal);
        throw outcome.readError ?? outcome.error;
    }
  }
  throw lastError;
}
