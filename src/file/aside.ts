import type { FileCallOptions, FileCreateOptions, FileLike } from "../clients.js";
import { LeaseUnavailableError } from "../errors.js";
import { abortReason, onAbort } from "../internal/abort.js";
import { bounded } from "../internal/bounded.js";
import { delay } from "../internal/delay.js";
import { logger } from "../internal/log.js";
import { countSends } from "../internal/sends.js";
import { startStopwatch } from "../internal/stopwatch.js";
import { isDefinitive, isLeaseConflict, isLeaseTaken, isMissing, isNotLeased } from "../internal/storage-errors.js";
import { displayUrl } from "../internal/url.js";
import { NotSentError } from "../update/not-sent.js";
import { requireETag } from "../update/target.js";
import type { RequestContext } from "../update/target.js";
import { putRanges } from "./put-ranges.js";

/**
 * How new content takes the place of old content at once, though the service can only write a file piece by piece.
 *
 * It is written to a file beside the target, which then takes the target's name: a rename happens or does not, for
 * readers and crashes alike. There is one aside file for each target, always of the same name: what a crashed writer
 * left is found without searching, and the next write uses it up.
 *
 * The aside file is leased while it is written, with the id of the lease that the writer holds on the target:
 * - A writer that was stopped, and whose lease was broken, can do no harm when it wakes up. Its writes to the aside file
 *   and its rename carry an id that is worth nothing any more, and are refused.
 * - The lease travels with the rename, so the target is under the same lease afterwards as before.
 * Between the creation of the aside file and its lease somebody else can create it anew. The ETag tells: a lease leaves
 * it alone. Then it is created once more, under the lease.
 *
 * Whoever holds the lease on the target (or the crash guard's lock, if there is no target yet) takes the aside file from
 * anybody else: those have lost it, or never had it. Who holds nothing, to create or to overwrite, waits until the aside
 * file has stood still for a while. Both is safe even if its writer is alive: its rename is refused, and it starts again.
 */
export interface Replacement {
  readonly file: FileLike;
  readonly aside: FileLike;
  readonly bytes: Uint8Array;
  /** What the rename brings along. */
  readonly properties: FileCreateOptions;
  /** The lease on the target that the writer holds. */
  readonly leaseId: string | undefined;
  /** `"create"`: only if there is no target. */
  readonly mode: "replace" | "create";
}

/** How long an aside file must have stood still until one that holds no lease takes it over. */
const standstillInMs = 5_000;
/** How long one that holds no lease waits for others. */
const maxWaitInMs = 60_000;
const lookEveryInMs = 100;
/** A leftover can be removed later as well: it must not hold up the caller for long. */
const discardLimitInMs = 2_000;
const releaseLimitInMs = 5_000;

/** Returns the ETag of the target. Costs 4 requests, one more for each further 4 MiB, and one to release a lease of its own. */
export async function putAside(replacement: Replacement, context: RequestContext): Promise<string> {
  const { file, aside, leaseId, mode } = replacement;
  const id = leaseId ?? context.newLeaseId ?? crypto.randomUUID();
  const conditions = { leaseId: id };
  await prepare(replacement, id, context);
  const rename = async (abortSignal: AbortSignal): Promise<string> => {
    const { fileRenameResponse } = await aside.rename(file.path, {
      ...withoutLease(context, abortSignal),
      sourceLeaseAccessConditions: conditions,
      ...(mode === "replace" && { replaceIfExists: true }),
      ...(mode === "replace" && leaseId !== undefined && { destinationLeaseAccessConditions: conditions }),
    });
    return requireETag(fileRenameResponse.etag, displayUrl(file.url));
  };
  try {
    if (leaseId !== undefined) return await rename(context.abortSignal);
    const etag = await renameForSure(file, id, rename, context);
    await releaseOwn(file, id);
    return etag;
  } catch (error) {
    await discard(aside, id);
    throw error;
  }
}

/** Removes the aside file, whoever left it. For holders of the lease on the target. Costs 1 request if there is none. */
export async function sweepAside(aside: FileLike, context: RequestContext): Promise<void> {
  const options = withoutLease(context, context.abortSignal);
  for (let tries = 1; ; tries++) {
    try {
      await aside.delete(options);
      return;
    } catch (error) {
      if (isMissing(error)) return;
      if (!isLeaseConflict(error) || tries >= maxTakeovers) throw error;
      await breakLease(aside, options);
    }
  }
}

/** Creates the aside file, leases it and fills it. Nobody but writers of the same target notices. */
async function prepare(replacement: Replacement, id: string, context: RequestContext): Promise<void> {
  const { aside, bytes } = replacement;
  const options = withoutLease(context, context.preparing ?? context.abortSignal);
  const leased = { ...options, leaseAccessConditions: { leaseId: id } };
  const trace = { made: false };
  try {
    const entitled = replacement.leaseId !== undefined || context.newLeaseId !== undefined;
    const waitForTurn = entitled ? undefined : standInLine(replacement, options);
    const etag = await createAndLease(replacement, id, options, waitForTurn, trace);
    if (etag === "replaced by somebody else") await aside.create(bytes.length, { ...replacement.properties, ...leased });
    await putRanges(aside, bytes, leased);
  } catch (error) {
    if (trace.made) await discard(aside, id);
    if (error instanceof NotSentError || !isDefinitive(error)) throw error;
    // Taken over, or removed, by somebody else. If that is because the lease on the target is lost, reading tells.
    throw new NotSentError(error, isLeaseConflict(error) || isMissing(error));
  }
}

