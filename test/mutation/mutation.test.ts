import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { describe, expect, it } from "vitest";

import { root } from "../architecture/source.js";
import { mutatedFiles } from "./files.js";
import { bound, readScores, scoreOf, scoreTable, storedTable } from "./scores.js";
import { keyOf, readSurvivors } from "./survivors.js";

const read = (file: string): string => readFileSync(join(root, file), "utf8");

/** `a/{b,c}/d` without braces. */
function alternatives(pattern: string): string[] {
  const [, before = "", among, after = ""] = /^([^{]*)\{([^}]*)\}(.*)$/.exec(pattern) ?? [];
  return among === undefined ? [pattern] : among.split(",").flatMap((part) => alternatives(before + part + after));
}

function filesOf(pattern: string): string[] {
  const name = new RegExp(`^${basename(pattern).replaceAll(".", "\\.").replaceAll("*", ".*")}$`);
  return readdirSync(join(root, dirname(pattern))).filter((file) => name.test(file));
}

const flat = (text: string): string => text.replace(/\s+/g, " ").trim();

describe("mutation tests", () => {
  it.each(mutatedFiles)("$file and its tests exist", ({ file, tests }) => {
    expect(existsSync(join(root, file))).toBe(true);
    for (const each of tests.flatMap(alternatives)) expect(filesOf(each), each).not.toEqual([]);
  });

  it("the table in CONTRIBUTING.md has the scores of the last runs", () => {
    expect(storedTable()).toBe(scoreTable());
  });

  it("each survivor is in a file that is mutated, in a line that exists, and has a reason", () => {
    for (const survivor of readSurvivors()) {
      expect(mutatedFiles.map(({ file }) => file)).toContain(survivor.file);
      expect(read(survivor.file).split("\n").map(flat).filter((line) => line.startsWith(survivor.line.replace(/…$/, "")))).not.toEqual([]);
      expect(survivor.reason).toMatch(/^[A-Z].{20,}\.$/);
    }
  });

  it("the survivors of a file that was run are listed, if it has reached the bound", () => {
    for (const [file, { score, survived, equivalent }] of Object.entries(readScores())) {
      if (score < bound) continue;
      const listed = readSurvivors().filter((each) => each.file === file);
      // Several mutants of one line may be the same change.
      expect(listed.length, file).toBeLessThanOrEqual(survived + equivalent);
      if (survived + equivalent > 0) expect(listed, file).not.toEqual([]);
    }
  });

  it("a mutant is described by what it changes, and not by its place", () => {
    const mutant = { fileName: "a.ts", mutatorName: "EqualityOperator", replacement: "a <= b", location: { start: { line: 2, column: 7 }, end: { line: 2, column: 12 } } };
    const key = { file: "a.ts", mutator: "EqualityOperator", line: "if (a < b) return;", from: "a < b", to: "a <= b" };
    expect(keyOf(mutant, "a.ts", "\n  if (a < b) return;\n")).toEqual(key);
    const moved = { ...mutant, location: { start: { line: 4, column: 7 }, end: { line: 4, column: 12 } } };
    expect(keyOf(moved, "a.ts", "\n\n\n  if (a < b) return;\n")).toEqual(key);
  });

  it("the score leaves out mutants that are equivalent, do not compile or are ignored", () => {
    const statuses = ["Killed", "Timeout", "Survived", "NoCoverage", "Ignored", "RuntimeError"];
    expect(scoreOf(statuses, 1)).toEqual({ score: 66.6, mutants: 3, survived: 1, equivalent: 1 });
    expect(scoreOf([], 0).score).toBe(100);
  });
});
