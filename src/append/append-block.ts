import type { AppendBlobLike } from "../clients/blob.js";
import { readWithTries } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import type { ResolvableWrite } from "../core/resolve-write.js";
import { isRangeNotSatisfiable } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { blobOptions } from "../target/blob-requests.js";
import { fromPrimary, readBody } from "../target/content.js";
import { newWriteId } from "../target/journal.js";
import { withSignal } from "../target/target.js";
import type { CallContext } from "../target/target.js";
import { isRecreated, readAppendBlob } from "./append-state.js";
import type { AppendBlobState } from "./append-state.js";
import { claimantOf, metadataWithClaims, withClaim } from "./claims.js";
import type { ClaimedOperation } from "./claims.js";

/** The outcome of a request. `found`: the state of the blob, if it was read. */
export type AppendOutcome =
  | { readonly kind: "committed"; readonly state: AppendBlobState }
  | { readonly kind: "conflict"; readonly error: unknown; readonly found?: AppendBlobState | undefined }
  /** It had no effect, and another attempt does not help. */
  | { readonly kind: "rejected"; readonly error: unknown }
  | { readonly kind: "unknown"; readonly error: unknown };

/** Writes a claim to the end of the blob, for a block with these operations. */
export async function claimEnd(
  blob: AppendBlobLike,
  state: AppendBlobState,
  operations: readonly ClaimedOperation[],
  context: CallContext,
  onConflict: () => number,
): Promise<AppendOutcome> {
  const claims = withClaim(state.claims, { position: state.length, id: newWriteId(), operations });
  const metadata = metadataWithClaims(state.metadata, claims);
  const outcome = await resolve(blob, context, {
    async send(abortSignal) {
      const { etag } = await blob.setMetadata(metadata, blobOptions({ ...context, abortSignal }, { ifMatch: state.etag }));
      return { ...state, etag: requireETag(etag, redactUrl(blob.url)), claims };
    },
    recognise(found) {
      if (found?.etag === state.etag) return "unchanged";
      // This claim, and nothing appended since: any other appender has to claim the position first.
      return found?.length === state.length && found.claims[0]?.id === claims[0]?.id ? "committed" : "not committed";
    },
    onConflict,
  });
  if (outcome.kind === "committed") {
    const replacedClaims = state.claims.flatMap(({ position, id }) => (position === state.length ? [id] : []));
    return { kind: "committed", state: { ...outcome.state, replacedClaims } };
  }
  // A claim is not a record: no caller needs to know whether a claim without a response was written.
  return outcome.kind === "unknown" ? { kind: "rejected", error: "readError" in outcome ? outcome.readError : outcome.error } : outcome;
}

/**
 * Appends one block at the end of `state`. With a claim, only if the blob has not changed since the claim was written. Without
 * one, only if that is still the end, and then no other appender may ever append the same bytes.
 */
export function appendBlock(
  blob: AppendBlobLike,
  state: AppendBlobState,
  bytes: Uint8Array,
  claimed: boolean,
  context: CallContext,
  onConflict: () => number,
): Promise<AppendOutcome> {
  const position = state.length;
  const id = claimed ? state.claims[0]?.id : undefined;
  return resolve(blob, context, {
    async send(abortSignal) {
      const { conditions, ...request } = blobOptions({ ...context, abortSignal }, claimed ? { ifMatch: state.etag } : {});
      const response = await blob.appendBlock(bytes, bytes.length, { ...request, conditions: { ...conditions, appendPosition: position } });
      return {
        ...state,
        etag: requireETag(response.etag, redactUrl(blob.url)),
        length: position + bytes.length,
        blockCount: response.blobCommittedBlockCount ?? state.blockCount + 1,
      };
    },
    async recognise(found) {
      // The blob was deleted, or deleted and created again: its former content is unknown.
      if (!found || found.length < position || isRecreated(state, found)) return "unknown";
      // With a claim, a send in flight is conditional on the ETag; without one, on the end of the blob.
      if (claimed ? found.etag === state.etag : found.length === position) return "unchanged";
      if (found.length < position + bytes.length) return "not committed";
      const claimant = claimantOf(found.claims, position);
      // A claim that this one has replaced: a client that does not use claims has written old metadata back.
      const isReplaced = claimant !== undefined && state.replacedClaims?.includes(claimant);
      if (id !== undefined && claimant !== undefined && claimant !== id && !isReplaced) return "not committed";
      // A client that does not use claims may have appended there.
      if (!(await isStoredAt(blob, position, bytes, context))) return "not committed";
      return !claimed || claimant === id ? "committed" : "unknown";
    },
    onConflict,
  });
}

/** Sends a request until its outcome is known. */
async function resolve(
  blob: AppendBlobLike,
  context: CallContext,
  write: Omit<ResolvableWrite<AppendBlobState, AppendBlobState | undefined>, "readBack">,
): Promise<AppendOutcome> {
  const readBack = (): Promise<AppendBlobState | undefined> => readAppendBlob(blob, context);
  const outcome = await resolveWrite({ ...write, readBack }, { abortSignal: context.abortSignal, tryLimit: context.tryLimit });
  switch (outcome.kind) {
    case "committed":
      return { kind: "committed", state: outcome.value };
    case "recognised":
      return outcome.found ? { kind: "committed", state: outcome.found } : { kind: "unknown", error: undefined };
    default:
      return outcome;
  }
}

/** Whether the blob has these bytes at this position. If it ends before, it has not. */
export async function isStoredAt(blob: AppendBlobLike, position: number, bytes: Uint8Array, context: CallContext): Promise<boolean> {
  const download = async (abortSignal: AbortSignal): Promise<Uint8Array> =>
    readBody(await fromPrimary(blob, context, blob.download(position, bytes.length, blobOptions(withSignal(context, abortSignal)))));
  let stored: Uint8Array;
  try {
    stored = await readWithTries(download, context);
  } catch (error) {
    if (isRangeNotSatisfiable(error)) return false;
    throw error;
  }
  return stored.length === bytes.length && stored.every((byte, index) => byte === bytes[index]);
}
