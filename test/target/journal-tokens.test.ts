import { describe, expect, it, vi } from "vitest";

import { WriteNotSentError } from "../../src/core/resolve-write.js";
import { isConcurrencyError } from "../../src/errors.js";
import {
  beginWrite,
  checkOperationId,
  endWrite,
  forgottenError,
  formatJournal,
  hasLeft,
  hasOperation,
  isForgotten,
  isOfOtherProcess,
  journalAfter,
  journalLimitError,
  journalWithin,
  newWriteId,
  outcomeOf,
  outcomeOfToken,
  parseJournal,
  parseToken,
  requireJournalName,
  tokenOf,
  tokenWithoutJournal,
  writeOfOperation,
} from "../../src/target/journal.js";
import type { Journal } from "../../src/target/journal.js";

// What an id of the library says about its write, at the borders of each answer; and what fits into a journal, to the character.

const journal = (lineage: string, seq: number, ...entries: string[]): Journal => ({ lineage, seq, entries });
const etag = '"0x8D1"';
const lineage = "0x8D1";

describe("outcomeOf", () => {
  it("is unknown without a journal, and in another lineage", () => {
    expect(outcomeOf(journal("a", 2, "own"), undefined)).toBe("unknown");
    expect(outcomeOf(journal("a", 2, "own"), journal("b", 2, "own"))).toBe("unknown");
  });

  it("is committed for the write that began the lineage, under any number of later ones, and for no other of its number", () => {
    const later = journal("own", 200, ...Array.from({ length: 32 }, (_, i) => `other-${i}`));
    expect(outcomeOf(journal("own", 1, "own"), later)).toBe("committed");
    expect(outcomeOf(journal("own", 1, "other"), later)).toBe("unknown");
    expect(outcomeOf(journal("own", 2, "own"), later)).toBe("unknown");
  });

  it("is not committed if the base is stored, or another write has its number; and unknown before that and after 32 writes", () => {
    expect(outcomeOf(journal("a", 3, "own"), journal("a", 2, "x"))).toBe("not committed");
    expect(outcomeOf(journal("a", 3, "own"), journal("a", 1, "x"))).toBe("unknown");
    expect(outcomeOf(journal("a", 3, "own"), journal("a", 3, "x", "y"))).toBe("not committed");
    expect(outcomeOf(journal("a", 3, "own"), journal("a", 4, "x", "own+op"))).toBe("committed");
    expect(outcomeOf(journal("a", 3, "own"), journal("a", 5, "x", "y"))).toBe("unknown");
  });

  it("does not take the operation of an entry without an id for an id", () => {
    expect(outcomeOf(journal("a", 3, "own"), journal("a", 3, "+own"))).toBe("not committed");
    expect(outcomeOf(journal("a", 3, ""), journal("a", 3, "+own"))).toBe("committed");
  });
});

describe("the id of an operation", () => {
  it.each([
    [tokenOf(journal("a", 3, "id+op")), { lineage: "a", seq: 3, entries: ["id"], caller: undefined, place: undefined }],
    [tokenOf(journal("a", 3, "id"), { caller: 0 }), { lineage: "a", seq: 3, entries: ["id"], caller: 0, place: undefined }],
    [tokenOf(journal("a", 3, "id"), { caller: 123_456 }), { lineage: "a", seq: 3, entries: ["id"], caller: 123_456, place: undefined }],
    [tokenOf(journal("a", 3, "id"), { place: "row_-9Z" }), { lineage: "a", seq: 3, entries: ["id"], caller: undefined, place: "row_-9Z" }],
    [tokenOf(journal("a", 3, "id"), { caller: 12, place: "" }), { lineage: "a", seq: 3, entries: ["id"], caller: 12, place: "" }],
    [tokenOf(journal("a", 12_345, "id")), { lineage: "a", seq: 12_345, entries: ["id"], caller: undefined, place: undefined }],
  ])("%j says all that it was made of", (token, parts) => {
    expect(parseToken(token)).toEqual(parts);
    expect(checkOperationId(token)).toBe(token);
  });

  it("has each part once", () => {
    expect(tokenOf(journal("a", 3, "id"))).toBe("a~3~id");
    expect(tokenOf(journal("a", 3, "id"), { caller: 7 })).toBe("a~3~id~7");
    expect(tokenOf(journal("a", 3, "id"), { place: "p" })).toBe("a~3~id~~p");
    expect(tokenOf(journal("a", 3, "id"), { caller: 7, place: "p" })).toBe("a~3~id~7~p");
    expect(tokenWithoutJournal("id", undefined)).toBe("id");
    expect(tokenWithoutJournal("id", 0)).toBe("id-0");
  });

  it.each(["a", "a~3", "a~0~id", "a~03~id", "a~3x~id", "a~x3~id", " a~3~id", "a~3~id ", "a~3~id~x", "a~3~id~1234567", "a~3~id~1~ä", "~3~id", "a~3~", "a~3~i.d", "a~12345678901234567~id"])("%j names no place", (text) => {
    expect(parseToken(text)).toBeUndefined();
  });

  it("is found with the caller and the scope, and with no others", () => {
    const own = journal("a", 7, "first");
    const stored = (...operationIds: string[]): Journal => journalAfter({ etag, journal: journal("b", 1, "x") }, "theirs", operationIds);
    const [plain, second] = [tokenOf(own), tokenOf(own, { caller: 2 })];
    expect(stored(plain).entries[0]).toBe("theirs+first");
    expect(stored(second).entries[0]).toBe("theirs+first:2");
    expect(journalAfter(undefined, "theirs", [plain, "op"], "row").entries[0]).toBe("theirs+first:row+op:row");
    expect(journalAfter(undefined, "theirs", [second], "row").entries[0]).toBe("theirs+first:2:row");
    expect(hasOperation(stored(second), second)).toBe(true);
    expect(hasOperation(stored(second), plain)).toBe(false);
    expect(hasOperation(stored(plain), second)).toBe(false);
    expect(hasOperation(journalAfter(undefined, "t", ["op"], "row"), "op", "row")).toBe(true);
    expect(hasOperation(journalAfter(undefined, "t", ["op"], "row"), "op", "other")).toBe(false);
    expect(hasOperation(journalAfter(undefined, "t", ["op"], "row"), "op")).toBe(false);
  });

  it("leads to the write that committed it", () => {
    expect(writeOfOperation(undefined, "op")).toBeUndefined();
    expect(writeOfOperation(journal("a", 1, "w+op"), "op")).toBe("w");
    expect(writeOfOperation(journal("a", 1, "+op"), "op")).toBe("");
    expect(writeOfOperation(journal("a", 1, "op", "w+other"), "op")).toBeUndefined();
    expect(writeOfOperation(journal("a", 4, "x", "w"), "a~3~w")).toBe("w");
  });
});

