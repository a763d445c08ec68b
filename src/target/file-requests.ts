import type { FileResponseLike, FileCallOptions, FileCreateOptions, FileHttpHeadersLike, FileLike, FileRenameOptions } from "../clients/file.js";
import { request } from "../core/request.js";
import { OutcomeUnknownError, WriteNotSentError } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isDefinitive, isLeaseConflict, isLeaseTaken, isNotFound, isNotLeased } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { withSignal } from "./target.js";
import type { RequestContext } from "./target.js";

/** Shared by the adapters of files and shares. */

export const fileStaleETag = '"0x0"';

/** The options of one request. Counts the request. */
export function fileOptions(context: RequestContext): FileCallOptions {
  return {
    ...unleasedOptions(context, context.abortSignal),
    ...(context.leaseId !== undefined && { leaseAccessConditions: { leaseId: context.leaseId } }),
  };
}

/** The same for a request to a file other than the leased one. */
export function unleasedOptions(context: RequestContext, abortSignal: AbortSignal): FileCallOptions {
  context.onRequest?.();
  return { abortSignal, ...(context.tracingOptions && { tracingOptions: context.tracingOptions }) };
}

/** The headers in the form in which they are written. `Content-MD5` is omitted: it belongs to the content. */
export function fileHeadersOf(response: FileResponseLike): FileHttpHeadersLike {
  return {
    ...(response.contentType && { fileContentType: response.contentType }),
    ...(response.cacheControl && { fileCacheControl: response.cacheControl }),
    ...(response.contentEncoding && { fileContentEncoding: response.contentEncoding }),
    ...(response.contentLanguage && { fileContentLanguage: response.contentLanguage }),
    ...(response.contentDisposition && { fileContentDisposition: response.contentDisposition }),
  };
}

export function checkFile(file: FileLike): void {
  const given = file as Partial<FileLike> | null | undefined;
  if (typeof given?.uploadRange !== "function" || typeof given.rename !== "function") {
    throw new TypeError("The client must be a ShareFileClient.");
  }
}

/** Suffix of the staging file: new content is written to a file with the target's name and this suffix, beside the target. */
export const stagingSuffix = ".asc-new";

/** Appended to the suffix if the staging file belongs to a single call. */
const uniqueSuffix = /^-[0-9a-f]{12}$/;

/** The name of the target of a staging file; undefined: the file is not a staging file. `unique`: only one call uses the staging file. */
export function parseStagingName(name: string): { readonly targetName: string; readonly unique: boolean } | undefined {
  const at = name.lastIndexOf(stagingSuffix);
  if (at <= 0) return undefined;
  const rest = name.slice(at + stagingSuffix.length);
  const unique = uniqueSuffix.test(rest);
  return unique || rest === "" ? { targetName: name.slice(0, at), unique } : undefined;
}

/**
 * A staging file that was written less than this ago is never deleted by another process. So, for that long, a writer knows what became of a
 * staging file of its own that does not exist any more. A writer takes seconds between its last write and its rename.
 */
export const minStagingAgeInMs = 600_000;

/** The maximum length of a file name that the service accepts. */
export const maxNameLength = 255;

/** The maximum that the service accepts in one request. */
export const maxRangeInBytes: number = 4 * 1024 * 1024;

/**
 * Fills a file that was created with this length. Sends one request for each 4 MiB, one after the other, and none if the file
 * is empty. Returns the ETag from the last response.
 */
export async function putRanges(file: Pick<FileLike, "uploadRange">, bytes: Uint8Array, options: () => FileCallOptions): Promise<string | undefined> {
  let etag: string | undefined;
  for (let offset = 0; offset < bytes.length; offset += maxRangeInBytes) {
    const part = bytes.subarray(offset, offset + maxRangeInBytes);
    ({ etag } = await file.uploadRange(part, offset, part.length, options()));
  }
  return etag;
}

/**
 * A client for another file in the same directory, with the same credentials and policies. The SDK offers no way from a file
 * to its directory, so this does what the SDK's `withShareSnapshot` does: it constructs the same class with another URL and
 * the same pipeline.
 */
