import type { OpenedVersion } from "./blob-version.js";
import { PinnedRange } from "./pinned-range.js";
import type { RangeSource } from "./range-source.js";

/** Runs work that the caller's signal can stop. */
export type WhileStoppable = <R>(work: () => Promise<R>) => Promise<R>;

/** The blocks of one version in order: as many as `concurrency` says are fetched ahead of the one that is taken. */
export class BlockWindow {
  readonly #source: RangeSource;
  readonly #opened: OpenedVersion;
  readonly #onBytes: (count: number) => void;
  readonly #whileStoppable: WhileStoppable;
  readonly #ahead: Promise<Uint8Array>[] = [];
  #next = 0;

  constructor(source: RangeSource, opened: OpenedVersion, onBytes: (count: number) => void, whileStoppable: WhileStoppable) {
    this.#source = source;
    this.#opened = opened;
    this.#onBytes = onBytes;
    this.#whileStoppable = whileStoppable;
    this.#lookAhead();
  }

  /** The next block; undefined after the last. */
  take(): Promise<Uint8Array | undefined> {
    return this.#whileStoppable(async () => {
      const block = await this.#ahead[0];
      this.#source.stop.signal.throwIfAborted();
      void this.#ahead.shift();
      this.#lookAhead();
      return block?.length ? block : undefined;
    });
  }

  /** Resolves when nothing is under way any more. */
  async cancel(reason: unknown): Promise<void> {
    this.#source.stop.abort(reason);
    await Promise.allSettled(this.#ahead);
    this.#ahead.length = 0;
  }

  #lookAhead(): void {
    const { concurrency, blockSizeInBytes } = this.#source.settings;
    const { sizeInBytes } = this.#opened.version;
    while (this.#ahead.length < concurrency && (this.#next < sizeInBytes || this.#next === 0)) {
      const offset = this.#next;
      this.#next += blockSizeInBytes;
      const block = this.#fetch(offset, Math.min(blockSizeInBytes, sizeInBytes - offset));
      // Told to whoever takes it, which may be later.
      block.catch(() => undefined);
      this.#ahead.push(block);
    }
  }

  async #fetch(offset: number, length: number): Promise<Uint8Array> {
    try {
      const block = new Uint8Array(length);
      const range = new PinnedRange(this.#source, this.#opened.version, offset, block, this.#onBytes);
      await this.#whileStoppable(() => range.fetch(offset === 0 ? this.#opened : undefined));
      return block;
    } catch (error) {
      this.#source.stop.abort(error);
      throw this.#source.stop.signal.reason;
    }
  }
}