describe("outcomeOfToken", () => {
  it("of a target that does not exist: not committed if the write would have created it, and unknown otherwise", () => {
    expect(outcomeOfToken(journal("own", 1, "own"), undefined)).toBe("not committed");
    expect(outcomeOfToken(journal(lineage, 1, "own"), undefined)).toBe("unknown");
  });

  it("of a target without a journal: not committed if it is still the version that the write replaces", () => {
    expect(outcomeOfToken(journal(lineage, 1, "own"), { etag, journal: undefined })).toBe("not committed");
    expect(outcomeOfToken(journal("0x8D2", 1, "own"), { etag, journal: undefined })).toBe("unknown");
  });

  it("of a target with a journal: what the journal says", () => {
    expect(outcomeOfToken(journal(lineage, 1, "own"), { etag, journal: journal(lineage, 1, "own") })).toBe("committed");
    expect(outcomeOfToken(journal(lineage, 2, "own"), { etag, journal: journal(lineage, 2, "other") })).toBe("not committed");
    expect(outcomeOfToken(journal(lineage, 1, "own"), { etag, journal: journal("other", 1, "x") })).toBe("unknown");
  });
});

describe("a write that cannot be found out any more", () => {
  const token = tokenOf(journal("a", 3, "own"));
  const stored = (found: Journal | undefined): Parameters<typeof isForgotten>[0] => ({ etag, journal: found });

  it("has left the journal, if 32 writes have followed", () => {
    expect(hasLeft(journal("a", 5, "x", "y"), token)).toBe(true);
    expect(isForgotten(stored(journal("a", 5, "x", "y")), token)).toBe(true);
  });

  it("has not, if it is not there yet, was committed, or was not", () => {
    for (const found of [journal("a", 1, "x"), journal("a", 2, "x"), journal("a", 3, "own"), journal("a", 3, "other"), journal("a", 4, "x", "own")]) {
      expect(hasLeft(found, token)).toBe(false);
      expect(isForgotten(stored(found), token)).toBe(false);
    }
  });

  it("is forgotten by a target in another lineage, without a journal, or deleted; none of which has it left", () => {
    for (const found of [journal("b", 9, "x"), undefined]) {
      expect(hasLeft(found, token)).toBe(false);
      expect(isForgotten(stored(found), token)).toBe(true);
    }
    expect(isForgotten(undefined, token)).toBe(true);
    expect(forgottenError()).toBeInstanceOf(Error);
  });

  it("is not one that an id of the caller names, nor one that would have created the target", () => {
    for (const id of ["order-1", ""]) {
      expect(hasLeft(journal("a", 99, "x"), id)).toBe(false);
      expect(isForgotten(stored(journal("a", 99, "x")), id)).toBe(false);
      expect(isForgotten(undefined, id)).toBe(false);
    }
    expect(isForgotten(undefined, tokenOf(journal("own", 1, "own")))).toBe(false);
  });

  it("of the same number that its journal has, if its entry is missing there", () => {
    expect(hasLeft({ lineage: "a", seq: 3, entries: [] }, token)).toBe(true);
  });
});

