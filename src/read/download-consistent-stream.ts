import type { DownloadableLike } from "../clients.js";
import { throwIfAborted } from "../internal/abort.js";
import { withSpan } from "../internal/tracing.js";
import { displayUrl } from "../internal/url.js";
import { openVersion } from "./blob-version.js";
import type { BlobVersion } from "./blob-version.js";
import { BlockWindow } from "./block-window.js";
import { explainDownload } from "./download-errors.js";
import { checkDownloadOptions } from "./download-options.js";
import type { DownloadStreamOptions } from "./download-options.js";
import { progressOf, stopOnAbort } from "./range-source.js";
import type { RangeSource } from "./range-source.js";

/** The content of a blob as a stream, all of one version. */
export interface ConsistentStream extends BlobVersion {
  /** In blocks of `blockSizeInBytes`. Read it to its end or cancel it. */
  content: ReadableStream<Uint8Array>;
}

/**
 * As `downloadConsistent`, for what does not fit into memory: parallel ranges of one version, handed out in order. Up
 * to `concurrency` blocks are fetched ahead and kept, and no further one until the first of them is taken.
 *
 * What was handed out cannot be taken back: if the blob is rewritten or deleted before the end, the stream fails with
 * a `ContentChangedError`, and what was read of it is only the beginning of the old version. There is no restart.
 */
export async function downloadConsistentStream(blob: DownloadableLike, options: DownloadStreamOptions = {}): Promise<ConsistentStream> {
  const settings = checkDownloadOptions(options);
  return withSpan("downloadConsistentStream", options, async (tracingOptions) => {
    throwIfAborted(options.abortSignal);
    const source: RangeSource = { blob, url: displayUrl(blob.url), settings, tracingOptions, stop: new AbortController() };
    // Listened to only while a request is under way: a stream that is dropped leaves no listener behind.
    const whileStoppable = async <R>(work: () => Promise<R>): Promise<R> => {
      const off = stopOnAbort(source, options);
      try {
        return await work();
      } finally {
        off();
      }
    };
    const opened = await whileStoppable(() => openVersion(source)).catch((error: unknown) => {
      throw explainDownload(error, source, 0);
    });
    const blocks = new BlockWindow(source, opened, progressOf(source, opened.version.sizeInBytes, 0), whileStoppable);
    return { ...opened.version, content: streamOf(source, blocks) };
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
          throw explainDownload(error, source, 0);
        }
      },
      cancel: (reason: unknown) => blocks.cancel(reason),
    },
    // The window is the buffer.
    { highWaterMark: 0 },
  );
}
