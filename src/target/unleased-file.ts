import type { FileCallOptions, FileCreateOptions, FileLike } from "../clients/file.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { read, request } from "../core/request.js";
import { OutcomeUnknownError, resolveWrite, WriteNotSentError } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isDefinitive, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { discardStagingFile, fileStaleETag, maxNameLength, minStagingAgeInMs, putRanges, siblingOf, stagingSuffix, unleasedOptions } from "./file-requests.js";
import type { RequestContext } from "./target.js";

/** What a writer without a lease writes, to create a file or to overwrite it. */
export interface UnleasedContent {
  readonly file: FileLike;
  readonly bytes: Uint8Array;
  readonly properties: FileCreateOptions;
  /** `"create"`: only if there is no target. */
  readonly mode: "replace" | "create";
}

/** How often the staging file is written from the start after requests without a response. */
const maxAttempts = 3;
const checkTimeoutInMs = 2_000;

/**
 * Writes the content to a staging file beside the target, under a name that no other writer uses, and renames it to the
 * target. The rename is atomic for readers and in a crash. No lease is involved: a lease left by a crash would lock out all
 * other clients forever. A crash can only leave the staging file, which affects no other client.
 *
 * Returns the ETag of the target. Costs 3 requests, and one more for each further 4 MiB.
 */
export async function putUnleased(content: UnleasedContent, context: RequestContext): Promise<string> {
  const staging = siblingOf(content.file, uniqueName(content.file.name));
  const writtenFor = await prepare(staging, content, context);
  const outcome = await resolveWrite<string, "renamed" | "discarded">(
    {
      async send(abortSignal) {
        const { fileRenameResponse } = await staging.rename(content.file.path, {
          ...unleasedOptions(context, abortSignal),
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

/** Creates and fills the staging file. If that fails, the target is unchanged. The clock was started before the last write was sent. */
async function prepare(staging: FileLike, { bytes, properties }: UnleasedContent, context: RequestContext): Promise<Clock> {
  const signal = context.preparationSignal ?? context.abortSignal;
  let writtenFor = startStopwatch();
  const options = (): FileCallOptions => {
    writtenFor = startStopwatch();
    return unleasedOptions(context, signal);
  };
  const createAndFill = async (): Promise<void> => {
    await staging.create(bytes.length, { ...properties, ...options() });
    await putRanges(staging, bytes, options);
  };
  try {
    await retry(createAndFill, { maxAttempts, shouldRetry: (error) => !isDefinitive(error), abortSignal: signal });
    return writtenFor;
  } catch (error) {
    await discardStagingFile(staging);
    throw new WriteNotSentError(error, isNotFound(error));
  }
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
