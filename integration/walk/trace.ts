/**
 * Tells through which files of src/ one call of the library goes.
 *
 * A file counts when one of its functions runs while the call is under way. Functions are all that have a body: functions,
 * arrows (with braces or without), methods, constructors and accessors. What runs when modules are loaded does not count,
 * and so neither do files that have types, constants or re-exports only: who follows a call need not open them.
 *
 * A hop is a function that runs in another file than the function that was entered before it. Returns are no hops: who
 * reads on after a call has its place still open. Neither is what goes on after an `await`.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import ts from "typescript";

import type * as Library from "../../src/index.js";
import type { Call, Storage } from "./calls.js";

/** What one call went through. */
export interface Walk {
  /** In the order in which they were first entered, as `src/errors.ts`. */
  readonly files: readonly string[];
  readonly hops: number;
}

declare global {
  /** The file of each function that is entered. Not there while nothing is traced: then the functions note nothing. */
  var walkEntries: string[] | undefined;
}

const root = join(import.meta.dirname, "../..");

/** The library, with functions that note that they are entered. Trace one call at a time: all note into the same list. */
export class TracedLibrary {
  readonly #library: typeof Library;

  private constructor(library: typeof Library) {
    this.#library = library;
  }

  /**
   * Makes a copy of the sources with the notes in them, and loads it. `src` may be that of another checkout, to compare; it
   * runs with the packages of this one.
   */
  static async load(src: string = join(root, "src")): Promise<TracedLibrary> {
    const cache = join(root, "node_modules/.cache");
    mkdirSync(cache, { recursive: true });
    // In node_modules, so that Node finds the packages that the library imports.
    const copy = mkdtempSync(join(cache, "walk-"));
    try {
      copyWithNotes(resolve(src), copy);
      const index = pathToFileURL(join(copy, "index.js")).href;
      return new TracedLibrary((await import(/* @vite-ignore */ index)) as typeof Library);
    } finally {
      // The library has no dynamic imports: whatever it needs is loaded by now.
      rmSync(copy, { recursive: true });
    }
  }

  /** Makes the call twice. Only the second one is traced: the first one creates what is created once, such as a lock's blob. */
  async walk(call: Call, storage: Storage): Promise<Walk> {
    const makeCall = await call.prepare(this.#library, storage);
    await makeCall((part) => part());
    const entries: string[] = [];
    await makeCall(async (part) => {
      globalThis.walkEntries = entries;
      try {
        await part();
      } finally {
        globalThis.walkEntries = undefined;
      }
    });
    return { files: [...new Set(entries)], hops: entries.filter((file, i) => i > 0 && file !== entries[i - 1]).length };
  }
}

/** Copies `index.ts` and whatever it imports, so that neither src/testing nor src/cli is part of it. */
function copyWithNotes(src: string, copy: string): void {
  const paths = new Set(["index.ts"]);
  // A set that grows while it is gone through: what is added comes at the end.
  for (const path of paths) {
    const text = readFileSync(join(src, path), "utf8");
    for (const { fileName } of ts.preProcessFile(text).importedFiles) {
      if (fileName.startsWith(".")) paths.add(join(dirname(path), fileName.replace(/\.js$/, ".ts")));
    }
    const target = join(copy, path.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, withoutTypes(withNotes(`src/${path}`, text)));
  }
  writeFileSync(join(copy, "package.json"), '{ "type": "module" }');
}

function withoutTypes(text: string): string {
  const compilerOptions = { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true };
  return ts.transpileModule(text, { compilerOptions }).outputText;
}

/** The same source, and each function begins with a note of the file that it is in. */
function withNotes(file: string, text: string): string {
  const note = `globalThis.walkEntries?.push(${JSON.stringify(file)})`;
  const inserts: { at: number; text: string }[] = [];
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const visit = (node: ts.Node): void => {
    const body = ts.isFunctionLike(node) && "body" in node ? node.body : undefined;
    if (body && ts.isBlock(body)) inserts.push({ at: body.getStart() + 1, text: `${note};` });
    else if (body) inserts.push({ at: body.getStart(), text: `(${note}, (` }, { at: body.end, text: "))" });
    ts.forEachChild(node, visit);
  };
  visit(source);
  // From the end, so that the positions before an insert stay true.
  inserts.sort((a, b) => b.at - a.at);
  return inserts.reduce((result, { at, text: insert }) => result.slice(0, at) + insert + result.slice(at), text);
}
