import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import * as library from "../../src/index.js";
import { pages, root } from "./pages.js";

/** The pages for users, without those for contributors. */
const text = pages.filter(({ path }) => path === "README.md" || path.startsWith("docs/")).map((page) => page.text).join("\n");
const options = optionsOf(join(root, "src"));
const errorPage = pages.find(({ path }) => path === "docs/errors.md")?.text ?? "";

describe("README and docs", () => {
  test("name every function and class", () => {
    const names = Object.keys(library);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
  });

  test("have every error in one table, with what the code says of it", () => {
    const source = readFileSync(join(root, "src/errors.ts"), "utf8");
    const [, map = ""] = /interface ConcurrencyErrorMap \{\n([\s\S]*?)\n\}/.exec(source) ?? [];
    const errors = [...map.matchAll(/^ {2}(\w+): (\w+)/gm)];
    expect(errors.length).toBeGreaterThan(15);
    const wanted = errors.map(([, code = "", name = ""]) => {
      const { committed = false, retryable } = (library as unknown as Record<string, ErrorClass>)[name]!.kind;
      return [`\`${code}\``, `\`${name}\``, `\`${JSON.stringify(committed)}\``, retryable ? "yes" : "no"].join(" | ");
    });
    const rows = [...errorPage.matchAll(/^\| (`[A-Z_]+`) \| (`\w+`) \|[^|]+\| (`[^|]+`) \| (yes|no) \|[^|]+\|$/gm)].map((cells) => cells.slice(1).join(" | "));
    expect(rows).toEqual(wanted);
  });

  test("name every option", () => {
    expect(options.length).toBeGreaterThan(40);
    const missing = options.filter(({ name }) => !new RegExp(`\`[^\`\n]*\\b${name}\\b[^\`\n]*\``).test(text));
    expect(missing.map(({ owner, name }) => `${owner}.${name}`)).toEqual([]);
  });

  test("give the defaults that the code gives", () => {
    const lines = text.split("\n").map(plainNumbers);
    const wrong = options.filter(({ name, defaultValue }) => {
      if (defaultValue === undefined) return false;
      const both = [new RegExp(`\`[^\`]*\\b${name}\\b`), new RegExp(`(?<![\\w.])${defaultValue}(?![\\w.])`)];
      return !lines.some((line) => both.every((part) => part.test(line)));
    });
    expect(wrong.map(({ owner, name, defaultValue }) => `${owner}.${name}: ${defaultValue}`)).toEqual([]);
  });
});

interface ErrorClass {
  readonly kind: { readonly committed?: "unknown"; readonly retryable: boolean };
}

interface Option {
  readonly owner: string;
  readonly name: string;
  /** A number, `true`, `false`, `Infinity` or a quoted string; undefined if the default is described in words. */
  readonly defaultValue: string | undefined;
}

/** The options of all exported option types, parsed from the sources. */
function optionsOf(folder: string): Option[] {
  const surface = readFileSync(join(folder, "index.ts"), "utf8");
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !/^(testing|cli|clients)\b/.test(path))
    .map((path) => readFileSync(join(folder, path), "utf8"));
  return sources
    .flatMap((source) => [...source.matchAll(/export interface (\w+Options)\b[^{]*\{\n([\s\S]*?)\n\}/g)])
    .filter(([, owner = ""]) => new RegExp(`\\b${owner}\\b`).test(surface))
    .flatMap(([, owner = "", body = ""]) =>
      [...body.matchAll(/(\/\*\*(?:(?!\*\/)[\s\S])*\*\/)?\s*^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, comment = "", name = ""]) => {
        const [, defaultValue] = /@defaultValue (true|false|Infinity|"[^"]*"|[\d_]+(?:\.\d+)?)/.exec(comment) ?? [];
        return { owner, name, defaultValue: defaultValue && plainNumbers(defaultValue) };
      }),
    );
}

/** 30,000 and 30_000 are the same number. 64 MiB is 67,108,864 bytes. */
function plainNumbers(line: string): string {
  return line.replace(/(?<=\d)[,_](?=\d{3})/g, "").replace(/\b64 MiB\b/g, "67108864");
}
