import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import ts from "typescript";

/** The root of the repository. */
export const root: string = join(import.meta.dirname, "../..");

/** Sources by their path from `src/`. */
export type Sources = ReadonlyMap<string, string>;

/** All files of `src/`. */
export function readSources(): Sources {
  const src = join(root, "src");
  const paths = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts")).sort();
  return new Map(paths.map((path) => [path, readFileSync(join(src, path), "utf8")]));
}

/** What each file imports or re-exports, types included: other files by their path from `src/`, packages by their name. */
export function importsOf(sources: Sources): ReadonlyMap<string, readonly string[]> {
  return new Map(Array.from(sources, ([path, text]) => [path, importsIn(path, text)]));
}

function importsIn(path: string, text: string): readonly string[] {
  const names = ts.preProcessFile(text).importedFiles.map(({ fileName }) => fileName);
  return [...new Set(names.map((name) => (name.startsWith(".") ? join(dirname(path), name).replace(/\.js$/, ".ts") : name)))];
}

/** The cycles of a graph: for each file that can reach itself, a shortest way back, once for all files on it. */
export function cyclesIn(imports: ReadonlyMap<string, readonly string[]>): readonly (readonly string[])[] {
  const inCycle = new Set<string>();
  const cycles: (readonly string[])[] = [];
  for (const start of imports.keys()) {
    const way = inCycle.has(start) ? undefined : shortestWayBack(start, imports);
    if (!way) continue;
    for (const path of way) inCycle.add(path);
    cycles.push([...way, start]);
  }
  return cycles;
}

function shortestWayBack(start: string, imports: ReadonlyMap<string, readonly string[]>): readonly string[] | undefined {
  const seen = new Set<string>();
  const ways: (readonly string[])[] = [[start]];
  // An array that grows while it is iterated: a breadth-first search.
  for (const way of ways) {
    for (const next of imports.get(way.at(-1) ?? "") ?? []) {
      if (next === start) return way;
      if (!seen.has(next)) ways.push([...way, next]);
      seen.add(next);
    }
  }
  return undefined;
}

/** All nodes of a file for which `matches` is true. Comments are not nodes. */
export function nodesIn(path: string, text: string, matches: (node: ts.Node) => boolean): readonly ts.Node[] {
  const found: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    if (matches(node)) found.push(node);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true));
  return found;
}
