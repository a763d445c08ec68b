import type { BlockBlobLike } from "../clients/blob.js";
import { createError, TargetNotFoundError } from "../errors.js";
import { checkedResult, readIfChanged } from "../target/target.js";
import type { LeasedTarget, ReadResult, UpdateTarget } from "../target/target.js";
import { checkTargetSettings, resolveTarget } from "./options.js";
import type { TargetOptions } from "./options.js";
import { runCall } from "./single-call.js";

/** Options of {@link readTarget}. */
export interface ReadTargetOptions extends TargetOptions {
  /**
   * The ETag of the version that the caller has. If that version is still stored, the result is `"unchanged"`, and the service
   * sends no content (304). For the content of a file, its properties are read first (2 requests if it has changed). Table
   * entities, tags and access policies have no conditional read: they are read completely and compared here. The `etag` of
   * tags and of a queue's metadata is derived from their values: values that were changed and changed back are unchanged.
   */
  ifChangedSince?: string | undefined;
}

/**
 * Reads a target once. Rejects with a `TargetNotFoundError` if it does not exist. Costs 1 request (2 for the content of a blob
 * that has tags, unless it is unchanged).
 */
export async function readTarget<T = unknown>(
  target: UpdateTarget<T> | LeasedTarget<T> | BlockBlobLike,
  options?: ReadTargetOptions & { ifChangedSince?: undefined },
): Promise<ReadResult<T>>;
export async function readTarget<T = unknown>(
  target: UpdateTarget<T> | LeasedTarget<T> | BlockBlobLike,
  options: ReadTargetOptions,
): Promise<ReadResult<T> | "unchanged">;
export async function readTarget<T = unknown>(
  target: UpdateTarget<T> | LeasedTarget<T> | BlockBlobLike,
  options: ReadTargetOptions = {},
): Promise<ReadResult<T> | "unchanged"> {
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget(target, settings);
  const known = options.ifChangedSince === undefined ? undefined : checkKnownETag(options.ifChangedSince);
  return runCall("readTarget", options, settings, adapter.url, async (context) => {
    const snapshot = await (known === undefined ? adapter.read(context) : readIfChanged(adapter, known, context));
    if (snapshot === "unchanged") return snapshot;
    if (!snapshot) throw createError(TargetNotFoundError, `${adapter.url} does not exist`, { url: adapter.url });
    return checkedResult(adapter, snapshot, context.journalName);
  }, { targetKind: adapter.kind });
}

/** Every version would match `*`, and none an empty ETag. */
function checkKnownETag(etag: string): string {
  if (typeof etag !== "string") throw new TypeError("ifChangedSince must be an ETag, as it came with a value");
  if (etag === "" || etag === "*") throw new RangeError(`ifChangedSince must be an ETag, as it came with a value; got ${JSON.stringify(etag)}`);
  return etag;
}
