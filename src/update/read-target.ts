import type { BlockBlobLike } from "../clients.js";
import { TargetNotFoundError } from "../errors.js";
import { readIfChanged } from "../target/target.js";
import type { GuardedTarget, Snapshot, TargetAdapter, UpdateTarget } from "../target/target.js";
import { checkGroupSettings, resolveTarget } from "./options.js";
import type { TargetOptions } from "./options.js";
import { withRequestContext } from "./single-call.js";

/** A value and the ETag that it was read with. */
export interface ReadResult<T> {
  value: T;
  etag: string;
}

/** What a result was made from, so that an update can start from it: it holds what a write must preserve. */
const snapshots = new WeakMap<object, { owner: object; key: string; journalName: string; snapshot: Snapshot<unknown> }>();

/** Options of {@link readTarget}. */
export interface ReadTargetOptions extends TargetOptions {
  /**
   * The ETag of what the caller has. If that is what is stored, the result is `"unchanged"`, for which the service
   * sends no content (304). For the content of a file, its properties are asked for first (2 requests if it has
   * changed). Table entities, tags and access policies have no such read: they are read whole, and compared here. The
   * `etag` of tags and of a queue's metadata stands for their values, so that what was changed and changed back is
   * unchanged.
   */
  ifChangedSince?: string | undefined;
}

/**
 * Reads a target once. A missing one is a `TargetNotFoundError`. Costs 1 request (2 for the content of a blob that
 * has tags, unless it is unchanged).
 */
export async function readTarget<T = unknown>(
  target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike,
  options?: ReadTargetOptions & { ifChangedSince?: undefined },
): Promise<ReadResult<T>>;
export async function readTarget<T = unknown>(
  target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike,
  options: ReadTargetOptions,
): Promise<ReadResult<T> | "unchanged">;
export async function readTarget<T = unknown>(
  target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike,
  options: ReadTargetOptions = {},
): Promise<ReadResult<T> | "unchanged"> {
  const settings = checkGroupSettings(options);
  const adapter = resolveTarget(target, settings);
  const known = options.ifChangedSince === undefined ? undefined : checkKnownETag(options.ifChangedSince);
  return withRequestContext("readTarget", options, settings, adapter.url, async (context) => {
    const snapshot = await (known === undefined ? adapter.read(context) : readIfChanged(adapter, known, context));
    if (snapshot === "unchanged") return snapshot;
    if (!snapshot) throw new TargetNotFoundError(`${adapter.url} does not exist`, { url: adapter.url });
    return checkedResult(adapter, snapshot, context.journalName);
  }, { targetKind: adapter.kind });
}

/** Whatever is stored would match a `*`, and nothing an empty one. */
function checkKnownETag(etag: string): string {
  if (typeof etag !== "string") throw new TypeError("ifChangedSince must be an ETag, as it came with a value");
  if (etag === "" || etag === "*") throw new RangeError(`ifChangedSince must be an ETag, as it came with a value; got ${JSON.stringify(etag)}`);
  return etag;
}

/** The result for a snapshot that was read, after the schema's check. */
export async function checkedResult<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  snapshot: Snapshot<Raw>,
  journalName: string,
): Promise<ReadResult<T>> {
  const value = adapter.decode(snapshot.raw);
  await adapter.check?.(value, "read");
  const result = { value, etag: snapshot.etag };
  snapshots.set(result, { owner: adapter.owner, key: adapter.key, journalName, snapshot });
  return result;
}

/** The snapshot behind a result of {@link readTarget}. */
export function snapshotOf<T, Raw>(result: ReadResult<T>, adapter: TargetAdapter<T, Raw>, journalName: string): Snapshot<Raw> {
  const known = snapshots.get(result);
  if (known?.key !== adapter.key || known.owner !== adapter.owner || known.journalName !== journalName) {
    throw new TypeError("firstRead must be what readTarget returned for the same target, with the same client and journal");
  }
  return known.snapshot as Snapshot<Raw>;
}
