import { isWithin } from "./overlay.js";
import type { Overlay, RowRange } from "./overlay.js";

/** A row or a range that a transaction is about to read. */
export type Access = string | RowRange;

/** The transactions of the batch before one of them, as that one sees them. */
export interface Predecessors {
  /** Whether one of them may still write what is to be read. */
  mayWrite(access: Access): boolean;
  /** Waits for those that may. Throws a {@link RestartError} if the time of the batch is over by then. */
  whenDone(accesses: readonly Access[]): Promise<void>;
}

/** The run cannot go on in this batch: its function runs again in the next one. */
export class RestartError extends Error {
  override readonly name = "RestartError";
}

interface Entry {
  readonly overlay: Overlay;
  readonly done: Promise<void>;
  readonly resolve: () => void;
}

/**
 * Lets the functions of a batch run at the same time, and yet each on what those before it wrote. A transaction that reads a row
 * waits for the transactions before it that have read or written the same row, because most of those that read a row also write
 * it. It never waits for a later one, so there is no deadlock. A row that a transaction only read is taken for a row that others
 * only read, too: from then on its readers do not wait for each other. This is a forecast. Whether a result is valid is decided
 * when the transaction is merged; if it is not, its function runs again.
 */
export class RunOrder {
  readonly #entries = new Map<number, Entry>();
  readonly #isOver: () => boolean;
  readonly #onlyRead = new Set<string>();
  readonly #written = new Set<string>();
  #queriesOnlyRead = false;

  /** @param isOver - Whether the time of the batch is over. */
  constructor(isOver: () => boolean) {
    this.#isOver = isOver;
  }

  /** The transaction at this position runs, perhaps once more: later ones keep waiting for it. */
  set(position: number, overlay: Overlay): void {
    this.#entries.get(position)?.resolve();
    let resolve!: () => void;
    const done = new Promise<void>((settle) => (resolve = settle));
    this.#entries.set(position, { overlay, done, resolve });
  }

  /** The transaction at this position has been merged or dropped. */
  settle(position: number, merged: Overlay | undefined): void {
    if (merged) this.#learnFrom(merged);
    this.#entries.get(position)?.resolve();
    this.#entries.delete(position);
  }

  /** The batch has ended: no function waits any longer. */
  settleAll(): void {
    for (const position of [...this.#entries.keys()]) this.settle(position, undefined);
  }

  before(position: number): Predecessors {
    const inTheWay = (accesses: readonly Access[]): Entry | undefined => {
      for (const [other, entry] of this.#entries) {
        if (other < position && accesses.some((access) => this.#mayWrite(entry.overlay, access))) return entry;
      }
      return undefined;
    };
    return {
      mayWrite: (access) => inTheWay([access]) !== undefined,
      whenDone: async (accesses) => {
        for (let entry = inTheWay(accesses); entry; entry = inTheWay(accesses)) {
          await entry.done;
          if (this.#isOver()) throw new RestartError("The time of the batch is over: the transaction runs again in the next one.");
        }
      },
    };
  }

  #mayWrite(overlay: Overlay, access: Access): boolean {
    const { readIntents, writeIntents, rangeIntents } = overlay;
    if (typeof access === "string") {
      if (writeIntents.has(access)) return true;
      if (this.#onlyRead.has(access)) return false;
      return readIntents.has(access) || (!this.#queriesOnlyRead && rangeIntents.some((range) => isWithin(access, range)));
    }
    return (
      some(writeIntents, (rowKey) => isWithin(rowKey, access)) ||
      some(readIntents, (rowKey) => isWithin(rowKey, access) && !this.#onlyRead.has(rowKey)) ||
      (!this.#queriesOnlyRead && rangeIntents.some((range) => overlap(range, access)))
    );
  }

  #learnFrom({ reads, writes, rangeIntents }: Overlay): void {
    for (const rowKey of writes.keys()) {
      this.#written.add(rowKey);
      this.#onlyRead.delete(rowKey);
    }
    for (const rowKey of reads.keys()) if (!this.#written.has(rowKey)) this.#onlyRead.add(rowKey);
    if (rangeIntents.length === 0) return;
    this.#queriesOnlyRead = !some(writes.keys(), (rowKey) => rangeIntents.some((range) => isWithin(rowKey, range)));
  }
}

function overlap(a: RowRange, b: RowRange): boolean {
  return (a.from === undefined || b.to === undefined || a.from <= b.to) && (b.from === undefined || a.to === undefined || b.from <= a.to);
}

function some<V>(values: Iterable<V>, test: (value: V) => boolean): boolean {
  for (const value of values) if (test(value)) return true;
  return false;
}