export function siblingOf(file: FileLike, name: string): FileLike {
  const { pipeline, shareClientConfig } = file as { pipeline?: unknown; shareClientConfig?: unknown };
  if (typeof pipeline !== "object" || pipeline === null) throw new TypeError("The client must be a ShareFileClient: it has no pipeline.");
  const url = new URL(file.url);
  url.pathname = url.pathname.slice(0, url.pathname.lastIndexOf("/") + 1) + encodeURIComponent(name);
  return Reflect.construct(file.constructor, [url.toString(), pipeline, shareClientConfig]) as FileLike;
}

/**
 * Atomic replacement of a file's content, although the service can only write a file range by range.
 *
 * New content is written to a staging file beside the target, which is then renamed to the target. The rename is atomic for
 * readers and in a crash. Each target has one staging file, always of the same name: the staging file of a crashed writer is
 * found without searching, and the next write replaces it.
 *
 * The staging file is leased before it is renamed, with the id of the lease that the writer holds on the target:
 * - A writer that was suspended, and whose lease was broken meanwhile, cannot overwrite anything when it resumes. Its rename
 *   carries an id that is not valid any more, and is rejected.
 * - The lease moves with the rename, so the target has the same lease before and after it.
 * It is leased only once it is complete. If it were leased earlier, the rename of an earlier send, whose response was lost
 * and which is still in flight, would find a partly written file under the right id. Until it is leased, another writer that
 * was suspended and does not know that it has lost the lease can write to it. The ETag shows that, since acquiring a lease
 * does not change it. The staging file is then written once more, under the lease.
 *
 * The holder of the lease on the target takes the staging file over from any other writer: such a writer has lost the lease.
 * That is safe even if that writer is still running, because its rename is rejected.
 */
export interface Replacement {
  readonly file: FileLike;
  readonly staging: FileLike;
  readonly bytes: Uint8Array;
  /** The properties of the staging file, which the target has after the rename. */
  readonly properties: FileCreateOptions;
  /** The lease on the target that the writer holds. */
  readonly leaseId: string;
}

/** A leftover staging file can also be deleted later, so the caller must not wait long for it. */
const discardTimeoutInMs = 2_000;

/** How often a staging file is taken over from other writers that lease it again. */
const maxTakeovers = 20;

/** The attributes of the target, set by the rename: Create File would add Archive to those of the staging file. */
export function renamedAttributes(properties: FileCreateOptions): FileRenameOptions {
  const { fileAttributes } = properties as { fileAttributes?: string };
  return fileAttributes === undefined ? {} : { copyFileSmbInfo: { fileAttributes } };
}

/** Returns the ETag of the target. Costs 4 requests, and one more for each further 4 MiB. */
export async function replaceViaStaging(replacement: Replacement, context: RequestContext): Promise<string> {
  const { file, staging, leaseId, properties } = replacement;
  await prepare(replacement, context);
  try {
    const { fileRenameResponse } = await staging.rename(file.path, {
      ...unleasedOptions(context, context.abortSignal),
      ...renamedAttributes(properties),
      replaceIfExists: true,
      sourceLeaseAccessConditions: { leaseId },
      destinationLeaseAccessConditions: { leaseId },
    });
    return requireETag(fileRenameResponse.etag, redactUrl(file.url));
  } catch (error) {
    if (isNotFound(error)) throw await stagingFileGone(file, error, context);
    await discardStagingFile(staging, leaseId);
    throw error;
  }
}

/**
 * The service says that the staging file does not exist, which was there under the lease of this writer. If that lease is lost, the next
 * holder has deleted it. Otherwise a copy of the request, made by a proxy, may have renamed it: what is stored decides.
 */
async function stagingFileGone(file: FileLike, cause: unknown, context: RequestContext): Promise<Error> {
  try {
    // With a signal of its own: it must not count as a send of the write.
    await file.getProperties(fileOptions(withSignal(context, context.preparationSignal ?? context.abortSignal)));
  } catch (error) {
    if (isLeaseConflict(error)) return new WriteNotSentError(error, true);
  }
  return new OutcomeUnknownError("the staging file does not exist any more", { cause });
}

