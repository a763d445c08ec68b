import type { BlockBlobLike } from "../clients/blob.js";
import { checkOptions } from "../core/validate.js";
import { createError, TargetNotFoundError, quotedText } from "../errors.js";
import { checkedResult, readIfChanged as readSnapshotIfChanged, readSnapshot } from "../target/target.js";
import type { AnyInput, ReadResult, Target } from "../target/target.js";
import { checkTargetSettings, isWildcard, resolveTarget, targetOptionNames } from "./options.js";
import type { TargetOptions } from "./options.js";
import { runCall } from "./run-call.js";

/** The result of {@link readIfChanged}. */
export type ReadIfChangedResult<T> =
  | (ReadResult<T> & { readonly changed: true })
  | { readonly changed: false; readonly etag: string; readonly value?: undefined };

/**
 * Reads a target once. Costs 1 request.
 *
 * @example
 * ```ts
 * const { value, etag } = await readTarget<Settings>(blob);
 * ```
 * @throws {@link TargetNotFoundError} if it does not exist. See {@link tryReadTarget}.
 * @throws {@link SchemaError} if what is stored does not match the schema.
 * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
 */
export async function readTarget<T = unknown>(target: Target<T, AnyInput> | BlockBlobLike, options: TargetOptions = {}): Promise<ReadResult<T>> {
  const found = await readOnce("readTarget", target, undefined, options);
  return found as ReadResult<T>;
}

/**
 * Reads a target once, as {@link readTarget} does. Returns undefined if it does not exist.
 *
 * @example
 * ```ts
 * const level = (await tryReadTarget<Settings>(blob))?.value.level ?? "info";
 * ```
 * @throws {@link TargetNotFoundError} if what contains the target (its container, table or share) does not exist.
 * @throws {@link SchemaError} if what is stored does not match the schema.
 * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
 */
export async function tryReadTarget<T = unknown>(
  target: Target<T, AnyInput> | BlockBlobLike,
  options: TargetOptions = {},
): Promise<ReadResult<T> | undefined> {
  const found = await readOnce("tryReadTarget", target, undefined, options);
  return found as ReadResult<T> | undefined;
}

/**
 * Reads a target unless it still has the ETag of the version that the caller has; the service then sends no content (304).
 *
 * For the content of a file, its properties are read first (2 requests if it has changed). Table entities, tags and access policies
 * have no conditional read: they are read completely and compared here. The ETag of tags and of a queue's metadata is derived from
 * their values: values that were changed and changed back are unchanged.
 *
 * @example
 * ```ts
 * const next = await readIfChanged<Settings>(blob, known.etag);
 * if (next.changed) known = next;
 * ```
 * @throws {@link TargetNotFoundError} if it does not exist.
 * @throws {@link SchemaError} if what is stored does not match the schema.
 * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
 */
export async function readIfChanged<T = unknown>(
  target: Target<T, AnyInput> | BlockBlobLike,
  etag: string,
  options: TargetOptions = {},
): Promise<ReadIfChangedResult<T>> {
  checkKnownETag(etag);
  const found = await readOnce("readIfChanged", target, etag, options);
  return found === "unchanged" ? { changed: false, etag } : Object.assign(found as ReadResult<T>, { changed: true as const });
}

function readOnce<T>(
  call: string,
  target: Target<T, AnyInput> | BlockBlobLike,
  etag: string | undefined,
  options: TargetOptions,
): Promise<ReadResult<T> | "unchanged" | undefined> {
  checkOptions(call, options, targetOptionNames);
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget(target, settings);
  return runCall(call, options, settings, adapter.url, async (context) => {
    const snapshot = await (etag === undefined ? readSnapshot(adapter, context) : readSnapshotIfChanged(adapter, etag, context));
    if (snapshot === "unchanged") return snapshot;
    if (snapshot) return checkedResult(adapter, snapshot, context.journalName);
    if (call === "tryReadTarget") return undefined;
    throw createError(TargetNotFoundError, `${adapter.url} does not exist.`, { url: adapter.url });
  }, { targetKind: adapter.kind, mayReadSecondary: etag === undefined });
}

/** Every version would match `*`, and none an empty ETag. */
function checkKnownETag(etag: string): void {
  if (typeof etag !== "string") throw new TypeError("readIfChanged: the ETag must be the one of a value that was read.");
  if (isWildcard(etag)) throw new RangeError(`readIfChanged: the ETag must be the one of a value that was read; got ${quotedText(etag)}`);
}
