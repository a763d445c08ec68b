import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import * as library from "../../src/index.js";
import { pages, root } from "./pages.js";

/** What users read; not how it is built. */
const text = pages.filter(({ path }) => path === "README.md" || path.startsWith("docs/")).map((page) => page.text).join("\n");
const readme = pages.find(({ path }) => path === "README.md")?.text ?? "";

describe("README and docs", () => {
  test("name every function and class", () => {
    const names = Object.keys(library).filter((name) => !/^is\w+Error$/.test(name));
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
  });

  test("have every error with its code in one table of the README", () => {
    const source = readFileSync(join(root, "src/errors.ts"), "utf8");
    const errors = [...source.matchAll(/class (\w+Error) extends ConcurrencyError[\s\S]*?super\("(\w+)"/g)];
    expect(errors.length).toBeGreaterThan(10);
    const missing = errors.filter(([, name, code]) => !new RegExp(`^\\| \`${name}\` \\| \`${code}\` \\|`, "m").test(readme));
    expect(missing.map(([, name, code]) => `${name} ${code}`)).toEqual([]);
  });

  test("name every option", () => {
    const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts") && !/^(testing|cli)\b/.test(path) && path !== "clients.ts")
      .map((path) => readFileSync(join(root, "src", path), "utf8"));
    const interfaces = sources.flatMap((source) => [...source.matchAll(/export interface (\w+Options)\b[^{]*\{\n([\s\S]*?)\n\}/g)]);
    const surface = readFileSync(join(root, "src/index.ts"), "utf8");
    const exported = interfaces.filter(([, owner = ""]) => new RegExp(`\\b${owner}\\b`).test(surface));
    const options = exported.flatMap(([, owner = "", body = ""]) =>
      [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, name = ""]) => ({ owner, name })),
    );
    expect(options.length).toBeGreaterThan(40);
    const missing = options.filter(({ name }) => !new RegExp(`\`[^\`\n]*\\b${name}\\b[^\`\n]*\``).test(text));
    expect(missing.map(({ owner, name }) => `${owner}.${name}`)).toEqual([]);
  });
});
