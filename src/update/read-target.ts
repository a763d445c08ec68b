import type { BlockBlobLike } from "../clients.js";
import { TargetNotFoundError } from "../errors.js";
import { withRequestContext } from "./one-request.js";
import { checkGroupSettings } from "./options.js";
import type { TargetOptions } from "./options.js";
import { resolveTarget } from "./resolve-target.js";
import type { Snapshot, TargetAdapter, UpdateTarget } from "./target.js";

/** A value and the ETag that it was read with. */
export interface ReadResult<T> {
  value: T;
  etag: string;
}

/** What a result was made from, so that an update can start from it: it holds what a write must preserve. */
const snapshots = new WeakMap<object, { owner: object; key: string; journalName: string; snapshot: Snapshot<unknown> }>();

/** Reads a target once. Costs 1 request. A missing one is a `TargetNotFoundError`. */
export async function readTarget<T = unknown>(
  target: UpdateTarget<T> | BlockBlobLike,
  options: TargetOptions = {},
): Promise<ReadResult<T>> {
  const settings = checkGroupSettings(options);
  const adapter = resolveTarget(target, settings);
  return withRequestContext("readTarget", options, settings, adapter.url, async (context) => {
    const snapshot = await adapter.read(context);
    if (!snapshot) throw new TargetNotFoundError(`${adapter.url} does not exist`, { url: adapter.url });
    return checkedResult(adapter, snapshot, context.journalName);
  }, { targetKind: adapter.kind });
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
