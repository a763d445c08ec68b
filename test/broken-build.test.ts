import { readFileSync } from "node:fs";

import ts from "typescript";
import { expect, it } from "vitest";

import { breakable, replaced } from "../integration/chaos/broken-build.js";

const replacements = Object.entries(breakable).flatMap(([guarantee, { replacements: each }]) => each.map((replacement) => ({ guarantee, ...replacement })));

it.each(replacements)("chaos --break $guarantee finds what it replaces in the compiled $file", (replacement) => {
  const source = readFileSync(new URL(`../src/${replacement.file.replace(/\.js$/, ".ts")}`, import.meta.url), "utf8");
  const compiled = compile(source);
  const broken = replaced(compiled, replacement);
  expect(broken).not.toBe(compiled);
  expect(broken).toContain(replacement.replaceBy);
  // It still is a program.
  expect(() => compile(broken)).not.toThrow();
});

it("chaos --break does not accept code that has changed, or is there twice", () => {
  const replacement = { file: "a.js", find: "if (held)", replaceBy: "if (true)" };
  expect(replaced("if (held) $&", replacement)).toBe("if (true) $&");
  for (const code of ["if (isHeld)", "if (held) if (held)"]) expect(() => replaced(code, replacement)).toThrow("nothing was broken");
});

/** As the build does, without types. Throws if it cannot be parsed. */
function compile(text: string): string {
  const compilerOptions = { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true };
  const { outputText, diagnostics } = ts.transpileModule(text, { compilerOptions, reportDiagnostics: true });
  if (diagnostics?.length) throw new Error(ts.flattenDiagnosticMessageText(diagnostics[0]?.messageText, "\n"));
  return outputText;
}
