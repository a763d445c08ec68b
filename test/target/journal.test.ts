import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  beginWrite,
  checkOperationId,
  endWrite,
  formatJournal,
  hasOperation,
  journalAfter,
  journalLength,
  maxOperationIds,
  newWriteId,
  outcomeOf,
  parseJournal,
  parseToken,
  tokenOf,
} from "../../src/target/journal.js";
import type { Journal } from "../../src/target/journal.js";

interface State {
  etag: string;
  journal: Journal | undefined;
}

const othersDo = ["journaled write", "write that keeps the journal", "write that drops the journal", "delete", "create with journal", "create without"] as const;
type Event = (typeof othersDo)[number];

let etags = 0;
function newETag(): string {
  return `"0x8D${(++etags).toString(16).padStart(12, "0")}"`;
}

/** The id of a write whose outcome is not known yet. */
function openWrite(): string {
  const id = newWriteId();
  beginWrite(id);
  return id;
}

/** Writes of another process, and writes of this one whose outcome is known. */
function pickId(): string {
  return ++etags % 2 === 0 ? newWriteId() : foreignId();
}

/** The id of a write of another process. */
function foreignId(): string {
  return `other${(++etags).toString().padStart(7, "0")}`;
}

/** What is stored after somebody else did this; what cannot be done leaves it as it is. */
function happen(state: State | undefined, event: Event): State | undefined {
  if (!state) {
    if (event === "create with journal") return { etag: newETag(), journal: journalAfter(undefined, pickId()) };
    return event === "create without" ? { etag: newETag(), journal: undefined } : undefined;
  }
  switch (event) {
    case "journaled write":
      return { etag: newETag(), journal: journalAfter(state, pickId()) };
    case "write that keeps the journal":
      return { etag: newETag(), journal: state.journal };
    case "write that drops the journal":
      return { etag: newETag(), journal: undefined };
    case "delete":
      return undefined;
    default:
      return state;
  }
}

const histories = fc.array(fc.constantFrom(...othersDo), { maxLength: 50 });

describe("the write journal", () => {
  it("comes back from its text as it was", () => {
    const lineage = fc.stringMatching(/^@?[A-Za-z0-9_-]{1,40}$/);
    const id = fc.stringMatching(/^[A-Za-z0-9_-]{12}$/);
    fc.assert(
      fc.property(lineage, fc.integer({ min: 1 }), fc.array(id, { minLength: 1, maxLength: 32 }), (lineage, seq, entries) => {
        expect(parseJournal(formatJournal({ lineage, seq, entries }))).toEqual({ lineage, seq, entries });
      }),
    );
  });

  it("takes what is no journal for none", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.constantFrom(undefined, null, 5, "1~a~0~x", "1~a~x~y", "2~a~1~x", "1~~1~x", "1~a~1~", "1~a~1.5~x")), (text) => {
        const journal = parseJournal(text);
        if (journal) expect(formatJournal(journal)).toBe(text);
      }),
    );
    for (const text of ["1~a~0~x", "1~a~x~y", "2~a~1~x", "1~~1~x", "1~a~1~", "1~a~1.5~x", ""]) expect(parseJournal(text)).toBeUndefined();
  });

  it("never says that a write landed which did not, nor that one did not which did, whatever others do", () => {
    fc.assert(
      fc.property(histories, fc.boolean(), histories, (before, landed, after) => {
        const base = before.reduce<State | undefined>(happen, undefined);
        const written = journalAfter(base, openWrite());
        const ours: State | undefined = landed ? { etag: newETag(), journal: written } : base;
        const found = after.reduce(happen, ours);
        expect(outcomeOf(written, found?.journal)).not.toBe(landed ? "not committed" : "committed");
      }),
      { numRuns: 2_000 },
    );
  });

  it("knows for sure as long as fewer than 32 writes came on top and nobody dropped it", () => {
    const onTop = fc.array(fc.constantFrom<Event[]>("journaled write", "write that keeps the journal"), { maxLength: journalLength - 1 });
    const base = fc.integer({ min: 1, max: 100 }).map((writes) =>
      Array.from({ length: writes }).reduce<State>((state) => happen(state, "journaled write")!, { etag: newETag(), journal: undefined }),
    );
    fc.assert(
      fc.property(base, fc.boolean(), onTop, (base, landed, after) => {
        const written = journalAfter(base, openWrite());
        const found = after.reduce(happen, landed ? { etag: newETag(), journal: written } : base)!;
        expect(outcomeOf(written, found.journal)).toBe(landed ? "committed" : "not committed");
      }),
    );
  });

  it("says unknown once 32 writes came on top", () => {
    const written = journalAfter({ etag: newETag(), journal: undefined }, openWrite());
    let state: State = { etag: newETag(), journal: written };
    for (let i = 0; i < journalLength - 1; i++) state = happen(state, "journaled write")!;
    expect(outcomeOf(written, state.journal)).toBe("committed");
    state = happen(state, "journaled write")!;
    expect(outcomeOf(written, state.journal)).toBe("unknown");
  });

  it("makes ids that need no escaping, of which 32 fit into metadata", () => {
    let journal: Journal | undefined;
    for (let i = 0; i < 40; i++) journal = journalAfter({ etag: newETag(), journal }, openWrite());
    expect(formatJournal(journal!)).toMatch(/^[\w.~@-]+$/);
    expect(formatJournal(journal!).length).toBeLessThan(600);
    expect(journal!.entries).toHaveLength(journalLength);
    expect(new Set(journal!.entries).size).toBe(journalLength);
  });
});

