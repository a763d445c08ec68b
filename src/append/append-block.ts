import type { AppendBlobLike } from "../clients.js";
import { onAbort } from "../core/abort.js";
import { delay, fullJitter } from "../core/delay.js";
import { countSends } from "../core/sends.js";
import { isDefinitive, isLeaseConflict, isMissing, isRace } from "../core/storage-errors.js";
import { displayUrl } from "../core/telemetry.js";
import { blobOptions } from "../target/blob-requests.js";
import { readBody } from "../target/content.js";
import { newWriteId } from "../target/journal.js";
import { requireETag } from "../target/target.js";
import type { RequestContext } from "../target/target.js";
import { claimantOf, metadataWithClaims, readLog, withClaim } from "./append-state.js";
import type { LogState } from "./append-state.js";

/** What became of a request. `found`: the state of the blob, where that was read. */
export type Landing =
  | { readonly kind: "landed"; readonly state: LogState }
  | { readonly kind: "race"; readonly error: unknown; readonly found?: LogState | undefined }
  /** It had no effect, and trying again does not help. */
  | { readonly kind: "refused"; readonly error: unknown }
  | { readonly kind: "unknown"; readonly error: unknown };

/** How often a request is sent again after its answer was lost and nothing had changed. */
const maxResends = 10;

/** Writes our claim to the end of the blob. */
export async function claimEnd(blob: AppendBlobLike, state: LogState, context: RequestContext): Promise<Landing> {
  const claims = withClaim(state.claims, { position: state.length, id: newWriteId() });
  const metadata = metadataWithClaims(state.metadata, claims);
  const landing = await untilKnown(blob, context, {
    async send(sending) {
      const { etag } = await blob.setMetadata(metadata, blobOptions(sending, { ifMatch: state.etag }));
      return { ...state, etag: requireETag(etag, displayUrl(blob.url)), claims };
    },
    judge(found) {
      if (found?.etag === state.etag) return "unmoved";
      // Our claim, and nothing appended since: whoever else wants the position has to claim it first.
      return found?.length === state.length && found.claims[0]?.id === claims[0]?.id ? "landed" : "not landed";
    },
  });
  // A claim is no record: whether one that got no answer was written does not matter to anybody.
  return landing.kind === "unknown" ? { kind: "refused", error: landing.error } : landing;
}

/**
 * Appends one block at the end of `state`. With a claim, only if nothing changed since it was written; without one, only
 * if that is still the end, and then nobody else may ever append the same bytes.
 */
export function appendBlock(
  blob: AppendBlobLike,
  state: LogState,
  bytes: Uint8Array,
  claimed: boolean,
  context: RequestContext,
): Promise<Landing> {
  const position = state.length;
  const id = claimed ? state.claims[0]?.id : undefined;
  return untilKnown(blob, context, {
    async send(sending) {
      const { conditions, ...request } = blobOptions(sending, claimed ? { ifMatch: state.etag } : {});
      const answer = await blob.appendBlock(bytes, bytes.length, { ...request, conditions: { ...conditions, appendPosition: position } });
      return {
        ...state,
        etag: requireETag(answer.etag, displayUrl(blob.url)),
        length: position + bytes.length,
        blockCount: answer.blobCommittedBlockCount ?? state.blockCount + 1,
      };
    },
    async judge(found) {
      // Gone, or made anew: what was in it before, nobody knows.
      if (!found || found.length < position) return "unknown";
      // With a claim a try that is still on its way needs the ETag; without one, the end of the blob.
      if (claimed ? found.etag === state.etag : found.length === position) return "unmoved";
      if (found.length < position + bytes.length) return "not landed";
      const claimant = claimantOf(found.claims, position);
      if (id !== undefined && claimant !== undefined && claimant !== id) return "not landed";
      // Somebody who knows nothing of claims may have appended there.
      if (!(await standsAt(blob, position, bytes, context))) return "not landed";
      return !claimed || claimant === id ? "landed" : "unknown";
    },
  });
}

interface Request {
  readonly send: (context: RequestContext) => Promise<LogState>;
  /** What the state that was found after a lost answer says. `"unmoved"`: a try may land yet. */
  readonly judge: (found: LogState | undefined) => Judgement | Promise<Judgement>;
}

type Judgement = "landed" | "not landed" | "unmoved" | "unknown";

/**
 * Sends a request and finds out what became of it. As long as nothing has moved it is sent again under the same
 * conditions: it and a try that is still on its way exclude each other.
 */
async function untilKnown(blob: AppendBlobLike, context: RequestContext, { send, judge }: Request): Promise<Landing> {
  for (let resend = 0; ; resend++) {
    const counted = countSends();
    const off = onAbort(context.abortSignal, () => counted.abort(context.abortSignal.reason));
    let lost: unknown;
    try {
      return { kind: "landed", state: await send({ ...context, abortSignal: counted.signal }) };
    } catch (error) {
      // Sent once and answered: the answer speaks of this request. Otherwise an earlier try may have landed, and the
      // SDK's re-send is what was refused.
      if (resend === 0 && counted.sends() === 1 && isDefinitive(error)) {
        return { kind: isRace(error) || isMissing(error) ? "race" : "refused", error };
      }
      if (counted.sends() === 0 && (error instanceof TypeError || error instanceof RangeError)) return { kind: "refused", error };
      lost = error;
    } finally {
      off();
    }
    if (context.abortSignal.aborted) return { kind: "unknown", error: lost };
    try {
      const found = await readLog(blob, context);
      const judgement = await judge(found);
      if (judgement === "landed" && found) return { kind: "landed", state: found };
      if (judgement === "not landed") return { kind: "race", error: lost, found };
      if (judgement === "unknown") return { kind: "unknown", error: lost };
      // Unmoved, and leased: nothing of ours can land, and asking again does not help.
      if (isLeaseConflict(lost)) return { kind: "refused", error: lost };
    } catch (readError) {
      lost = new AggregateError([lost, readError], "a request got no answer, and reading back failed");
      if (isDefinitive(readError)) return { kind: "unknown", error: lost };
    }
    if (resend >= maxResends) return { kind: "unknown", error: lost };
    try {
      await delay(fullJitter(resend, 10, 1_000), context.abortSignal);
    } catch {
      return { kind: "unknown", error: lost };
    }
  }
}

async function standsAt(blob: AppendBlobLike, position: number, bytes: Uint8Array, context: RequestContext): Promise<boolean> {
  const stored = await readBody(await blob.download(position, bytes.length, blobOptions(context)));
  return stored.length === bytes.length && stored.every((byte, index) => byte === bytes[index]);
}
