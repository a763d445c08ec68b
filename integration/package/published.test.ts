import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";

import { root } from "./support/repository.js";
import { runProgram } from "./support/run-program.js";

const tarball = inject("tarball");
let unpacked: string;

beforeAll(async () => {
  unpacked = await mkdtemp(join(tmpdir(), "unpacked-"));
  await runProgram("tar", ["-xzf", tarball, "-C", unpacked, "--strip-components=1"], { cwd: root });
});
afterAll(() => rm(unpacked, { recursive: true, force: true }));

const filesOf = (folder: string, ending: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(ending));

describe("the package", () => {
  test("has a module and its types for every file of src, the pages that the README links to, and nothing else", () => {
    // The page of the dashboard is bundled.
    const modules = filesOf(join(root, "src"), ".ts").filter((file) => !file.startsWith("cli/dashboard/page/")).map((file) => `dist/${file.replace(/\.ts$/, "")}`);
    const built = modules.flatMap((name) => [`${name}.js`, `${name}.js.map`, `${name}.d.ts`]);
    const shipped = readdirSync(unpacked, { recursive: true, encoding: "utf8", withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(unpacked.length + 1));
    // The README links to the pages, and shows the pictures. The reports in docs/api are for those who change the library.
    const page = ["page.js", "page.css"].map((file) => `dist/cli/dashboard/${file}`);
    const pages = [".md", ".svg", ".json", ".png"]
      .flatMap((ending) => filesOf(join(root, "docs"), ending))
      .filter((file) => !file.startsWith("api/"))
      .map((file) => `docs/${file}`);
    expect(shipped.toSorted()).toEqual(["CHANGELOG.md", "LICENSE", "README.md", "package.json", ...built, ...page, ...pages].toSorted());
  });

  test("has source maps that bring their sources along", () => {
    const sourcesOf = (file: string): unknown => (JSON.parse(readFileSync(join(unpacked, file), "utf8")) as { sourcesContent?: unknown }).sourcesContent;
    const without = filesOf(unpacked, ".js.map").filter((file) => !Array.isArray(sourcesOf(file)));
    expect(without).toEqual([]);
  });

  test("has nothing that publint would like to be otherwise", async () => {
    const { messages, pkg } = await publint({ pkgDir: unpacked, pack: false, strict: true });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  test("is resolved to the right types", async () => {
    // The profile leaves out two ways to resolve it. TypeScript's "node10" knows no subpaths, and forwarding folders for a
    // resolution that TypeScript itself has given up are not worth it. CommonJS gets an ES module: attw calls that
    // "dynamic import only", but Node can require() it since 20.19, which is the oldest that is supported, and
    // so can TypeScript since 5.8. The tests of the installed package do both.
    const attw = join(root, "node_modules/@arethetypeswrong/cli/dist/index.js");
    await runProgram(process.execPath, [attw, tarball, "--profile", "esm-only", "--no-color"], { cwd: root });
  });
});
