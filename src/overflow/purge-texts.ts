import type { BlobItemLike, ContainerLike } from "../clients/blob.js";
import type { CallOptions, PurgeResult } from "../clients/call.js";
import { throwIfAborted } from "../core/deadline.js";
import { iterate } from "../core/iterate.js";
import { inParallel } from "../core/parallel.js";
import { request } from "../core/request.js";
import { isDefinitive, isNotFound, isParentNotFound, isUnauthorized, toConcurrencyError } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";

/** Longer than the SDK's own retries, which take 16 s. */
const timeoutInMs = 30_000;
/** Of the 20,000 requests a second of an account, far below what would disturb others. */
const concurrency = 16;

/** A blob with a text, as the service lists it. */
export interface OldBlob {
  readonly name: string;
  readonly etag: string;
  readonly lastModified: Date;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Which blobs a purge deletes. */
export interface OldTexts {
  readonly prefix: string;
  /** Time in milliseconds since 1970: only blobs that were not written since. */
  readonly writtenBefore: number;
  /** Decides at the last moment. @defaultValue all of them */
  readonly mayDelete?: (blob: OldBlob) => Promise<boolean>;
}

/** Deletes old texts, each on the condition that it was not written since it was found. */
export async function purgeTexts(container: ContainerLike, texts: OldTexts, call: CallOptions): Promise<PurgeResult> {
  const result = { deleted: 0, kept: 0 };
  try {
    await inParallel(oldBlobs(container, texts, call), concurrency, async (blob) => {
      const outcome = texts.mayDelete && !(await texts.mayDelete(blob)) ? "kept" : await deleteUnchanged(container, blob, call);
      if (outcome !== "gone") result[outcome]++;
    });
    return result;
  } catch (error) {
    throw toConcurrencyError(error, redactUrl(container.url));
  }
}

async function* oldBlobs(container: ContainerLike, { prefix, writtenBefore, mayDelete }: OldTexts, { abortSignal, tracingOptions }: CallOptions): AsyncGenerator<OldBlob, undefined, undefined> {
  const open = (signal: AbortSignal): AsyncIterable<BlobItemLike> =>
    container.listBlobsFlat({ prefix, ...(mayDelete && { includeMetadata: true }), abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
  for await (const { name, properties, metadata = {} } of iterate(open, { abortSignal, timeoutInMs })) {
    const { lastModified, etag } = properties;
    if (!lastModified || lastModified.getTime() > writtenBefore || etag === undefined) continue;
    yield { name, etag: etag.startsWith('"') ? etag : `"${etag}"`, lastModified, metadata };
  }
  return undefined;
}

/** A process may write the same text again at this moment: it has written the blob anew, and the ETag differs. */
async function deleteUnchanged(container: ContainerLike, { name, etag }: OldBlob, { abortSignal, tracingOptions }: CallOptions): Promise<"deleted" | "kept" | "gone"> {
  const options = { conditions: { ifMatch: etag }, ...(tracingOptions && { tracingOptions }) };
  const sent = await request((signal) => container.getBlockBlobClient(name).delete({ ...options, abortSignal: signal }), { timeoutInMs, abortSignal });
  if (sent.kind === "ok") return "deleted";
  const { error, sends } = sent;
  throwIfAborted(abortSignal);
  // The response to a re-send of the SDK: the first send has deleted it.
  if (isNotFound(error)) return sends > 1 ? "deleted" : "gone";
  if (!isDefinitive(error) || isUnauthorized(error) || isParentNotFound(error)) throw error;
  logger.verbose(`${redactUrl(container.url)}: a text in a blob was not deleted: ${errorLabel(error)}`);
  return "kept";
}
