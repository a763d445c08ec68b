import type { DownloadableLike } from "../clients/blob.js";
import { throwIfAborted } from "../core/deadline.js";
import { redactUrl, withSpan } from "../core/telemetry.js";
import { requireClient } from "../target/target.js";
import { checkDownloadOptions } from "./download-options.js";
import type { DownloadStreamOptions } from "./download-options.js";
import { openVersion, PinnedRange } from "./pinned-range.js";
import type { ConsistentDownload } from "./download-consistent.js";
import type { OpenedVersion } from "./pinned-range.js";
import { progressOf, stopOnAbort, toDownloadError } from "./range-source.js";
import type { RangeSource } from "./range-source.js";

/**
 * Like `downloadConsistent`, for blobs that do not fit into memory: parallel ranges of one version, delivered in order. Up to
 * `concurrency` blocks are prefetched and kept, and no further one until the first of them is consumed.
 *
 * Delivered content cannot be revoked: if the blob is rewritten or deleted before the end, the stream fails with a
 * {@link ContentChangedError}, and what was read is only the beginning of the old version. There is no restart.
 *
 * @example
 * ```ts
 * const { content } = await downloadConsistentStream(blob);
 * for await (const chunk of content) await sink.write(chunk);
 * ```
 * @throws {@link ContentTooLargeError} if the blob is larger than `maxSizeInBytes`.
 * @throws {@link TargetNotFoundError} if it does not exist.
 * @throws {@link OperationTimeoutError} if requests make no progress within `tryTimeoutInMs`, several times in a row.
 */
export async function downloadConsistentStream(
  blob: DownloadableLike,
  options: DownloadStreamOptions = {},
): Promise<ConsistentDownload<ReadableStream<Uint8Array>>> {
  const settings = checkDownloadOptions("downloadConsistentStream", options);
  requireClient("downloadConsistentStream", blob, "a blob client");
  return withSpan("downloadConsistentStream", options, async (tracingOptions) => {
    throwIfAborted(options.abortSignal);
    const source: RangeSource = { blob, url: redactUrl(blob.url), settings, tracingOptions, stop: new AbortController() };
    // Listens only while a request is in flight: a stream that is dropped leaves no listener.
    const whileStoppable = async <R>(work: () => Promise<R>): Promise<R> => {
      const off = stopOnAbort(source, options);
      try {
        return await work();
      } finally {
        off();
      }
    };
    const opened = await whileStoppable(() => openVersion(source)).catch((error: unknown) => {
      throw toDownloadError(error, source, 0);
    });
    const blocks = new BlockWindow(source, opened, progressOf(source, opened.version.sizeInBytes, 0), whileStoppable);
    return { ...opened.version, content: streamOf(source, blocks), restarts: 0 };
  }, { targetKind: "blob", url: blob.url });
}

function streamOf(source: RangeSource, blocks: BlockWindow): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const block = await blocks.take();
          if (block) controller.enqueue(block);
          else controller.close();
        } catch (error) {
          throw toDownloadError(error, source, 0);
        }
      },
      cancel: (reason: unknown) => blocks.cancel(reason),
    },
    // The window is the buffer.
    { highWaterMark: 0 },
  );
}

/** Runs work that the caller's signal can stop. */
type WhileStoppable = <R>(work: () => Promise<R>) => Promise<R>;

/** The blocks of one version in order. Prefetches up to `concurrency` blocks. */
class BlockWindow {
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
    this.#prefetch();
  }

  /** The next block; undefined after the last. */
  take(): Promise<Uint8Array | undefined> {
    return this.#whileStoppable(async () => {
      const block = await this.#ahead[0];
      this.#source.stop.signal.throwIfAborted();
      void this.#ahead.shift();
      this.#prefetch();
      return block?.length ? block : undefined;
    });
  }

  /** Resolves when nothing is in flight any more. */
  async cancel(reason: unknown): Promise<void> {
    this.#source.stop.abort(reason);
    await Promise.allSettled(this.#ahead);
    this.#ahead.length = 0;
  }

  #prefetch(): void {
    const { concurrency, blockSizeInBytes } = this.#source.settings;
    const { sizeInBytes } = this.#opened.version;
    while (this.#ahead.length < concurrency && (this.#next < sizeInBytes || this.#next === 0)) {
      const offset = this.#next;
      this.#next += blockSizeInBytes;
      const block = this.#fetch(offset, Math.min(blockSizeInBytes, sizeInBytes - offset));
      // `take` reports the error, possibly later.
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
