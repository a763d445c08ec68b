import type { DownloadableLike } from "../clients/blob.js";
import { throwIfAborted } from "../core/deadline.js";
import { retry } from "../core/retry.js";
import { redactUrl, withSpan } from "../core/telemetry.js";
import { checkDownloadOptions } from "./download-options.js";
import type { DownloadOptions } from "./download-options.js";
import { openVersion, PinnedRange } from "./pinned-range.js";
import type { BlobVersion } from "./pinned-range.js";
import { explainDownload, progressOf, stopOnAbort, VersionChangedError } from "./range-source.js";
import type { RangeSource } from "./range-source.js";

/** The content of a blob, all of one version. */
export interface ConsistentDownload extends BlobVersion {
  content: Uint8Array;
  /** How often the download started again because the blob had changed. */
  restarts: number;
}

/**
 * Downloads a blob into memory, in parallel ranges that are all of the same version: each is asked for on the
 * condition that the ETag is still that of the first (the SDK's `downloadToBuffer` sets no such condition, and can
 * return half of the old content and half of the new). If the blob is rewritten meanwhile, it starts again.
 *
 * Costs 1 request for each block; so 1 for a small blob (2 if it is empty).
 */
export async function downloadConsistent(blob: DownloadableLike, options: DownloadOptions = {}): Promise<ConsistentDownload> {
  const settings = checkDownloadOptions(options);
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
        throw isChanged(error) && restarts < maxRestarts ? error : explainDownload(error, source, restarts);
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
  // All ranges write straight into it. A new one for each start: whatever still arrives of the old version stays out.
  const content = allocate(version.sizeInBytes, source);
  let next = 0;
  const fetchInTurn = async (): Promise<void> => {
    for (let at = next; at < content.length || at === 0; at = next) {
      next = at + blockSizeInBytes;
      const range = new PinnedRange(source, version, at, content.subarray(at, next), onBytes);
      await range.fetch(at === 0 ? opened : undefined);
    }
  };
  const lanes = Math.max(1, Math.min(concurrency, Math.ceil(content.length / blockSizeInBytes)));
  await allOrNone(source, Array.from({ length: lanes }, fetchInTurn));
  return { ...version, content };
}

function allocate(sizeInBytes: number, { stop }: RangeSource): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(sizeInBytes);
  } catch (error) {
    stop.abort(error); // the first range is on its way
    throw error;
  }
}

/** When one fails, the others are stopped, and only then it is told: nothing is under way any more. */
async function allOrNone(source: RangeSource, lanes: readonly Promise<void>[]): Promise<void> {
  const { stop } = source;
  await Promise.all(lanes.map((lane) => lane.catch((error: unknown) => stop.abort(error))));
  stop.signal.throwIfAborted();
}
