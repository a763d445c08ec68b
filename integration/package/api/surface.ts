import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

import ts from "typescript";

import { entries, root } from "../support/repository.js";

const fileOf = (entry: string): string => join(root, `dist/${entry}.d.ts`);
const program = ts.createProgram(entries.map(fileOf), {
  module: ts.ModuleKind.NodeNext,
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.esnext.disposable.d.ts"],
  types: ["node"],
});
const checker = program.getTypeChecker();

/** The names that an entry exports. */
export function exportsOf(entry: string): string[] {
  const symbol = checker.getSymbolAtLocation(program.getSourceFile(fileOf(entry))!);
  return checker
    .getExportsOfModule(symbol!)
    .map(({ name }) => name)
    .toSorted();
}

/** The names that every file sees without an import: those of JavaScript, of browsers and of Node. */
export function globalNames(): Set<string> {
  const scope = (ts.SymbolFlags.Value | ts.SymbolFlags.Type | ts.SymbolFlags.Namespace) as ts.SymbolFlags;
  return new Set(checker.getSymbolsInScope(ts.createSourceFile("empty.ts", "", ts.ScriptTarget.ES2022), scope).map(({ name }) => name));
}

/** The size of all declarations that are shipped. */
export function declarationBytes(): number {
  const files = readdirSync(join(root, "dist"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".d.ts"));
  return files.reduce((sum, file) => sum + statSync(join(root, "dist", file)).size, 0);
}