/** Deletes the staging file that a crashed writer left. For holders of the lease on the target. Costs 1 request if there is none. */
export async function deleteStagingFile(staging: FileLike, context: RequestContext): Promise<void> {
  await withTakeover(staging, context, context.abortSignal, async () => {
    try {
      await staging.delete(unleasedOptions(context, context.abortSignal));
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  });
}

/** Creates the staging file, fills it and leases it. Affects other writers of the same target only. */
async function prepare(replacement: Replacement, context: RequestContext): Promise<void> {
  const { staging, leaseId } = replacement;
  const signal = context.preparationSignal ?? context.abortSignal;
  const own = { mayExist: false };
  const fillAndLease = async (): Promise<"unchanged" | "changed"> => {
    try {
      own.mayExist = true;
      const etag = await fill(replacement, context, undefined);
      const lease = await staging.getShareLeaseClient(leaseId).acquireLease(-1, unleasedOptions(context, signal));
      return etag !== undefined && lease.etag === etag ? "unchanged" : "changed";
    } catch (error) {
      // Another writer has taken the staging file over, or deleted it: what exists now belongs to that writer.
      if (isTaken(error) || isNotFound(error)) own.mayExist = false;
      throw error;
    }
  };
  try {
    if ((await withTakeover(staging, context, signal, fillAndLease)) === "changed") await fill(replacement, context, leaseId);
  } catch (error) {
    // Also if the service rejected a request: the quota of the share may be reached, or a permission missing.
    if (own.mayExist) await discardStagingFile(staging, leaseId);
    if (!isDefinitive(error)) throw error;
    // Another writer took it over, or deleted it. If the reason is that the lease on the target is lost, the next read shows it.
    throw new WriteNotSentError(error, isLeaseConflict(error) || isNotFound(error));
  }
}

/** Performs an operation on the staging file. If it fails because of another writer's lease, breaks that lease and tries again. */
async function withTakeover<R>(staging: FileLike, context: RequestContext, signal: AbortSignal, operation: () => Promise<R>): Promise<R> {
  try {
    return await operation();
  } catch (error) {
    if (!isTaken(error)) throw error;
  }
  const takeOver = async (): Promise<R> => {
    await breakLease(staging, context, signal);
    return operation();
  };
  return retry(takeOver, { maxAttempts: maxTakeovers, shouldRetry: isTaken, abortSignal: signal });
}

/** Another writer has leased the staging file. */
function isTaken(error: unknown): boolean {
  return isLeaseConflict(error) || isLeaseTaken(error);
}

/** Creates and fills the staging file. Returns its ETag. */
async function fill({ staging, bytes, properties }: Replacement, context: RequestContext, leaseId: string | undefined): Promise<string | undefined> {
  const signal = context.preparationSignal ?? context.abortSignal;
  const options = () => ({
    ...unleasedOptions(context, signal),
    ...(leaseId !== undefined && { leaseAccessConditions: { leaseId } }),
  });
  const { etag } = await staging.create(bytes.length, { ...properties, ...options() });
  return (await putRanges(staging, bytes, options)) ?? etag;
}

async function breakLease(staging: FileLike, context: RequestContext, abortSignal: AbortSignal): Promise<void> {
  try {
    await staging.getShareLeaseClient().breakLease(unleasedOptions(context, abortSignal));
    logger.verbose(`took over the staging file ${redactUrl(staging.url)} of another writer`);
  } catch (error) {
    if (!isNotLeased(error) && !isNotFound(error)) throw error;
  }
}

/**
 * Deletes a staging file of this writer that is not needed any more. This also prevents a rename in flight from taking effect. Bounded
 * in time, and never rejects: the caller already has an error. `purgeStagingFiles` deletes what is left.
 */
export async function discardStagingFile(staging: FileLike, leaseId?: string): Promise<void> {
  const attempt = (options: { leaseAccessConditions?: { leaseId: string } }) =>
    request((abortSignal) => staging.delete({ ...options, abortSignal }), { timeoutInMs: discardTimeoutInMs });
  let discarded = await attempt(leaseId === undefined ? {} : { leaseAccessConditions: { leaseId } });
  // Not leased yet.
  if (leaseId !== undefined && discarded.kind !== "ok" && isLeaseConflict(discarded.error)) discarded = await attempt({});
  if (discarded.kind === "ok" || isNotFound(discarded.error)) return;
  logger.warning(`the staging file ${redactUrl(staging.url)} could not be deleted (${errorLabel(discarded.error)}); purgeStagingFiles deletes it`);
}
