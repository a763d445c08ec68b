import type { DownloadableLike } from "../clients/blob.js";
import { throwIfAborted } from "../core/deadline.js";
import { retry } from "../core/retry.js";
import { redactUrl, withSpan } from "../core/telemetry.js";
import { requireClient } from "../target/target.js";
import { checkDownloadOptions } from "./download-options.js";
import type { DownloadOptions } from "./download-options.js";
import { discardVersion, openVersion, PinnedRange } from "./pinned-range.js";
import type { OpenedVersion } from "./pinned-range.js";
import { progressOf, stopOnAbort, toDownloadError, VersionChangedError } from "./range-source.js";
import type { RangeSource } from "./range-source.js";

/** The result of {@link downloadConsistent} and {@link downloadConsistentStream}: the content of one version of a blob. */
export interface ConsistentDownload<C = Uint8Array> {
  /** All bytes; or a stream of blocks of `blockSizeInBytes`, to be read to its end or cancelled. */
  readonly content: C;
  /** The ETag of the version. */
  readonly etag: string;
  /** The size of the version. */
  readonly sizeInBytes: number;
  /** Its content type. */
  readonly contentType: string | undefined;
  /** Its metadata. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How often the download started again because the blob had changed. 0 for a stream, which does not start again. */
  readonly restarts: number;
}

/**
 * Downloads a blob into memory, in parallel ranges of one version: each request is conditional on the ETag of the first (the
 * SDK's `downloadToBuffer` sends no such condition, and can return a mix of old and new content). If the blob is rewritten
 * meanwhile, the download starts again.
 *
 * Costs 1 request for each block, so 1 for a small blob (2 if it is empty).
 *
 * @example
 * ```ts
 * const { content, etag } = await downloadConsistent(blob, { maxSizeInBytes: 100_000_000 });
 * ```
 * @throws {@link ContentChangedError} if the blob was rewritten or deleted more often than `maxRestarts`.
 * @throws {@link ContentTooLargeError} if it is larger than `maxSizeInBytes`.
 * @throws {@link TargetNotFoundError} if it does not exist.
 * @throws {@link OperationTimeoutError} if requests make no progress within `tryTimeoutInMs`, several times in a row.
 */
export async function downloadConsistent(blob: DownloadableLike, options: DownloadOptions = {}): Promise<ConsistentDownload> {
  const settings = checkDownloadOptions("downloadConsistent", options);
  requireClient("downloadConsistent", blob, "a blob client");
  const { abortSignal } = options;
  const maxRestarts = settings.onChange === "restart" ? settings.maxRestarts : 0;
  return withSpan("downloadConsistent", options, async (tracingOptions) => {
    const url = redactUrl(blob.url);
    const download = async (attempt: number): Promise<ConsistentDownload> => {
      throwIfAborted(abortSignal);
      const restarts = attempt - 1;
      const source: RangeSource = { blob, url, settings, tracingOptions, stop: new AbortController() };
      const off = stopOnAbort(source, options);
      try {
        return { ...(await downloadOnce(source, restarts)), restarts };
      } catch (error) {
        throw isChanged(error) && restarts < maxRestarts ? error : toDownloadError(error, source, restarts);
      } finally {
        off();
      }
    };
    return retry(download, { maxAttempts: maxRestarts + 1, shouldRetry: isChanged, abortSignal });
  }, { targetKind: "blob", url: blob.url });
}

function isChanged(error: unknown): boolean {
  return error instanceof VersionChangedError;
}

async function downloadOnce(source: RangeSource, restarts: number): Promise<Omit<ConsistentDownload, "restarts">> {
  const { concurrency, blockSizeInBytes } = source.settings;
  const opened = await openVersion(source);
  const { version } = opened;
  const onBytes = progressOf(source, version.sizeInBytes, restarts);
  // All ranges write directly into it. Each restart has a new buffer, which late bytes of the old version cannot reach.
  const content = allocate(opened);
  let next = 0;
  const fetchRanges = async (): Promise<void> => {
    for (let at = next; at < content.length || at === 0; at = next) {
      next = at + blockSizeInBytes;
      const range = new PinnedRange(source, version, at, content.subarray(at, next), onBytes);
      await range.fetch(at === 0 ? opened : undefined);
    }
  };
  const workers = Math.max(1, Math.min(concurrency, Math.ceil(content.length / blockSizeInBytes)));
  await allOrNone(source, Array.from({ length: workers }, fetchRanges));
  return { ...version, content };
}

function allocate(opened: OpenedVersion): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(opened.version.sizeInBytes);
  } catch (error) {
    discardVersion(opened, error); // the body of the first range is still arriving
    throw error;
  }
}

/** If one worker fails, stops the others, and rejects only when all have ended: nothing is in flight then. */
async function allOrNone(source: RangeSource, workers: readonly Promise<void>[]): Promise<void> {
  const { stop } = source;
  await Promise.all(workers.map((worker) => worker.catch((error: unknown) => stop.abort(error))));
  stop.signal.throwIfAborted();
}