/** So often at most is an aside file taken from others that keep coming back. */
const maxTakeovers = 20;

async function createAndLease(
  replacement: Replacement,
  id: string,
  options: FileCallOptions,
  waitForTurn: (() => Promise<void>) | undefined,
  trace: { made: boolean },
): Promise<"ours" | "replaced by somebody else"> {
  const { aside, bytes, properties } = replacement;
  for (let takeovers = 0; ; takeovers++) {
    try {
      trace.made = true;
      const { etag } = await aside.create(bytes.length, { ...properties, ...options });
      const lease = await aside.getShareLeaseClient(id).acquireLease(-1, options);
      return etag !== undefined && lease.etag === etag ? "ours" : "replaced by somebody else";
    } catch (error) {
      if (isDefinitive(error)) trace.made = false;
      if (!isLeaseConflict(error) && !isLeaseTaken(error)) throw error;
      if (waitForTurn) await waitForTurn();
      else if (takeovers < maxTakeovers) await breakLease(aside, options);
      else throw error;
    }
  }
}

/** For those who hold no lease on the target. Each call returns when it is worth another try. */
function standInLine({ file, aside, mode }: Replacement, options: FileCallOptions): () => Promise<void> {
  const waited = startStopwatch();
  let seen: string | undefined;
  let still = startStopwatch();
  return async () => {
    if (waited.elapsedInMs() > maxWaitInMs) {
      const url = displayUrl(file.url);
      throw new NotSentError(new LeaseUnavailableError(`others kept writing ${url}`, { url, waitedInMs: waited.elapsedInMs() }));
    }
    const look = (target: FileLike): Promise<string | undefined> =>
      target.getProperties(options).then(
        ({ etag }) => etag,
        (error: unknown) => {
          if (isMissing(error)) return undefined;
          throw error;
        },
      );
    const etag = await look(aside);
    if (etag === undefined) return;
    if (mode === "create" && (await look(file)) !== undefined) throw new NotSentError(new Error("it exists by now"), true);
    if (etag !== seen) still = startStopwatch();
    seen = etag;
    if (still.elapsedInMs() >= standstillInMs) await breakLease(aside, options);
    else await delay(lookEveryInMs * (0.5 + Math.random()), options.abortSignal);
  };
}

async function breakLease(aside: FileLike, options: FileCallOptions): Promise<void> {
  try {
    await aside.getShareLeaseClient().breakLease(options);
    logger.verbose(`took over ${displayUrl(aside.url)}, which somebody had left`);
  } catch (error) {
    if (!isNotLeased(error) && !isMissing(error)) throw error;
  }
}

/**
 * Under a lease id of its own, a lost answer is no riddle: the file that we brought there is the one that can be read
 * with that id.
 */
async function renameForSure(
  file: FileLike,
  id: string,
  rename: (abortSignal: AbortSignal) => Promise<string>,
  context: RequestContext,
): Promise<string> {
  const counted = countSends();
  const off = onAbort(context.abortSignal, () => counted.abort(abortReason(context.abortSignal)));
  try {
    return await rename(counted.signal);
  } catch (error) {
    if (counted.sends() === 1 && isDefinitive(error)) throw error;
    const options = withoutLease(context, context.preparing ?? context.abortSignal);
    const found = await file.getProperties({ ...options, leaseAccessConditions: { leaseId: id } }).catch(() => undefined);
    if (found?.etag === undefined) throw error;
    return found.etag;
  } finally {
    off();
  }
}

/** A lease that stays would keep everybody out for ever. */
async function releaseOwn(file: FileLike, id: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await bounded(releaseLimitInMs, undefined, (abortSignal) => file.getShareLeaseClient(id).releaseLease({ abortSignal }));
      return;
    } catch (error) {
      // Released by a try whose answer was lost, taken over since, or deleted.
      if (isDefinitive(error)) return;
      if (tries < 3) continue;
      logger.warning(`the lease on ${displayUrl(file.url)} could not be released: ${String(error)}`);
      return;
    }
  }
}

/** Removes an aside file of our own that is of no use any more. Also keeps a rename from landing that is still on its way. */
async function discard(aside: FileLike, id: string): Promise<void> {
  const attempt = (options: FileCallOptions): Promise<unknown> =>
    bounded(discardLimitInMs, undefined, (abortSignal) => aside.delete({ ...options, abortSignal }));
  await attempt({ leaseAccessConditions: { leaseId: id } })
    // Not leased yet.
    .catch((error: unknown) => (isLeaseConflict(error) ? attempt({}) : undefined))
    .catch(() => undefined);
}

function withoutLease(context: RequestContext, abortSignal: AbortSignal): FileCallOptions {
  return { abortSignal, ...(context.tracingOptions && { tracingOptions: context.tracingOptions }) };
}

