import type { FileCreateOptions, FileLike } from "../clients/file.js";
import { read, request } from "../core/request.js";
import { resolveWrite, WriteNotSentError } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isDefinitive, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { fileStaleETag, maxNameLength, putRanges, siblingOf, stagingSuffix, unleasedOptions } from "./file-requests.js";
import { requireETag } from "../core/validate.js";
import type { RequestContext } from "./target.js";

/** What a writer without a lease writes: to create a file, or to overwrite it. */
export interface UnleasedContent {
  readonly file: FileLike;
  readonly bytes: Uint8Array;
  readonly properties: FileCreateOptions;
  /** `"create"`: only if there is no target. */
  readonly mode: "replace" | "create";
}

/** How often the staging file is begun anew after requests without a response. */
const maxAttempts = 3;
const checkTimeoutInMs = 2_000;

/**
 * The content is written to a staging file beside the target, under a name that no other writer has, which is then renamed
 * to the target: that happens or does not, for readers and crashes alike. No lease is involved, so a crash leaves none
 * behind, which would keep all other clients out forever; it can only leave the staging file, which is in no one's way.
 *
 * Returns the ETag of the target. Costs 3 requests, and one more for each further 4 MiB.
 */
export async function putUnleased(content: UnleasedContent, context: RequestContext): Promise<string> {
  const staging = siblingOf(content.file, uniqueName(content.file.name));
  await prepare(staging, content, context);
  const outcome = await resolveWrite<string, "renamed" | "discarded">(
    {
      async send(abortSignal) {
        const { fileRenameResponse } = await staging.rename(content.file.path, {
          ...unleasedOptions(context, abortSignal),
          ...(content.mode === "replace" && { replaceIfExists: true }),
        });
        return requireETag(fileRenameResponse.etag, redactUrl(content.file.url));
      },
      readBack: () => renamedOrDiscarded(staging),
      recognise: (found) => (found === "renamed" ? "committed" : "not committed"),
    },
    // Cancelled, it must not leave the staging file behind; and the rename may have happened.
    { abortSignal: context.abortSignal, resolveAfterAbort: true },
  );
  switch (outcome.kind) {
    case "committed":
      return outcome.value;
    case "recognised":
      // Another client may have written on top of it by now: an ETag that is read now may be of that.
      return fileStaleETag;
    case "conflict":
      await discard(staging);
      throw outcome.found === undefined ? outcome.error : new WriteNotSentError(outcome.error, true);
    case "rejected":
      await discard(staging);
      throw outcome.error;
    case "unknown":
      throw outcome.error;
  }
}

/** Readable, and one that fits: the name of the target may have the maximum length. */
function uniqueName(name: string): string {
  const suffix = `${stagingSuffix}-${crypto.randomUUID().slice(-12)}`;
  // Not half a pair of surrogates: it could not be encoded.
  return name.slice(0, maxNameLength - suffix.length).replace(/[\uD800-\uDBFF]$/, "") + suffix;
}

/** Nothing of this is decisive: if it fails, nothing has happened to the target. */
async function prepare(staging: FileLike, { bytes, properties }: UnleasedContent, context: RequestContext): Promise<void> {
  const signal = context.preparationSignal ?? context.abortSignal;
  const createAndFill = async (): Promise<void> => {
    await staging.create(bytes.length, { ...properties, ...unleasedOptions(context, signal) });
    await putRanges(staging, bytes, () => unleasedOptions(context, signal));
  };
  try {
    await retry(createAndFill, { maxAttempts, shouldRetry: (error) => !isDefinitive(error), abortSignal: signal });
  } catch (error) {
    await discard(staging);
    throw new WriteNotSentError(error, isNotFound(error));
  }
}

/**
 * The name is no other writer's: a staging file that does not exist any more has been renamed. One that exists is deleted, so
 * that a rename in flight finds nothing. Rejects if neither can be found out.
 */
async function renamedOrDiscarded(staging: FileLike): Promise<"renamed" | "discarded"> {
  try {
    await read((abortSignal) => staging.getProperties({ abortSignal }), { timeoutInMs: checkTimeoutInMs });
  } catch (error) {
    if (isNotFound(error)) return "renamed";
    throw error;
  }
  const deleted = await request((abortSignal) => staging.delete({ abortSignal }), { timeoutInMs: checkTimeoutInMs });
  if (deleted.kind === "ok") return "discarded";
  // Gone when the first and only delete arrived: the rename was faster. Otherwise it may have been an earlier delete of ours.
  if (deleted.kind === "rejected" && isNotFound(deleted.error)) return "renamed";
  throw new OutcomeLostError("whether the staging file was renamed or deleted cannot be known", { cause: deleted.error });
}

/** A further look would tell nothing: the staging file is gone either way. */
class OutcomeLostError extends TypeError {
  override readonly name = "OutcomeLostError";
}

/** A leftover can be deleted later as well: it must not hold up the caller for long. */
async function discard(staging: FileLike): Promise<void> {
  await request((abortSignal) => staging.delete({ abortSignal }), { timeoutInMs: checkTimeoutInMs });
}
