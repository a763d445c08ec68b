/**
 * The write journal: how a writer whose answer was lost finds out whether its write landed.
 *
 * Each write carries the number of journaled writes so far and the ids of the last 32, newest first. A writer that
 * based its write on number n looks, in what is stored now, for the id of write n+1: its own id means that it
 * landed, another id that somebody else was first. Comparing contents could not tell: two writers may well want the
 * same content.
 */
export interface Journal {
  /**
   * Where the count began: the ETag that the first journaled write replaced, or the id of the write that created the
   * target. Numbers of two lineages cannot be compared: the target was deleted and made anew, or somebody who knows
   * nothing of the journal dropped it.
   */
  readonly lineage: string;
  readonly seq: number;
  /** Newest first. */
  readonly ids: readonly string[];
}

/** How many writes back a writer still finds its own. */
export const journalLength = 32;

/** Where the journal is kept unless the caller says otherwise; lower case, as metadata names come back in it. */
export const defaultJournalName = "asc_journal";

/** The journal of a write with this id on top of what was read (`undefined`: nothing is there, or no journal). */
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

/** Whether the write that carried `written` is part of a history that now reads `found`. */
export function outcomeOf(written: Journal, found: Journal | undefined): "committed" | "not committed" | "unknown" {
  if (found?.lineage !== written.lineage) return "unknown";
  const position = found.seq - written.seq;
  // One behind: what is stored is our base, or it as changed by somebody who left the journal alone.
  if (position === -1) return "not committed";
  const id = found.ids[position];
  if (id === undefined) return "unknown";
  return id === written.ids[0] ? "committed" : "not committed";
}

/** The same for a write that created its target, and so began a lineage with its own id. */
export function outcomeOfCreate(written: Journal, found: Journal | undefined): "committed" | "not committed" | "unknown" {
  if (found?.lineage === written.lineage) return "committed"; // however many writes came on top
  // A history that reaches back to another create: that one was first. (That ours landed, was deleted and made again by
  // others, all since it was sent, looks the same.) Otherwise somebody without a journal wrote, before us or over us.
  return found && found.ids[found.seq - 1] === found.lineage ? "not committed" : "unknown";
}

// Drawn for many ids at once: a call for each one was a tenth of all the time that an update spends in the library.
const random = new Uint8Array(9 * 64);
let used = random.length;

/** 72 random bits in 12 characters: 32 of them stay far below the limits of metadata. */
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

/** Anything that is not a journal of ours counts as none: then nothing can be concluded from it. */
export function parseJournal(text: unknown): Journal | undefined {
  if (typeof text !== "string") return undefined;
  const [version, lineage, seqText, idsText] = text.split("~");
  const seq = Number(seqText);
  if (version !== "1" || !lineage || !Number.isSafeInteger(seq) || seq < 1 || !idsText) return undefined;
  return { lineage, seq, ids: idsText.split(".") };
}
