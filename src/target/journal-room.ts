import { WriteNotSentError } from "../core/resolve-write.js";
import { createError, LimitError } from "../errors.js";
import { formatJournal } from "./journal.js";
import type { Journal } from "./journal.js";

/** Where a journal is stored, and how much of it fits there. */
export interface JournalPlace {
  readonly url: string;
  readonly limit: "metadata" | "properties" | "entity";
  /** The limit in words: "8 KiB of metadata". */
  readonly need: string;
}

/**
 * The journal in at most this many characters: the oldest entries are dropped first, which shortens the time for which this library
 * recognises a write whose response was lost. Throws if the entry of this write does not fit: without it, a lost response could not be
 * resolved, and the caller has to say that it does without.
 */
export function journalWithin(journal: Journal, room: number, place: JournalPlace): string {
  const text = formatJournal(journal, room);
  if (text.length <= room) return text;
  throw journalLimitError(place);
}

/** The write cannot carry a journal. It was not sent. */
export function journalLimitError({ url, limit, need }: JournalPlace): WriteNotSentError {
  const message = `${url} has no room for the journal of writes: the service accepts ${need}. Nothing was written. Remove something, or pass journal: false.`;
  return new WriteNotSentError(createError(LimitError, message, { url, code: "JOURNAL_LIMIT", limit }));
}