describe("ids of writes", () => {
  it("need no escaping, whatever the random bytes are, and count up", async () => {
    vi.resetModules();
    const random = vi.spyOn(crypto, "getRandomValues").mockImplementation((bytes) => {
      (bytes as Uint8Array).set([0xfb, 0xff, 0xff, 0xfb, 0xef, 0xbe]);
      return bytes;
    });
    const fresh = await import("../../src/target/journal.js");
    // Before the first write of this process, all writes are those of others.
    for (const other of ["x", "undefined0001"]) {
      expect(fresh.isOfOtherProcess(journal("a", 1, other))).toBe(true);
      expect(fresh.journalAfter({ etag, journal: journal("a", 1, other) }, "y").entries).toEqual(["y", other]);
    }
    expect([fresh.newWriteId(), fresh.newWriteId()]).toEqual(["-___----0001", "-___----0002"]);
    random.mockRestore();
    vi.resetModules();
  });

  it("tell the writes of this process from others", () => {
    const own = newWriteId();
    expect(isOfOtherProcess(journal("a", 2, own, "x"))).toBe(false);
    expect(isOfOtherProcess(journal("a", 2, "x", own))).toBe(true);
    expect(isOfOtherProcess(journal("a", 2, `x${own}`))).toBe(true);
    expect(isOfOtherProcess({ lineage: "a", seq: 1, entries: [] })).toBe(true);
  });

  it("are all kept once 10,000 writes are not known to have ended", async () => {
    vi.resetModules();
    const fresh = await import("../../src/target/journal.js");
    const ids = Array.from({ length: 10_001 }, () => fresh.newWriteId());
    const keeps = (id: string): boolean => fresh.journalAfter({ etag, journal: journal("a", 1, id) }, "y").entries[1] === id;
    for (const id of ids.slice(0, 10_000)) fresh.beginWrite(id);
    const known = fresh.newWriteId();
    expect(keeps(known)).toBe(false);
    fresh.beginWrite(ids[10_000]!);
    expect(keeps(known)).toBe(true);
    fresh.endWrite(ids[0]!);
    expect(keeps(ids[0]!)).toBe(true);
    vi.resetModules();
  });

  it("are dropped one by one as their outcomes become known", () => {
    const [first, second] = [newWriteId(), newWriteId()];
    beginWrite(first);
    beginWrite(second);
    endWrite(first);
    expect(journalAfter({ etag, journal: journal("a", 2, first, second) }, "x").entries).toEqual(["x", "", second]);
    endWrite(second);
  });
});

describe("the room for a journal", () => {
  const three = journal("a", 3, "aaa", "bbb", "ccc");
  const whole = "1~a~3~aaa.bbb.ccc";
  const place = { url: "https://a/b", limit: "metadata", need: "8 KiB of metadata" } as const;

  it("is used to the last character", () => {
    expect(formatJournal(three, whole.length)).toBe(whole);
    expect(formatJournal(three, whole.length - 1)).toBe("1~a~3~aaa.bbb");
    expect(formatJournal(three, whole.length - 4)).toBe("1~a~3~aaa.bbb");
    expect(formatJournal(three, whole.length - 5)).toBe("1~a~3~aaa");
  });

  it("begins with the first write", () => {
    expect(parseJournal("1~a~1~x")).toEqual(journal("a", 1, "x"));
    for (const text of ["1~a~0~x", "1~a~-1~x", "1~a~1.5~x", "2~a~1~x", "1~~1~x", "1~a~1~", "1~a~9007199254740992~x"]) expect(parseJournal(text)).toBeUndefined();
  });

  it("is at most 4 KiB, and too little if the newest entry does not fit", () => {
    const long = journal("a", 3, "x".repeat(3_000), "y".repeat(3_000));
    expect(journalWithin(long, 8_000, place)).toBe(`1~a~3~${"x".repeat(3_000)}`);
    expect(journalWithin(three, whole.length - 8, place)).toBe("1~a~3~aaa");
    expect(() => journalWithin(three, whole.length - 9, place)).toThrow(WriteNotSentError);
  });

  it("that is missing is a LimitError, in a write that was not sent", () => {
    const { cause } = journalLimitError(place);
    expect(isConcurrencyError(cause, "JOURNAL_LIMIT")).toBe(true);
    expect(cause).toMatchObject({ url: "https://a/b", limit: "metadata", message: expect.stringContaining("8 KiB of metadata") as string });
  });

  it("is not that of a value of the caller", () => {
    const check = (name: string, own: string[], stored: unknown) => (): void => requireJournalName(name, own, stored, "https://a/b");
    expect(check("j", [], undefined)).not.toThrow();
    expect(check("j", [], "")).not.toThrow();
    expect(check("j", [], whole)).not.toThrow();
    expect(check("asc_journal", [], "mine")).not.toThrow();
    expect(check("j", ["other"], undefined)).not.toThrow();
    for (const refused of [check("j", [], "mine"), check("j", [], 5), check("j", ["other", "j"], undefined), check("asc_journal", ["asc_journal"], undefined)]) expect(refused).toThrow();
  });
});
