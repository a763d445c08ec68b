/**
 * The write journal: how a writer whose response was lost determines whether its write was committed.
 *
 * Each write carries the number of journaled writes so far and the ids of the last 32, newest first. A writer that based its
 * write on number n searches what is stored now for the id of write n+1: its own id means that the write was committed,
 * another id that another writer was first. Comparing contents would not be conclusive: two writers may write the same
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
  /** Newest first. */
  readonly ids: readonly string[];
}

/** The number of write ids that a journal keeps: a writer recognises its write under up to 31 later ones. */
export const journalLength = 32;

/** The default name of the journal. Lower case, because metadata names are returned in lower case. */
export const defaultJournalName = "asc_journal";

/** The journal of a write with this id, based on what was read (`undefined`: the target does not exist). */
export function journalAfter(
  base: { readonly etag: string; readonly journal: Journal | undefined } | undefined,
  id: string,
): Journal {
  const before = base?.journal;
  if (before) {
    return { lineage: before.lineage, seq: before.seq + 1, ids: [id, ...before.ids.slice(0, journalLength - 1)] };
  }
  return { lineage: base ? base.etag.replace(/[^A-Za-z0-9]/g, "") : id, seq: 1, ids: [id] };
}

/** Whether the write that carried `written` is part of the history that is now stored as `found`. */
export function outcomeOf(written: Journal, found: Journal | undefined): "committed" | "not committed" | "unknown" {
  if (found?.lineage !== written.lineage) return "unknown";
  const position = found.seq - written.seq;
  // One behind: our base is still stored, or a client that leaves the journal unchanged has modified it.
  if (position === -1) return "not committed";
  const id = found.ids[position];
  if (id === undefined) return "unknown";
  return id === written.ids[0] ? "committed" : "not committed";
}

/** The same for a write that created its target, and so started a lineage with its own id. */
export function outcomeOfCreate(written: Journal, found: Journal | undefined): "committed" | "not committed" | "unknown" {
  if (found?.lineage === written.lineage) return "committed"; // after any number of later writes
  // The history reaches back to another create: that one was first. (If ours was committed and deleted, and another writer
  // then created the target again, the history is the same.) Otherwise a client without a journal wrote before or after us.
  return found && found.ids[found.seq - 1] === found.lineage ? "not committed" : "unknown";
}

// Generated for many ids at once: one call per id took a tenth of the time that an update spends in the library.
const random = new Uint8Array(9 * 64);
let used = random.length;

/** 72 random bits in 12 characters: 32 ids stay far below the size limit of metadata. */
export function newWriteId(): string {
  if (used === random.length) {
    crypto.getRandomValues(random);
    used = 0;
  }
  const bytes = random.subarray(used, (used += 9));
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_");
}

export function formatJournal(journal: Journal): string {
  return `1~${journal.lineage}~${journal.seq}~${journal.ids.join(".")}`;
}

/** Any text that is not a journal of this library counts as no journal: nothing can be concluded from it. */
export function parseJournal(text: unknown): Journal | undefined {
  if (typeof text !== "string") return undefined;
  const [version, lineage, seqText, idsText] = text.split("~");
  const seq = Number(seqText);
  if (version !== "1" || !lineage || !Number.isSafeInteger(seq) || seq < 1 || !idsText) return undefined;
  return { lineage, seq, ids: idsText.split(".") };
}

const operationIdPattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws for an operation id that a journal cannot hold. */
export function checkOperationId(operationId: string | undefined): string | undefined {
  if (operationId === undefined) return undefined;
  if (typeof operationId !== "string") throw new TypeError("operationId must be a string.");
  if (operationIdPattern.test(operationId)) return operationId;
  throw new RangeError("operationId must have 1 to 64 letters, digits, - and _.");
}
