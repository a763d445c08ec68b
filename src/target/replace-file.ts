import type { FileCreateOptions, FileLike } from "../clients.js";
import { bounded } from "../core/bounded.js";
import { NotSentError } from "../core/not-sent.js";
import { isDefinitive, isLeaseConflict, isLeaseTaken, isMissing, isNotLeased } from "../core/storage-errors.js";
import { displayUrl, logger } from "../core/telemetry.js";
import { putRanges, unleasedOptions } from "./file-requests.js";
import { requireETag } from "./target.js";
import type { RequestContext } from "./target.js";

/**
 * How new content takes the place of old content at once, though the service can only write a file piece by piece.
 *
 * It is written to a file beside the target, which then takes the target's name: a rename happens or does not, for
 * readers and crashes alike. There is one aside file for each target, always of the same name: what a crashed writer
 * left is found without searching, and the next write uses it up.
 *
 * The aside file is leased before it is renamed, with the id of the lease that the writer holds on the target:
 * - A writer that was stopped, and whose lease was broken, can do no harm when it wakes up. Its rename carries an id that
 *   is worth nothing any more, and is refused.
 * - The lease travels with the rename, so the target is under the same lease afterwards as before.
 * Not before it is complete: a rename of an earlier try, whose answer was lost and which is still on its way, would
 * find the half of it under the right id. Until then somebody else can write to it, one that was stopped and does not
 * know that it has lost the lease. The ETag tells: a lease leaves it alone. Then it is made once more, under the lease.
 *
 * Whoever holds the lease on the target takes the aside file from anybody else: those have lost it. That is safe even
 * if its writer is alive: its rename is refused.
 */
export interface Replacement {
  readonly file: FileLike;
  readonly aside: FileLike;
  readonly bytes: Uint8Array;
  /** What the rename brings along. */
  readonly properties: FileCreateOptions;
  /** The lease on the target that the writer holds. */
  readonly leaseId: string;
}

/** A leftover can be removed later as well: it must not hold up the caller for long. */
const discardLimitInMs = 2_000;

/** Returns the ETag of the target. Costs 4 requests, and one more for each further 4 MiB. */
export async function putAside(replacement: Replacement, context: RequestContext): Promise<string> {
  const { file, aside, leaseId } = replacement;
  await prepare(replacement, context);
  try {
    const { fileRenameResponse } = await aside.rename(file.path, {
      ...unleasedOptions(context, context.abortSignal),
      replaceIfExists: true,
      sourceLeaseAccessConditions: { leaseId },
      destinationLeaseAccessConditions: { leaseId },
    });
    return requireETag(fileRenameResponse.etag, displayUrl(file.url));
  } catch (error) {
    await discard(aside, leaseId);
    throw error;
  }
}

/** Removes the aside file, whoever left it. For holders of the lease on the target. Costs 1 request if there is none. */
export async function sweepAside(aside: FileLike, context: RequestContext): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await aside.delete(unleasedOptions(context, context.abortSignal));
      return;
    } catch (error) {
      if (isMissing(error)) return;
      if (!isLeaseConflict(error) || tries >= maxTakeovers) throw error;
      await breakLease(aside, context, context.abortSignal);
    }
  }
}

/** Creates the aside file, fills it and leases it. Nobody but writers of the same target notices. */
async function prepare(replacement: Replacement, context: RequestContext): Promise<void> {
  const { aside, leaseId } = replacement;
  const trace = { made: false };
  try {
    if ((await fillAndLease(replacement, context, trace)) === "disturbed") await fill(replacement, context, leaseId);
  } catch (error) {
    if (trace.made) await discard(aside, leaseId);
    if (!isDefinitive(error)) throw error;
    // Taken over, or removed, by somebody else. If that is because the lease on the target is lost, reading tells.
    throw new NotSentError(error, isLeaseConflict(error) || isMissing(error));
  }
}

/** So often at most is an aside file taken from others that keep coming back. */
const maxTakeovers = 20;

async function fillAndLease(replacement: Replacement, context: RequestContext, trace: { made: boolean }): Promise<"ours" | "disturbed"> {
  const { aside, leaseId } = replacement;
  const signal = context.preparing ?? context.abortSignal;
  for (let takeovers = 0; ; takeovers++) {
    try {
      trace.made = true;
      const etag = await fill(replacement, context, undefined);
      const lease = await aside.getShareLeaseClient(leaseId).acquireLease(-1, unleasedOptions(context, signal));
      return etag !== undefined && lease.etag === etag ? "ours" : "disturbed";
    } catch (error) {
      if (isDefinitive(error)) trace.made = false;
      if ((!isLeaseConflict(error) && !isLeaseTaken(error)) || takeovers >= maxTakeovers) throw error;
      await breakLease(aside, context, signal);
    }
  }
}

/** Returns the ETag that it has then. */
async function fill({ aside, bytes, properties }: Replacement, context: RequestContext, leaseId: string | undefined): Promise<string | undefined> {
  const signal = context.preparing ?? context.abortSignal;
  const options = () => ({
    ...unleasedOptions(context, signal),
    ...(leaseId !== undefined && { leaseAccessConditions: { leaseId } }),
  });
  const { etag } = await aside.create(bytes.length, { ...properties, ...options() });
  return (await putRanges(aside, bytes, options)) ?? etag;
}

async function breakLease(aside: FileLike, context: RequestContext, abortSignal: AbortSignal): Promise<void> {
  try {
    await aside.getShareLeaseClient().breakLease(unleasedOptions(context, abortSignal));
    logger.verbose(`took over ${displayUrl(aside.url)}, which somebody had left`);
  } catch (error) {
    if (!isNotLeased(error) && !isMissing(error)) throw error;
  }
}

/** Removes an aside file of our own that is of no use any more. Also keeps a rename from landing that is still on its way. */
async function discard(aside: FileLike, leaseId: string): Promise<void> {
  const attempt = (options: { leaseAccessConditions?: { leaseId: string } }): Promise<unknown> =>
    bounded(discardLimitInMs, undefined, (abortSignal) => aside.delete({ ...options, abortSignal }));
  await attempt({ leaseAccessConditions: { leaseId } })
    // Not leased yet.
    .catch((error: unknown) => (isLeaseConflict(error) ? attempt({}) : undefined))
    .catch(() => undefined);
}
