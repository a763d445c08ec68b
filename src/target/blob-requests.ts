import { withMembers } from "../core/validate.js";
import type { BlobResponseLike, BlobCallOptions, BlobConditions, BlobHttpHeadersLike } from "../clients/blob.js";
import { isNotModified } from "../core/storage-errors.js";
import { journalWithin, parseJournal, requireJournalName } from "./journal.js";
import type { Journal } from "./journal.js";
import type { RequestContext } from "./target.js";

/** Shared by the adapters of blobs: the options of a request, and the journal in the metadata. */

export const blobStaleETag = '"0x0"';

/** The options of one request. Counts the request. */
export function blobOptions(context: RequestContext, conditions: BlobConditions = {}): BlobCallOptions {
  context.onRequest?.();
  return {
    abortSignal: context.abortSignal,
    ...(context.tracingOptions && { tracingOptions: context.tracingOptions }),
    conditions: context.leaseId === undefined ? conditions : withMembers(conditions, { leaseId: context.leaseId }),
  };
}

/** The result of a conditional read: the SDK throws 304 as an error. */
export async function unlessUnchanged<R>(read: Promise<R>): Promise<R | "unchanged"> {
  try {
    return await read;
  } catch (error) {
    if (isNotModified(error)) return "unchanged";
    throw error;
  }
}

/** The condition that these tags are stored; undefined: there are none, which no condition can express. */
export function tagCondition(tags: Record<string, string>): string | undefined {
  // Tags cannot contain quotes, so nothing needs to be escaped.
  const parts = Object.entries(tags).map(([name, value]) => `"${name}" = '${value}'`);
  return parts.length > 0 ? parts.sort().join(" AND ") : undefined;
}

/** What keeps the library from writing a blob whose content or metadata it has read; undefined: nothing. */
export function encryptionObstacle(response: BlobResponseLike): string | undefined {
  // The service would reject the write, or store it under the key of the account.
  return response.encryptionKeySha256 === undefined ? undefined : "it is encrypted with a customer-provided key, which the library does not have";
}

/** The caller's metadata without the journal. Metadata names are case-insensitive, and returned in lower case. */
export function splitMetadata(
  metadata: Record<string, string> | undefined,
  journalName: string,
): { own: Record<string, string>; journal: Journal | undefined; journalText: string | undefined } {
  const name = journalName.toLowerCase();
  const entries = Object.entries(metadata ?? {});
  const journalText = entries.find(([key]) => key.toLowerCase() === name)?.[1];
  const own = Object.fromEntries(entries.filter(([key]) => key.toLowerCase() !== name));
  return { own, journal: parseJournal(journalText), journalText };
}

/** The metadata with the journal of this write, or with the stored journal if the writer does not journal. */
export function joinMetadata(
  own: Record<string, string>,
  journalName: string,
  journal: Journal | undefined,
  previousText: string | undefined,
  url: string,
): Record<string, string> {
  if (journal || previousText !== undefined) {
    const names = Object.keys(own).map((name) => name.toLowerCase());
    requireJournalName(journalName.toLowerCase(), names, previousText, url);
  }
  const text = journal ? journalWithin(journal, roomIn(own, journalName), { url, limit: "metadata", need: "8 KiB of metadata" }) : previousText;
  return text === undefined ? own : withMembers(own, { [journalName]: text });
}

/** The maximum size of all metadata of a blob, names included. */
export const maxMetadataInBytes = 8_192;

/** The size that is left for the value of one more entry. */
export function roomIn(own: Readonly<Record<string, string>>, entryName: string): number {
  let used = entryName.length;
  for (const [name, value] of Object.entries(own)) used += name.length + value.length;
  return maxMetadataInBytes - used;
}

/** The headers of a blob in the form in which they are written. `Content-MD5` is left to the service. */
export function headersOf(response: BlobResponseLike): BlobHttpHeadersLike {
  return {
    ...(response.contentType && { blobContentType: response.contentType }),
    ...(response.cacheControl && { blobCacheControl: response.cacheControl }),
    ...(response.contentEncoding && { blobContentEncoding: response.contentEncoding }),
    ...(response.contentLanguage && { blobContentLanguage: response.contentLanguage }),
    ...(response.contentDisposition && { blobContentDisposition: response.contentDisposition }),
  };
}
