import { WriteNotSentError } from "../core/resolve-write.js";
import { createError, LimitError } from "../errors.js";

/**
 * The write journal: how a writer whose response was lost determines whether its write was committed.
 *
 * Each write carries the number of journaled writes so far and an entry for each of the last 32, newest first. A writer that based its
 * write on number n searches what is stored now for the entry of write n+1: its own id means that the write was committed,
 * another entry that another writer was first. Comparing contents would not be conclusive: two writers may write the same
 * content.
 */
export interface Journal {
  /**
   * Where the count began: the ETag that the first journaled write replaced, or the id of the write that created the target.
   * Numbers of two lineages cannot be compared: the target was deleted and created again, or a client that does not know the
   * journal dropped it.
   */
  readonly lineage: string;
  readonly seq: number;
  /**
   * Newest first. An entry is the id of a write, followed by `+` and the operation id of each of its callers that gave one. The id is
   * missing if its writer knows the outcome: only that writer would search for it.
   */
  readonly entries: readonly string[];
}

/** The number of writes that a journal keeps: a writer recognises its write under up to 31 later ones. */
export const journalLength = 32;

/** The default name of the journal. Lower case, because metadata names are returned in lower case. */
export const defaultJournalName = "asc_journal";

/** The maximum size of a journal, unless the target has less room for it: 32 ids take a tenth of it. */
export const maxJournalInBytes = 4_096;

/** How many callers with operation ids of their own one write can have: their ids fit into a journal three times. */
export const maxOperationIds = 16;

/** The journal of a write with this id, based on what was read (`undefined`: the target does not exist). */
export function journalAfter(
  base: { readonly etag: string; readonly journal: Journal | undefined } | undefined,
  id: string,
  operationIds: readonly string[] = [],
  scope?: string,
): Journal {
  const before = base?.journal;
  const entry = [id, ...operationIds.map((operationId) => keyOf(operationId, scope))].join("+");
  if (before) {
    const earlier = before.entries.slice(0, journalLength - 1).map(withoutKnownId);
    return { lineage: before.lineage, seq: before.seq + 1, entries: [entry, ...earlier] };
  }
  return { lineage: base ? lineageOf(base.etag) : id, seq: 1, entries: [entry] };
}

/** Where the count of a target begins that existed without a journal. */
function lineageOf(etag: string): string {
  return etag.replace(/[^A-Za-z0-9]/g, "");
}

/** Whether the write that carried `written` is part of the history that is now stored as `found`. */
export function outcomeOf(written: Pick<Journal, "lineage" | "seq" | "entries">, found: Journal | undefined): "committed" | "not committed" | "unknown" {
  if (found?.lineage !== written.lineage) return "unknown";
  const [own = ""] = written.entries.map(writeIdOf);
  // It began the lineage, as a create or an overwrite: found under any number of later writes.
  if (written.seq === 1 && written.lineage === own) return "committed";
  const position = found.seq - written.seq;
  // One behind: our base is still stored, or a client that leaves the journal unchanged has modified it.
  if (position === -1) return "not committed";
  const entry = found.entries[position];
  if (entry === undefined) return "unknown";
  return writeIdOf(entry) === own ? "committed" : "not committed";
}

function writeIdOf(entry: string): string {
  const end = entry.indexOf("+");
  return end < 0 ? entry : entry.slice(0, end);
}

/** Whether an operation of this id is in the journal. `scope`: see `ServiceAdapter.journalScope`. */
export function hasOperation(journal: Journal | undefined, operationId: string, scope?: string): boolean {
  return writeOfOperation(journal, operationId, scope) !== undefined;
}

/** The id of the write that committed the operation, as far as it is in the journal. Empty: the process that wrote it has dropped the id. */
export function writeOfOperation(journal: Journal | undefined, operationId: string, scope?: string): string | undefined {
  if (!journal) return undefined;
  const token = parseToken(operationId);
  if (token && outcomeOf(token, journal) === "committed") return token.entries[0];
  const key = keyOf(operationId, scope);
  const entry = journal.entries.find((each) => each.includes("+") && each.split("+").indexOf(key, 1) > 0);
  return entry === undefined ? undefined : writeIdOf(entry);
}

/**
 * What became of the write that an id of the library names. `stored` is what is stored now (undefined: the target does not exist).
 * `"not committed"`: it is not stored, but may still arrive, if the version that it is conditional on is stored.
 */
export function outcomeOfToken(written: Journal, stored: { readonly etag: string; readonly journal: Journal | undefined } | undefined): ReturnType<typeof outcomeOf> {
  // Missing, and it would have been created: it has not arrived. (Or another client has deleted it since.)
  if (!stored) return written.entries[0] === written.lineage ? "not committed" : "unknown";
  // Still the version that the write is conditional on, which had no journal.
  if (!stored.journal && lineageOf(stored.etag) === written.lineage) return "not committed";
  return outcomeOf(written, stored.journal);
}

/**
 * Whether it cannot be found out any more if the write was committed that an id of the library names: it has left the journal, or the
 * target has lost the journal, because it was rewritten by another client, or deleted. An id of the caller names no write.
 */
export function isForgotten(stored: Parameters<typeof outcomeOfToken>[1], operationId: string): boolean {
  const token = parseToken(operationId);
  if (!token || outcomeOfToken(token, stored) !== "unknown") return false;
  return stored?.journal?.lineage !== token.lineage || hasLeft(stored.journal, operationId);
}

/** Whether the place that an id of the library names has left the journal. */
export function hasLeft(journal: Journal | undefined, operationId: string): boolean {
  const token = parseToken(operationId);
  if (!token || journal?.lineage !== token.lineage || outcomeOf(token, journal) !== "unknown") return false;
  return journal.seq >= token.seq;
}

