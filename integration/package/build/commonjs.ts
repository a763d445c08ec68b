/*
 * Writes dist/cjs: the same modules as CommonJS, for tools that resolve `require` by themselves and cannot load an ES module, such as
 * Jest. Node itself and bundlers never load it: `exports` gives them the ES modules for `require` as well, so that a process has one copy.
 */
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { build, type BuildOptions } from "esbuild";

import { root } from "../support/repository.js";

const source = join(root, "src");
const esm = join(root, "dist");
const cjs = join(esm, "cjs");

/** An ES module without a CommonJS build: it is bundled, with its licence. */
const bundled = { name: "p-retry", importer: "core/retry", includes: ["p-retry", "is-network-error"] };

const common: BuildOptions = {
  format: "cjs",
  platform: "node",
  target: "node20",
  // Without comments: these are in dist/.
  minifyWhitespace: true,
  lineLimit: 160,
  // Jest runs an `import()` only with a flag of Node.
  supported: { "dynamic-import": false },
  // The only use is in startAzurite.
  define: { "import.meta.url": "moduleUrl" },
};

const files = await readdir(source, { recursive: true, encoding: "utf8" });
const modules = files.filter((file) => file.endsWith(".ts") && !file.startsWith("cli/") && file !== "testing/file-share/cli.ts").map((file) => file.slice(0, -3));

await rm(cjs, { recursive: true, force: true });
await build({ ...common, entryPoints: modules.map((name) => join(source, `${name}.ts`)), outbase: source, outdir: cjs });

const licences = await Promise.all(bundled.includes.map(async (name) => `${name}\n\n${await readFile(join(root, "node_modules", name, "license"), "utf8")}`));
await build({
  ...common,
  entryPoints: [join(root, "node_modules", bundled.name)],
  bundle: true,
  outfile: join(cjs, "bundled.js"),
  banner: { js: `/*\n${licences.join("\n")}*/` },
  // A default import of a CommonJS module is all that it exports.
  footer: { js: "module.exports = module.exports.default;" },
});
await replaceOnce(bundled.importer, `require("${bundled.name}")`, `require("../bundled.js")`);
await replaceOnce("testing/azurite", "moduleUrl", `require("node:url").pathToFileURL(__filename).href`);

for (const name of modules) {
  await mkdir(dirname(join(cjs, name)), { recursive: true });
  await cp(join(esm, `${name}.d.ts`), join(cjs, `${name}.d.ts`));
}
await writeFile(join(cjs, "package.json"), `${JSON.stringify({ type: "commonjs", sideEffects: false })}\n`);

async function replaceOnce(name: string, from: string, to: string): Promise<void> {
  const file = join(cjs, `${name}.js`);
  const parts = (await readFile(file, "utf8")).split(from);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times ${from}`);
  await writeFile(file, parts.join(to));
}
