/** The scores of the last run of each file, and the table of them in CONTRIBUTING.md. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../architecture/source.js";
import { mutatedFiles } from "./files.js";

/** In percent, for each file. */
export const bound = 90;

export interface Score {
  /** Percent of the mutants that are not equivalent. */
  readonly score: number;
  readonly mutants: number;
  readonly survived: number;
  readonly equivalent: number;
}

const scoresUrl = new URL("scores.json", import.meta.url);
const contributing = join(root, "CONTRIBUTING.md");
const block = /(<!-- mutation -->\n)[\s\S]*?(<!-- \/mutation -->)/;

export function scoreOf(statuses: readonly string[], equivalent: number): Score {
  const count = (...wanted: string[]): number => statuses.filter((status) => wanted.includes(status)).length;
  const killed = count("Killed", "Timeout");
  const survived = count("Survived", "NoCoverage") - equivalent;
  const mutants = killed + survived;
  return { score: mutants === 0 ? 100 : Math.floor((1_000 * killed) / mutants) / 10, mutants, survived, equivalent };
}

export function readScores(): Record<string, Score> {
  return JSON.parse(readFileSync(scoresUrl, "utf8")) as Record<string, Score>;
}

/** In the order of the list of files; what is not in the list is left out. */
export function writeScores(scores: Record<string, Score>): void {
  const known = mutatedFiles.flatMap(({ file }) => (scores[file] ? [[file, scores[file]] as const] : []));
  writeFileSync(scoresUrl, `${JSON.stringify(Object.fromEntries(known), undefined, 2)}\n`);
  writeFileSync(contributing, readFileSync(contributing, "utf8").replace(block, (_, begin: string, end: string) => `${begin}${scoreTable()}${end}`));
}

export function scoreTable(): string {
  const scores = readScores();
  const rows = mutatedFiles.map(({ file }) => {
    const score = scores[file];
    return score ? `| \`${file}\` | ${score.score} % | ${score.mutants} | ${score.survived} | ${score.equivalent} |` : `| \`${file}\` | not run | | | |`;
  });
  return ["| File | Killed | Mutants | Survivors | Equivalent |", "|---|---|---|---|---|", ...rows, ""].join("\n");
}

export function storedTable(): string | undefined {
  return block.exec(readFileSync(contributing, "utf8"))?.[0].replace(/^<!-- mutation -->\n/, "").replace(/<!-- \/mutation -->$/, "");
}
