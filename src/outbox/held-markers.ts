import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { Deadline, startIdleTimer, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { Batcher } from "./batcher.js";
import { markerPartition, markerRowKey, messageRowKey } from "./outbox-rows.js";
import type { Marker } from "./outbox-rows.js";
import { maxOperations } from "./outbox-table.js";
import type { OutboxTable } from "./outbox-table.js";

/** A marker of this process, for one partition. */
export class HeldMarker implements Marker {
  readonly id: string = crypto.randomUUID();
  readonly partition: string;
  /** Started before it was last written. */
  #written: Clock | undefined;
  #writing: Promise<void> | undefined;
  #unused: Clock = startStopwatch();
  #users = 0;
  #rows = 0;
  /** There may be a row that this process does not send: only a relay knows when it may be deleted. */
  #isLeft = false;

  constructor(partition: string) {
    this.partition = partition;
  }

  /** The key of the next row. */
  nextRowKey(): string {
    return messageRowKey(this, ++this.#rows);
  }

  /**
   * Needed from now on, until the returned function is called: by a call that has added a message, and may still commit it; by a commit in
   * flight; by a row that is being sent.
   */
  use(): () => void {
    this.#users++;
    let used = true;
    return () => {
      if (!used) return;
      used = false;
      this.#users--;
      this.#unused = startStopwatch();
    };
  }

  /** A row is left to the relay, or a commit whose outcome is unknown may still create one. */
  leave(): void {
    this.#isLeft = true;
  }

  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** A write in flight that arrived after the delete would leave a marker behind. */
  async written(): Promise<void> {
    await this.#writing?.catch(() => undefined);
  }

  isUnusedFor(ms: number): boolean {
    return this.#users === 0 && this.#unused() >= ms;
  }

  /** Resolves when it is stored, and was written less than `maxAgeInMs` ago, or is written now. Its users share the write. */
  async store(maxAgeInMs: number, write: (marker: HeldMarker) => Promise<void>): Promise<void> {
    if (this.#written && this.#written() < maxAgeInMs) return;
    this.#writing ??= this.#write(write).finally(() => (this.#writing = undefined));
    await this.#writing;
  }

  async #write(write: (marker: HeldMarker) => Promise<void>): Promise<void> {
    const clock = startStopwatch();
    await write(this);
    this.#written = clock;
  }
}

/**
 * The markers of this process. A marker is stored before the first commit of its partition is sent, serves all further ones, and is deleted
 * when it has not been used for a while: a busy partition costs one write in half of `relayAfterInMs`, and all markers that become unused
 * at about the same time are deleted together.
 *
 * | state of a marker                                        | who deletes it                                                      |
 * |----------------------------------------------------------|---------------------------------------------------------------------|
 * | a call may commit, or a commit or a send is in flight    | no one                                                              |
 * | all rows sent and deleted                                | this process, when it is unused                                     |
 * | a row could not be sent, or an outcome is unknown        | a relay, a day after this process has last written it, if it has no rows |
 * | this process has ended                                   | the same                                                            |
 */
export class HeldMarkers {
  readonly #table: OutboxTable;
  readonly #relayAfterInMs: number;
  readonly #byPartition = new Map<string, HeldMarker>();
  readonly #writes: Batcher<HeldMarker>;
  #stopTimer: (() => void) | undefined;

  constructor(table: OutboxTable, relayAfterInMs: number) {
    this.#table = table;
    this.#relayAfterInMs = relayAfterInMs;
    this.#writes = new Batcher((markers) => table.putMarkers(markers), maxOperations);
  }

  /** The marker of a partition. It is not stored yet. */
  of(partition: string): HeldMarker {
    let marker = this.#byPartition.get(partition);
    if (!marker) this.#byPartition.set(partition, (marker = new HeldMarker(partition)));
    this.#stopTimer ??= startIdleTimer(this.#relayAfterInMs, () => this.#onTime());
    return marker;
  }

  /** Resolves when the marker is stored: not until then may a row be committed that it leads to. */
  async store(marker: HeldMarker, abortSignal?: AbortSignalLike): Promise<void> {
    const deadline = new Deadline(Infinity, () => undefined, abortSignal);
    try {
      await deadline.race(marker.store(this.#relayAfterInMs / 2, (written) => this.#writes.add(written)));
    } finally {
      deadline.dispose();
    }
  }

  /**
   * Deletes the markers that are unused, and have no rows; forgets those that are left to the relay. A new one is used from then on: a
   * delete that arrives late does no harm.
   */
  async deleteUnused(unusedForInMs: number, call: CallOptions = {}): Promise<void> {
    const unused = [...this.#byPartition.values()].filter((marker) => marker.isUnusedFor(unusedForInMs));
    for (const { partition } of unused) this.#byPartition.delete(partition);
    if (this.#byPartition.size === 0) this.#endTimer();
    await Promise.all(unused.map((marker) => marker.written()));
    const rowKeys = unused.filter(({ isLeft }) => !isLeft).map(markerRowKey);
    for (let start = 0; start < rowKeys.length; start += maxOperations) await this.#table.deleteRows(markerPartition, rowKeys.slice(start, start + maxOperations), call);
  }

  #onTime(): void {
    this.#stopTimer = this.#byPartition.size === 0 ? undefined : startIdleTimer(this.#relayAfterInMs, () => this.#onTime());
    // A failure is harmless: the relay deletes it later.
    void this.deleteUnused(this.#relayAfterInMs).catch(() => undefined);
  }

  #endTimer(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }
}
