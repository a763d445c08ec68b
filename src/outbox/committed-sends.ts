import type { AbortSignalLike } from "../clients/call.js";
import { Deadline, isAborted, startStopwatch, startTimer } from "../core/deadline.js";
import { Batcher } from "./batcher.js";
import type { HeldMarker } from "./held-markers.js";
import type { MessageSender } from "./message-sender.js";
import { restOf } from "./outbox-rows.js";
import type { MessageRow } from "./outbox-rows.js";
import { maxOperations } from "./outbox-table.js";
import type { OutboxTable } from "./outbox-table.js";

/** How many messages were sent, and how many are left to the relay. */
export interface SendCounts {
  readonly sent: number;
  readonly failed: number;
}

/** Rows that wait for their turn are in memory. More than these are left to the relay. */
const maxPending = 10_000;

/**
 * Sends what this process has committed, right after the commit, and deletes the row. What cannot be sent is left to the relay: the marker
 * leads to it.
 */
export class CommittedSends {
  readonly #table: OutboxTable;
  readonly #sender: MessageSender;
  readonly #onError: (error: unknown) => void;
  readonly #pending = new Set<Promise<SendCounts>>();
  /** One for each partition with rows to delete: those whose messages are sent at about the same time are deleted together. */
  readonly #deletes = new Map<string, { readonly batcher: Batcher<string>; users: number }>();
  #ended = new AbortController();

  constructor(table: OutboxTable, sender: MessageSender, onError: (error: unknown) => void) {
    this.#table = table;
    this.#sender = sender;
    this.#onError = onError;
  }

  /** The row is committed. */
  add(row: MessageRow, marker: HeldMarker): void {
    if (this.#pending.size >= maxPending) {
      marker.leave();
      return;
    }
    const release = marker.use();
    const sending = this.#send(row, marker, this.#ended.signal).finally(() => {
      release();
      this.#pending.delete(sending);
    });
    this.#pending.add(sending);
  }

  /** Waits for the sends in progress. If the signal aborts, it rejects, and they go on. */
  async settled(abortSignal?: AbortSignalLike): Promise<SendCounts> {
    const limit = new Deadline(Infinity, () => undefined, abortSignal);
    try {
      const counts = await limit.race(Promise.all(this.#pending));
      return counts.reduce((sum, { sent, failed }) => ({ sent: sum.sent + sent, failed: sum.failed + failed }), { sent: 0, failed: 0 });
    } finally {
      limit.dispose();
    }
  }

  /** The same with a time limit: after it they are cut off, and left to the relay. Does not reject. */
  async drain(timeoutInMs: number): Promise<void> {
    const isOver = new AbortController();
    const stopTimer = startTimer(timeoutInMs, () => isOver.abort(new DOMException("The time to send messages is over.", "AbortError")));
    try {
      await this.settled(isOver.signal);
    } catch {
      this.#ended.abort(isOver.signal.reason);
      // What is committed from now on is sent. Deletes that wait for their turn end with the others, and not with these.
      this.#ended = new AbortController();
      this.#deletes.clear();
      await this.settled();
    } finally {
      stopTimer();
    }
  }

  /**
   * | crash after                | then                                                                                                |
   * |----------------------------|-----------------------------------------------------------------------------------------------------|
   * | the commit                 | the relay sends the message                                                                         |
   * | the send                   | the relay sends it again, with the same key                                                         |
   * | the delete of the row      | the relay finds a marker without rows, and deletes it a day later                                   |
   */
  async #send(row: MessageRow, marker: HeldMarker, abortSignal: AbortSignal): Promise<SendCounts> {
    const { partitionKey, rowKey, messages } = row;
    const ageInMs = startStopwatch();
    const unsent = await this.#sender.send(row, { relayed: false, ageInMs: 0, abortSignal });
    try {
      if (unsent.length === 0) await this.#delete(partitionKey, rowKey);
      else {
        marker.leave();
        // So that the others are not sent again.
        if (unsent.length < messages.length) await this.#table.replaceRow(restOf(row, unsent, ageInMs()), { abortSignal });
      }
    } catch (error) {
      marker.leave();
      if (!isAborted(abortSignal)) this.#onError(error);
    }
    return { sent: messages.length - unsent.length, failed: unsent.length };
  }

  async #delete(partitionKey: string, rowKey: string): Promise<void> {
    let deletes = this.#deletes.get(partitionKey);
    if (!deletes) {
      const { signal } = this.#ended;
      const send = (rowKeys: readonly string[]): Promise<void> => this.#table.deleteRows(partitionKey, rowKeys, { abortSignal: signal });
      this.#deletes.set(partitionKey, (deletes = { batcher: new Batcher(send, maxOperations), users: 0 }));
    }
    deletes.users++;
    try {
      await deletes.batcher.add(rowKey);
    } finally {
      if (--deletes.users === 0 && this.#deletes.get(partitionKey) === deletes) this.#deletes.delete(partitionKey);
    }
  }
}
