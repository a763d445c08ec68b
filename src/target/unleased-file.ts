import type { FileCreateOptions, FileLike } from "../clients/file.js";
import { RequestTimeoutError, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { read, request } from "../core/request.js";
import type { RequestLimits } from "../core/request.js";
import { OutcomeUnknownError, resolveWrite, WriteNotSentError } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isDefinitive, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { discardStagingFile, fileStaleETag, maxNameLength, minStagingAgeInMs, putRanges, renamedAttributes, siblingOf, stagingSuffix, unleasedOptions } from "./file-requests.js";
import type { RequestContext } from "./target.js";

/** What a writer without a lease writes, to create a file or to overwrite it. */
export interface UnleasedContent {
  readonly file: FileLike;
  readonly bytes: Uint8Array;
  readonly properties: FileCreateOptions;
  /** `"create"`: only if there is no target. */
  readonly mode: "replace" | "create";
}

/** How often another staging file is written, from the start, after requests without a response. */
const maxAttempts = 5;
const checkTimeoutInMs = 2_000;

/**
 * Writes the content to a staging file beside the target, under a name that no other writer uses, and renames it to the
 * target. The rename is atomic for readers and in a crash. No lease is involved: a lease left by a crash would lock out all
 * other clients forever. A crash can only leave the staging file, which affects no other client.
 *
 * Returns the ETag of the target. Costs 3 requests, and one more for each further 4 MiB.
 */
export async function putUnleased(content: UnleasedContent, context: RequestContext): Promise<string> {
  const { staging, writtenFor } = await prepare(content, context);
  const outcome = await resolveWrite<string, "renamed" | "discarded">(
    {
      async send(abortSignal) {
        const { fileRenameResponse } = await staging.rename(content.file.path, {
          ...unleasedOptions(context, abortSignal),
          ...renamedAttributes(content.properties),
          ...(content.mode === "replace" && { replaceIfExists: true }),
        });
        return requireETag(fileRenameResponse.etag, redactUrl(content.file.url));
      },
      readBack: (reason) => renamedOrDiscarded(staging, writtenFor, reason),
      recognise: (found) => (found === "renamed" ? "committed" : "not committed"),
      // A proxy may have sent a copy of the request, which has renamed it.
      onConflict: () => 0,
    },
    // After an abort, the rename may have happened; otherwise the staging file has to be deleted.
    { abortSignal: context.abortSignal, tryLimit: context.tryLimit, resolveAfterAbort: true },
  );
  switch (outcome.kind) {
    case "committed":
      return outcome.value;
    case "recognised":
      // Another client may have overwritten it by now, so an ETag read now may belong to that version.
      return fileStaleETag;
    case "conflict":
      if (outcome.found === "discarded") throw new WriteNotSentError(outcome.error, true);
      // It could not be read whether the staging file was renamed by a copy of the request.
      if (isNotFound(outcome.error)) throw new OutcomeUnknownError("the staging file does not exist any more", { cause: outcome.error });
      await discardStagingFile(staging);
      throw outcome.error;
    case "rejected":
      await discardStagingFile(staging);
      throw outcome.error;
    case "unknown":
      throw new OutcomeUnknownError("whether the staging file was renamed is not known", { cause: outcome.error });
  }
}

/** A readable name within the limit: the name of the target may already have the maximum length. */
function uniqueName(name: string): string {
  const suffix = `${stagingSuffix}-${crypto.randomUUID().slice(-12)}`;
  // Without a lone surrogate, which could not be encoded.
  return name.slice(0, maxNameLength - suffix.length).replace(/[\uD800-\uDBFF]$/, "") + suffix;
}

/** A staging file with the content. The clock was started before its last write was sent. */
interface StagingFile {
  readonly staging: FileLike;
  readonly writtenFor: Clock;
}

/** Creates and fills a staging file. If that fails, the target is unchanged. */
async function prepare(content: UnleasedContent, context: RequestContext): Promise<StagingFile> {
  const { file } = content;
  const abortSignal = context.preparationSignal ?? context.abortSignal;
  const discards: Promise<void>[] = [];
  let timedOut = 0;
  const createAndFill = async (): Promise<StagingFile> => {
    // Under a name of its own: a create of an earlier attempt that arrives late empties a file that is not used.
    const staging = siblingOf(file, uniqueName(file.name));
    const timeoutInMs = context.tryLimit.timeoutInMs(timedOut);
    try {
      return { staging, writtenFor: await fill(staging, content, context, { abortSignal, timeoutInMs }) };
    } catch (error) {
      if (error instanceof RequestTimeoutError) timedOut++;
      discards.push(discardStagingFile(staging));
      throw error;
    }
  };
  try {
    return await retry(createAndFill, { maxAttempts, shouldRetry: (error) => !isDefinitive(error), abortSignal });
  } catch (error) {
    throw new WriteNotSentError(error, isNotFound(error));
  } finally {
    await Promise.all(discards);
  }
}

/**
 * Rejects if the create may arrive once more, because it was sent several times: it would empty the file after it was filled, and the rename
 * would publish that. Another send of a range writes the same bytes, and does no harm.
 */
async function fill(staging: FileLike, { bytes, properties }: UnleasedContent, context: RequestContext, limits: RequestLimits): Promise<Clock> {
  let writtenFor = startStopwatch();
  const created = await request((signal) => staging.create(bytes.length, { ...properties, ...unleasedOptions(context, signal) }), limits);
  if (created.kind !== "ok") throw created.error;
  if (created.sends > 1) throw new Error(`The service did not respond to the first send of a request for the staging file ${staging.name}. Nothing was written.`);
  const write: Pick<FileLike, "uploadRange"> = {
    uploadRange: (part, offset, length) =>
      read((signal) => {
        writtenFor = startStopwatch();
        return staging.uploadRange(part, offset, length, unleasedOptions(context, signal));
      }, limits),
  };
  await putRanges(write, bytes, () => ({}));
  return writtenFor;
}

/**
 * No other writer uses the name: a staging file that does not exist any more has been renamed. One that exists is deleted, so
 * that a rename in flight fails. Rejects if neither can be established: `purgeStagingFiles` may have deleted the staging file of a
 * process that was suspended for longer than such a file is certainly kept.
 */
async function renamedOrDiscarded(staging: FileLike, writtenFor: Clock, reason: "conflict" | "lost"): Promise<"renamed" | "discarded"> {
  const gone = (): "renamed" => {
    // Half of it: the service rounds times to seconds, and clocks drift.
    if (writtenFor() < minStagingAgeInMs / 2) return "renamed";
    throw new OutcomeLostError("whether the staging file was renamed, or deleted because of its age, cannot be known");
  };
  try {
    await read((abortSignal) => staging.getProperties({ abortSignal }), { timeoutInMs: checkTimeoutInMs });
  } catch (error) {
    if (isNotFound(error)) return gone();
    throw error;
  }
  if (reason === "conflict") {
    // The service has rejected the only send, so the delete decides nothing.
    await discardStagingFile(staging);
    return "discarded";
  }
  const deleted = await request((abortSignal) => staging.delete({ abortSignal }), { timeoutInMs: checkTimeoutInMs });
  if (deleted.kind === "ok") return "discarded";
  // Gone when the only delete arrived: the rename was faster. With several sends, an earlier delete may have removed it.
  if (deleted.kind === "rejected" && isNotFound(deleted.error)) return gone();
  throw new OutcomeLostError("whether the staging file was renamed or deleted cannot be known", { cause: deleted.error });
}

/** Another read would not help: the staging file is gone in both cases. */
class OutcomeLostError extends TypeError {
  override readonly name = "OutcomeLostError";
}
