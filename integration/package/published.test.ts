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
    // The command line is for Node, which needs no CommonJS.
    const forJest = modules.filter((name) => !/^dist\/cli\/|\/cli$/.test(name)).map((name) => name.replace("dist/", "dist/cjs/"));
    const built = [...modules, ...forJest].flatMap((name) => [`${name}.js`, `${name}.d.ts`]);
    const cjs = ["bundled.js", "package.json"].map((file) => `dist/cjs/${file}`);
    const shipped = readdirSync(unpacked, { recursive: true, encoding: "utf8", withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(unpacked.length + 1));
    // The README links to the pages, and shows the pictures. The reports in docs/api are for those who change the library.
    const page = ["page.js", "page.css"].map((file) => `dist/cli/dashboard/${file}`);
    const pages = [".md", ".svg", ".json", ".png"]
      .flatMap((ending) => filesOf(join(root, "docs"), ending))
      .filter((file) => !file.startsWith("api/"))
      .map((file) => `docs/${file}`);
    const samples = [".md", ".ts"].flatMap((ending) => filesOf(join(root, "samples"), ending)).map((file) => `samples/${file}`);
    expect(shipped.toSorted()).toEqual(["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "SUPPORT.md", "package.json", ...samples, ...built, ...cjs, ...page, ...pages].toSorted());
  });

  test("has no source maps: the compiled modules are the sources without their types, comments included", () => {
    expect(filesOf(unpacked, ".map")).toEqual([]);
    const mapped = filesOf(unpacked, ".js").filter((file) => readFileSync(join(unpacked, file), "utf8").includes("sourceMappingURL"));
    expect(mapped).toEqual([]);
    expect(readFileSync(join(unpacked, "dist/core/retry.js"), "utf8")).toMatch(/^ \* /m);
  });

  test("has nothing that publint would like to be otherwise", async () => {
    const { messages, pkg } = await publint({ pkgDir: unpacked, pack: false, strict: true });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  test("is resolved to the right types", async () => {
    // The profile leaves out TypeScript's "node10" resolution, whose subpaths attw looks up only as folders. The type tests compile with it.
    const attw = join(root, "node_modules/@arethetypeswrong/cli/dist/index.js");
    await runProgram(process.execPath, [attw, tarball, "--profile", "node16", "--no-color"], { cwd: root });
  });
});
