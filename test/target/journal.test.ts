import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { outcomeOf, outcomeOfCreate, formatJournal, journalAfter, journalLength, newWriteId, parseJournal } from "../../src/target/journal.js";
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

/** What is stored after somebody else did this; what cannot be done leaves it as it is. */
function happen(state: State | undefined, event: Event): State | undefined {
  if (!state) {
    if (event === "create with journal") return { etag: newETag(), journal: journalAfter(undefined, newWriteId()) };
    return event === "create without" ? { etag: newETag(), journal: undefined } : undefined;
  }
  switch (event) {
    case "journaled write":
      return { etag: newETag(), journal: journalAfter(state, newWriteId()) };
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
      fc.property(lineage, fc.integer({ min: 1 }), fc.array(id, { minLength: 1, maxLength: 32 }), (lineage, seq, ids) => {
        expect(parseJournal(formatJournal({ lineage, seq, ids }))).toEqual({ lineage, seq, ids });
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
        const written = journalAfter(base, newWriteId());
        const ours: State | undefined = landed ? { etag: newETag(), journal: written } : base;
        const found = after.reduce(happen, ours);
        expect(outcomeOf(written, found?.journal)).not.toBe(landed ? "not committed" : "committed");
      }),
      { numRuns: 2_000 },
    );
  });

  it("never errs about a create either, unless the target was deleted and made anew since", () => {
    const others = fc.array(fc.constantFrom(...othersDo.filter((event) => event !== "delete")), { maxLength: 50 });
    fc.assert(
      fc.property(fc.boolean(), others, (landed, after) => {
        const written = journalAfter(undefined, newWriteId());
        const found = after.reduce<State | undefined>(happen, landed ? { etag: newETag(), journal: written } : undefined);
        expect(outcomeOfCreate(written, found?.journal)).not.toBe(landed ? "not committed" : "committed");
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
        const written = journalAfter(base, newWriteId());
        const found = after.reduce(happen, landed ? { etag: newETag(), journal: written } : base)!;
        expect(outcomeOf(written, found.journal)).toBe(landed ? "committed" : "not committed");
      }),
    );
  });

  it("says unknown once 32 writes came on top", () => {
    const written = journalAfter({ etag: newETag(), journal: undefined }, newWriteId());
    let state: State = { etag: newETag(), journal: written };
    for (let i = 0; i < journalLength - 1; i++) state = happen(state, "journaled write")!;
    expect(outcomeOf(written, state.journal)).toBe("committed");
    state = happen(state, "journaled write")!;
    expect(outcomeOf(written, state.journal)).toBe("unknown");
  });

  it("makes ids that need no escaping, of which 32 fit into metadata", () => {
    let journal: Journal | undefined;
    for (let i = 0; i < 40; i++) journal = journalAfter({ etag: newETag(), journal }, newWriteId());
    expect(formatJournal(journal!)).toMatch(/^[\w.~@-]+$/);
    expect(formatJournal(journal!).length).toBeLessThan(600);
    expect(journal!.ids).toHaveLength(journalLength);
  });
});
