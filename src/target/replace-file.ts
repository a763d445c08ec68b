import type { FileCreateOptions, FileLike } from "../clients/file.js";
import { request } from "../core/request.js";
import { WriteNotSentError } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isDefinitive, isLeaseConflict, isLeaseTaken, isNotFound, isNotLeased } from "../core/storage-errors.js";
import { logger, redactUrl } from "../core/telemetry.js";
import { putRanges, unleasedOptions } from "./file-requests.js";
import { requireETag } from "../core/validate.js";
import type { RequestContext } from "./target.js";

/**
 * How new content replaces old content at once, although the service can only write a file piece by piece.
 *
 * It is written to a staging file beside the target, which is then renamed to the target: a rename happens or does not, for
 * readers and crashes alike. There is one staging file for each target, always of the same name: the staging file of a crashed
 * writer is found without searching, and the next write uses it up.
 *
 * The staging file is leased before it is renamed, with the id of the lease that the writer holds on the target:
 * - A writer that was stopped, and whose lease was broken, can do no harm when it wakes up. Its rename carries an id that
 *   is worth nothing any more, and is refused.
 * - The lease travels with the rename, so the target is under the same lease afterwards as before.
 * Not before it is complete: the rename of an earlier send, whose response was lost and which is still in flight, would
 * find the half of it under the right id. Until then another writer can write to it, one that was stopped and does not
 * know that it has lost the lease. The ETag tells: a lease leaves it alone. Then it is written once more, under the lease.
 *
 * The holder of the lease on the target takes the staging file from any other writer: those have lost it. That is safe even
 * if such a writer is alive: its rename is refused.
 */
export interface Replacement {
  readonly file: FileLike;
  readonly staging: FileLike;
  readonly bytes: Uint8Array;
  /** What the rename brings along. */
  readonly properties: FileCreateOptions;
  /** The lease on the target that the writer holds. */
  readonly leaseId: string;
}

/** A leftover can be deleted later as well: it must not hold up the caller for long. */
const discardTimeoutInMs = 2_000;

/** How often a staging file is taken from other writers that keep coming back. */
const maxTakeovers = 20;

/** Returns the ETag of the target. Costs 4 requests, and one more for each further 4 MiB. */
export async function replaceViaStaging(replacement: Replacement, context: RequestContext): Promise<string> {
  const { file, staging, leaseId } = replacement;
  await prepare(replacement, context);
  try {
    const { fileRenameResponse } = await staging.rename(file.path, {
      ...unleasedOptions(context, context.abortSignal),
      replaceIfExists: true,
      sourceLeaseAccessConditions: { leaseId },
      destinationLeaseAccessConditions: { leaseId },
    });
    return requireETag(fileRenameResponse.etag, redactUrl(file.url));
  } catch (error) {
    await discard(staging, leaseId);
    throw error;
  }
}

/** Deletes the staging file that a crashed writer left. For holders of the lease on the target. Costs 1 request if there is none. */
export async function deleteStagingFile(staging: FileLike, context: RequestContext): Promise<void> {
  await takingOver(staging, context, context.abortSignal, async () => {
    try {
      await staging.delete(unleasedOptions(context, context.abortSignal));
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  });
}

/** Creates the staging file, fills it and leases it. Only writers of the same target notice. */
async function prepare(replacement: Replacement, context: RequestContext): Promise<void> {
  const { staging, leaseId } = replacement;
  const signal = context.preparationSignal ?? context.abortSignal;
  const created = { maybe: false };
  const fillAndLease = async (): Promise<"undisturbed" | "disturbed"> => {
    try {
      created.maybe = true;
      const etag = await fill(replacement, context, undefined);
      const lease = await staging.getShareLeaseClient(leaseId).acquireLease(-1, unleasedOptions(context, signal));
      return etag !== undefined && lease.etag === etag ? "undisturbed" : "disturbed";
    } catch (error) {
      if (isDefinitive(error)) created.maybe = false;
      throw error;
    }
  };
  try {
    if ((await takingOver(staging, context, signal, fillAndLease)) === "disturbed") await fill(replacement, context, leaseId);
  } catch (error) {
    if (created.maybe) await discard(staging, leaseId);
    if (!isDefinitive(error)) throw error;
    // Another writer took it over, or deleted it. If that is because the lease on the target is lost, reading tells.
    throw new WriteNotSentError(error, isLeaseConflict(error) || isNotFound(error));
  }
}

/** Carries out an operation on the staging file; if the lease of another writer rejects it, breaks that lease and tries again. */
async function takingOver<R>(staging: FileLike, context: RequestContext, signal: AbortSignal, operation: () => Promise<R>): Promise<R> {
  const isTaken = (error: unknown): boolean => isLeaseConflict(error) || isLeaseTaken(error);
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

/** Returns the ETag that the staging file has then. */
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

/** Deletes a staging file of this writer that is of no use any more. Also keeps a rename in flight from taking effect. */
async function discard(staging: FileLike, leaseId: string): Promise<void> {
  const attempt = (options: { leaseAccessConditions?: { leaseId: string } }) =>
    request((abortSignal) => staging.delete({ ...options, abortSignal }), { timeoutInMs: discardTimeoutInMs });
  const discarded = await attempt({ leaseAccessConditions: { leaseId } });
  // Not leased yet.
  if (discarded.kind !== "ok" && isLeaseConflict(discarded.error)) await attempt({});
}
