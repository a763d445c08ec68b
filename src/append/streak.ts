/** After this many blocks in a row, other processes get a chance: an appender that continues from its own ETag is always faster. */
const blocksInARow = 16;

/** The same for as long after a conflict as a call usually has time: the loser tries again once a second, and must meet such a chance. */
const contended = { blocksInARow: 4, forInMs: 30_000 } as const;

/** The blocks that a process appends to a blob one after the other, so that no other process could append. */
export class Streak {
  #blocks = 0;
  #endedAt = -Infinity;
  #batchInMs = 0;
  #conflictAt = -Infinity;

  appended(batchInMs: number): void {
    this.#blocks++;
    this.#batchInMs = batchInMs;
    this.#endedAt = performance.now();
  }

  /** Another appender was first. */
  lost(): void {
    this.#blocks = 0;
    this.#conflictAt = performance.now();
  }

  /**
   * Asked before each batch, and not when the last one has ended: callers that append one record after the other come a moment later.
   * Returns how long the last batch took if other processes have to get a chance now; otherwise undefined.
   */
  mustYield(): number | undefined {
    const now = performance.now();
    if (now - this.#endedAt > this.#batchInMs) this.#blocks = 0; // they had one
    const isContended = now - this.#conflictAt < contended.forInMs;
    if (this.#blocks < (isContended ? contended.blocksInARow : blocksInARow)) return undefined;
    this.#blocks = 0;
    return this.#batchInMs;
  }
}