describe("the journal of a process that is the only writer", () => {
  it("has one id: the outcomes of the others are known", () => {
    let journal: Journal | undefined;
    for (let i = 0; i < 100; i++) journal = journalAfter({ etag: newETag(), journal }, newWriteId());
    expect(journal!.entries.filter((entry) => entry !== "")).toHaveLength(1);
    expect(journal!.entries).toHaveLength(journalLength);
    expect(formatJournal(journal!).length).toBeLessThan(80);
    expect(parseJournal(formatJournal(journal!))).toEqual(journal);
  });

  it("still tells another process, whose response was lost, that it was not first", () => {
    const base = { etag: newETag(), journal: journalAfter({ etag: newETag(), journal: undefined }, foreignId()) };
    const theirs = journalAfter(base, foreignId());
    let { journal } = base;
    for (let i = 0; i < journalLength; i++) {
      journal = journalAfter({ etag: newETag(), journal }, newWriteId());
      expect(outcomeOf(theirs, journal)).toBe("not committed");
    }
  });

  it("keeps the id of a write until its outcome is known", () => {
    const id = openWrite();
    const written = journalAfter({ etag: newETag(), journal: undefined }, id);
    const later = journalAfter({ etag: newETag(), journal: written }, newWriteId());
    expect(outcomeOf(written, later)).toBe("committed");
    endWrite(id);
    expect(journalAfter({ etag: newETag(), journal: later }, newWriteId()).entries[2]).toBe("");
  });

  it("keeps the ids of other processes", () => {
    const first = journalAfter(undefined, foreignId());
    expect(journalAfter({ etag: newETag(), journal: first }, newWriteId()).entries[1]).toBe(first.entries[0]);
  });
});

describe("operation ids", () => {
  const after = (journal: Journal | undefined, operationIds: readonly string[] = [], id = newWriteId()): Journal =>
    journalAfter({ etag: newETag(), journal }, id, operationIds);

  it("stay in the journal when the id of their write is dropped, and do not hide that id before", () => {
    const id = openWrite();
    const written = after(undefined, ["order-1", "order-2"], id);
    expect(outcomeOf(written, written)).toBe("committed");
    endWrite(id);
    let journal = after(written, ["order-3"]);
    for (let i = 0; i < journalLength - 2; i++) journal = after(journal);
    for (const operationId of ["order-1", "order-2", "order-3"]) expect(hasOperation(parseJournal(formatJournal(journal)), operationId)).toBe(true);
    expect(hasOperation(journal, "order-4")).toBe(false);
    expect(hasOperation(after(journal), "order-1")).toBe(false);
  });

  it("are not confused with the ids of writes, nor with parts of ids", () => {
    const id = foreignId();
    const journal = after(undefined, ["order-1"], id);
    for (const other of [id, "order", "order-11", ""]) expect(hasOperation(journal, other)).toBe(false);
  });

  it("of the library name the place of the write", () => {
    const written = after(after(undefined), [], openWrite());
    const token = tokenOf(written);
    expect(parseToken(token)).toMatchObject({ lineage: written.lineage, seq: 2 });
    expect(hasOperation(after(written), token)).toBe(true);
    expect(hasOperation(after(after(undefined)), token)).toBe(false);
    expect(parseToken("order-1")).toBeUndefined();
    expect(checkOperationId(token)).toBe(token);
  });

  it.each(["", "a b", "a.b", "a+b", "a~b", "ä", "x".repeat(65)])("cannot be %j", (operationId) => {
    expect(() => checkOperationId(operationId)).toThrow(RangeError);
  });

  it("can be what a caller has at hand", () => {
    for (const operationId of ["0b5e1b36-5f2a-4b6e-8ae1-0a4a0e2a9d11", "x".repeat(64), "A_b-9"]) expect(checkOperationId(operationId)).toBe(operationId);
    expect(checkOperationId(undefined)).toBeUndefined();
    expect(() => checkOperationId(5 as never)).toThrow(TypeError);
  });
});

describe("the text of a journal", () => {
  it("leaves out the oldest entries if there is less room, and never the newest", () => {
    let journal: Journal | undefined;
    for (let i = 0; i < 40; i++) journal = journalAfter({ etag: newETag(), journal }, foreignId());
    for (const maxBytes of [400, 200, 60]) {
      const text = formatJournal(journal!, maxBytes);
      expect(text.length).toBeLessThanOrEqual(maxBytes);
      expect(journal!.entries.slice(0, parseJournal(text)!.entries.length)).toEqual(parseJournal(text)!.entries);
      expect(text.length).toBeGreaterThan(maxBytes - 14);
    }
    expect(parseJournal(formatJournal(journal!, 0))!.entries).toEqual([journal!.entries[0]]);
  });

  it("has room for one full batch of operation ids, and for two more", () => {
    const ids = (): string[] => Array.from({ length: maxOperationIds }, () => `${++etags}`.padStart(64, "x"));
    let journal: Journal | undefined;
    const batches = [ids(), ids(), ids()];
    for (const batch of batches) journal = journalAfter({ etag: newETag(), journal }, foreignId(), batch);
    const stored = parseJournal(formatJournal(journal!));
    for (const operationId of batches.flat()) expect(hasOperation(stored, operationId)).toBe(true);
    expect(formatJournal(journal!).length).toBeLessThan(4_097);
  });
});

// Last: it changes the state of the module.
it("with thousands of writes of unknown outcome, a process keeps the ids of all its writes", () => {
  const early = Array.from({ length: 10_000 }, openWrite);
  const late = openWrite(); // too many to remember each
  for (const id of early) endWrite(id);
  const written = journalAfter({ etag: newETag(), journal: undefined }, late);
  expect(outcomeOf(written, journalAfter({ etag: newETag(), journal: written }, newWriteId()))).toBe("committed");
});