/** The `cause` of the error for such a repetition. */
export function forgottenError(): Error {
  return new Error(
    "The target does not show any more whether the operation was committed: many writes have followed, or another client has rewritten it without its journal, or deleted it.",
  );
}

/**
 * What a journal stores of an operation id. For an id of the library, which names the place of the first write: that write, and which of
 * its callers it was, because each of them may repeat its own part.
 */
function keyOf(operationId: string, scope: string | undefined): string {
  const token = parseToken(operationId);
  const [id = operationId] = token?.entries ?? [];
  return [id, ...(token?.caller === undefined ? [] : [token.caller]), ...(scope === undefined ? [] : [scope])].join(":");
}

/** What an id of the library says besides the place of the write. */
interface TokenDetails {
  /** Which of the callers that shared the write. Undefined: the only one. */
  readonly caller?: number | undefined;
  /** Where the journal is, if not in the target itself: letters, digits, `-` and `_`. */
  readonly place?: string | undefined;
}

/**
 * The operation id of a caller that gave none: the write, and its place in the history of the target, so that it can be found out later
 * that the write was not committed.
 */
export function tokenOf({ lineage, seq, entries }: Journal, { caller, place }: TokenDetails = {}): string {
  const token = `${lineage}~${seq}~${writeIdOf(entries[0] ?? "")}`;
  if (place !== undefined) return `${token}~${caller ?? ""}~${place}`;
  return caller === undefined ? token : `${token}~${caller}`;
}

/** The same for a write that no journal knows of: nothing can be found out later. */
export function tokenWithoutJournal(writeId: string, caller: number | undefined): string {
  return caller === undefined ? writeId : `${writeId}-${caller}`;
}

const tokenPattern = /^([A-Za-z0-9_-]+)~([1-9]\d{0,15})~([A-Za-z0-9_-]+)(?:~(\d{0,6})(?:~([A-Za-z0-9_-]*))?)?$/;

export function parseToken(operationId: string): (Journal & TokenDetails) | undefined {
  const [, lineage, seq, id, caller, place] = tokenPattern.exec(operationId) ?? [];
  if (lineage === undefined || id === undefined) return undefined;
  return { lineage, seq: Number(seq), entries: [id], caller: caller ? Number(caller) : undefined, place };
}

const operationIdPattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws for an operation id that a journal cannot hold. */
export function checkOperationId(operationId: string | undefined): string | undefined {
  if (operationId === undefined) return undefined;
  if (typeof operationId !== "string") throw new TypeError("operationId must be a string.");
  if (operationIdPattern.test(operationId) || tokenPattern.test(operationId)) return operationId;
  throw new RangeError("operationId must have 1 to 64 letters, digits, - and _.");
}

/** What the ids of this process begin with: 48 random bits. */
let ownPrefix: string | undefined;
let written = 0;

/** Writes of this process whose outcome is not known. If there ever are more than this, the ids of all writes stay in the journals. */
const undecided = new Set<string>();
const maxUndecided = 10_000;
let keepsAll = false;

/** The id of a new write: 8 random characters for the process, and 4 that count. It stays in journals until its outcome is known. */
export function newWriteId(): string {
  ownPrefix ??= btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(6)))).replace(/\+/g, "-").replace(/\//g, "_");
  written = (written + 1) % 36 ** 4;
  return ownPrefix + written.toString(36).padStart(4, "0");
}

/** From now on, until its outcome is known, other writes of this process keep the id in the journal. */
export function beginWrite(id: string): void {
  if (undecided.size < maxUndecided) undecided.add(id);
  else keepsAll = true;
}

/** The outcome is known: other writes of this process drop the id, so that a journal with one writer stays short. */
export function endWrite(id: string): void {
  undecided.delete(id);
}

/** Whether the last write was that of another process: more may follow than a journal keeps while an SDK waits before it sends again. */
export function isOfOtherProcess({ entries: [newest = ""] }: Journal): boolean {
  return ownPrefix === undefined || !newest.startsWith(ownPrefix);
}

function withoutKnownId(entry: string): string {
  const id = writeIdOf(entry);
  if (ownPrefix === undefined || !id.startsWith(ownPrefix) || undecided.has(id) || keepsAll) return entry;
  return entry.slice(id.length);
}

/** The text of a journal that fits into this many bytes: the oldest entries are left out. The newest is always part of it. */
export function formatJournal(journal: Journal, maxBytes: number = maxJournalInBytes): string {
  const head = `1~${journal.lineage}~${journal.seq}~`;
  const entries = [...journal.entries];
  let length = head.length + entries.reduce((sum, entry) => sum + entry.length + 1, -1);
  while (length > maxBytes && entries.length > 1) length -= (entries.pop() ?? "").length + 1;
  return head + entries.join(".");
}

/** Any text that is not a journal of this library counts as no journal: nothing can be concluded from it. */
export function parseJournal(text: unknown): Journal | undefined {
  if (typeof text !== "string") return undefined;
  const [version, lineage, seqText, entriesText] = text.split("~");
  const seq = Number(seqText);
  if (version !== "1" || !lineage || !Number.isSafeInteger(seq) || seq < 1 || !entriesText) return undefined;
  return { lineage, seq, entries: entriesText.split(".") };
}

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
  const text = formatJournal(journal, Math.min(room, maxJournalInBytes));
  if (text.length <= room) return text;
  throw journalLimitError(place);
}

/** The write cannot carry a journal. It was not sent. */
export function journalLimitError({ url, limit, need }: JournalPlace): WriteNotSentError {
  const message = `${url} has no room for the journal of writes: the service accepts ${need}. Nothing was written. Remove something, or pass journal: false.`;
  return new WriteNotSentError(createError(LimitError, message, { url, code: "JOURNAL_LIMIT", limit }));
}

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
