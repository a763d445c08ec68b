/** The mutants that no test kills, and the sentence for each: `survivors.json`. They are found by what they change, wherever it stands in the file. */
import { readFileSync } from "node:fs";

import type { Stryker } from "@stryker-mutator/core";

/** What became of one mutant. */
export type MutantResult = Awaited<ReturnType<Stryker["runMutationTest"]>>[number];

/** A mutant, without its place. */
export interface MutantKey {
  readonly file: string;
  readonly mutator: string;
  /** The line of code in which it begins. */
  readonly line: string;
  /** What it replaces, and by what; long ones are cut. */
  readonly from: string;
  readonly to: string;
}

export interface Survivor extends MutantKey {
  /** No test can tell it from the original, so it does not count. */
  readonly equivalent: boolean;
  readonly reason: string;
}

const survivorsUrl = new URL("survivors.json", import.meta.url);

export function readSurvivors(): readonly Survivor[] {
  return JSON.parse(readFileSync(survivorsUrl, "utf8")) as Survivor[];
}

export function keyOf(mutant: Pick<MutantResult, "fileName" | "location" | "mutatorName" | "replacement">, file: string, source: string): MutantKey {
  const lines = source.split("\n");
  const { start, end } = mutant.location;
  const first = lines[start.line - 1] ?? "";
  const changed = lines.slice(start.line - 1, end.line);
  changed[changed.length - 1] = (changed.at(-1) ?? "").slice(0, end.column - 1);
  changed[0] = (changed[0] ?? "").slice(start.column - 1);
  return { file, mutator: mutant.mutatorName, line: shortened(first), from: shortened(changed.join(" ")), to: shortened(mutant.replacement) };
}

function shortened(text: string): string {
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length <= 200 ? flat : `${flat.slice(0, 200)}…`;
}

export function isSame(a: MutantKey, b: MutantKey): boolean {
  return a.file === b.file && a.mutator === b.mutator && a.line === b.line && a.from === b.from && a.to === b.to;
}
