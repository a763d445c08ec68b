import type { FileCreateOptions, FileLike } from "../clients.js";
import { abortReason, onAbort } from "../core/abort.js";
import { bounded, wasSentOnce } from "../core/bounded.js";
import { NotSentError } from "../core/not-sent.js";
import { countSends } from "../core/sends.js";
import { isDefinitive, isMissing } from "../core/storage-errors.js";
import { displayUrl } from "../core/telemetry.js";
import { asideSuffix, fileStaleETag, maxNameLength, putRanges, siblingOf, unleasedOptions } from "./file-requests.js";
import { requireETag } from "./target.js";
import type { RequestContext } from "./target.js";

/** What one writes who holds no lease: to create a file, or to overwrite it. */
export interface UnleasedContent {
  readonly file: FileLike;
  readonly bytes: Uint8Array;
  readonly properties: FileCreateOptions;
  /** `"create"`: only if there is no target. */
  readonly mode: "replace" | "create";
}

/** How often the file beside is begun anew after requests that were not answered. */
const maxTries = 3;
const lookLimitInMs = 2_000;

/**
 * The content is written to a file beside the target, under a name that nobody else has, which then takes the target's
 * name: that happens or does not, for readers and crashes alike. No lease is involved, so that a crash leaves none
 * behind, which would keep everybody out for ever; all that it can leave is the file beside, which is in nobody's way.
 *
 * Returns the ETag of the target. Costs 3 requests, and one more for each further 4 MiB.
 */
export async function putUnleased(content: UnleasedContent, context: RequestContext): Promise<string> {
  const beside = siblingOf(content.file, nameBeside(content.file.name));
  await prepare(beside, content, context);
  const counted = countSends();
  const off = onAbort(context.abortSignal, () => counted.abort(abortReason(context.abortSignal)));
  try {
    const { fileRenameResponse } = await beside.rename(content.file.path, {
      ...unleasedOptions(context, counted.signal),
      ...(content.mode === "replace" && { replaceIfExists: true }),
    });
    return requireETag(fileRenameResponse.etag, displayUrl(content.file.url));
  } catch (error) {
    if (counted.sends() === 1 && isDefinitive(error)) {
      await discard(beside);
      throw error;
    }
    switch (await fateOf(beside)) {
      case "landed":
        // Somebody may have written on top of it by now: an ETag that is read now may be of that.
        return fileStaleETag;
      case "not landed":
        throw new NotSentError(error, true);
      case "unknown":
        throw error;
    }
  } finally {
    off();
  }
}

/** Readable, and one that fits: the name of the target may fill all the room that there is. */
function nameBeside(name: string): string {
  const suffix = `${asideSuffix}-${crypto.randomUUID().slice(-12)}`;
  // Not half a pair of surrogates: it could not be encoded.
  return name.slice(0, maxNameLength - suffix.length).replace(/[\uD800-\uDBFF]$/, "") + suffix;
}

/** Nothing of this is decisive: if it fails, nothing has happened. */
async function prepare(beside: FileLike, { bytes, properties }: UnleasedContent, context: RequestContext): Promise<void> {
  const signal = context.preparing ?? context.abortSignal;
  for (let tries = 1; ; tries++) {
    try {
      await beside.create(bytes.length, { ...properties, ...unleasedOptions(context, signal) });
      await putRanges(beside, bytes, () => unleasedOptions(context, signal));
      return;
    } catch (error) {
      if (tries < maxTries && !isDefinitive(error) && !signal.aborted) continue;
      await discard(beside);
      throw new NotSentError(error, isMissing(error));
    }
  }
}

/** The name is nobody else's: what is not there any more has been renamed, and what has been deleted never will be. */
async function fateOf(beside: FileLike): Promise<"landed" | "not landed" | "unknown"> {
  for (let tries = 1; tries <= maxTries; tries++) {
    try {
      await bounded(lookLimitInMs, undefined, (abortSignal) => beside.getProperties({ abortSignal }));
      return await callOff(beside);
    } catch (error) {
      if (isMissing(error)) return "landed";
    }
  }
  return "unknown";
}

/** A rename that is still on its way finds nothing. */
async function callOff(beside: FileLike): Promise<"landed" | "not landed" | "unknown"> {
  try {
    await bounded(lookLimitInMs, undefined, (abortSignal) => beside.delete({ abortSignal }));
    return "not landed";
  } catch (error) {
    // Gone already when the first and only request came: then the rename was faster. Otherwise it may have been us.
    return isMissing(error) && wasSentOnce(error) ? "landed" : "unknown";
  }
}

/** Can be removed by hand as well: it must not hold up the caller for long. */
async function discard(beside: FileLike): Promise<void> {
  await bounded(lookLimitInMs, undefined, (abortSignal) => beside.delete({ abortSignal })).catch(() => undefined);
}
