import { WriteNotSentError } from "../core/resolve-write.js";
import { defaultJournalName, parseJournal } from "./journal.js";

/**
 * A write must not replace what is not a journal: throws if the name of the journal is that of a value of the caller, or if something
 * else is stored under it. Under the default name, which is reserved for the library, any other text counts as no journal.
 */
export function requireJournalName(journalName: string, ownNames: Iterable<string>, storedText: unknown, url: string): void {
  const isForeign = storedText !== undefined && storedText !== "" && journalName !== defaultJournalName && !parseJournal(storedText);
  if (isForeign || [...ownNames].includes(journalName)) {
    const message = `${url} has a value of its own under ${JSON.stringify(journalName)}, the name of the journal. Nothing was written. Choose another journal name with the option journal, or rename the value.`;
    throw new WriteNotSentError(new TypeError(message));
  }
}
