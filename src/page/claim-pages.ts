import type { CallOptions, PageBlobLike } from "../clients.js";
import { TargetNotFoundError } from "../errors.js";
import { isMissing } from "../internal/storage-errors.js";
import { displayUrl } from "../internal/url.js";
import { withRequestContext } from "../update/one-request.js";
import { checkGroupSettings } from "../update/options.js";
import type { TargetConditions } from "../update/options.js";
import { blobOptions } from "../update/targets/blob-requests.js";
import { PageWriter } from "./page-writer.js";

/** Options of {@link claimPages}. */
export interface ClaimPagesOptions extends CallOptions {
  /** The id of a lease that the caller holds on the blob: sent with the claim, and with every write of the writer. */
  conditions?: TargetConditions | undefined;
}

/**
 * Takes a page blob over: raises its sequence number, and returns a writer whose writes carry the new one. From then on the
 * service refuses what earlier writers send, also what is on its way already; they get a `FencedError`.
 *
 * Costs 1 request. Whoever calls last wins; who that should be is up to the caller (a lease, an election).
 */
export async function claimPages(blob: PageBlobLike, options: ClaimPagesOptions = {}): Promise<PageWriter> {
  const settings = checkGroupSettings({ conditions: options.conditions });
  if (!isPageBlob(blob)) throw new TypeError("not a page blob: pass a PageBlobClient");
  const url = displayUrl(blob.url);
  return withRequestContext("claimPages", options, settings, url, async (context) => {
    try {
      // The service adds one, whoever asks at the same time: no two are answered with the same number. If the answer is
      // lost and the SDK asks again, a number is left out, which nobody misses.
      const { blobSequenceNumber } = await blob.updateSequenceNumber("increment", undefined, blobOptions(context));
      if (blobSequenceNumber === undefined) throw new TypeError(`the answer for ${url} has no sequence number`);
      return new PageWriter(blob, blobSequenceNumber, settings.leaseId);
    } catch (error) {
      if (isMissing(error)) throw new TargetNotFoundError(`${url} does not exist: create it first`, { url, cause: error });
      throw error;
    }
  });
}

function isPageBlob(blob: unknown): blob is PageBlobLike {
  const client = blob as Partial<PageBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.uploadPages === "function" && typeof client.updateSequenceNumber === "function";
}
