import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";
import { expect, test } from "vitest";

import { manifest, root } from "./support/repository.js";

interface BlobSdk {
  readonly dependencies: Readonly<Record<string, string>>;
}

const blobSdk = JSON.parse(readFileSync(join(root, "node_modules/@azure/storage-blob/package.json"), "utf8")) as BlobSdk;
/** Loaded with the SDK, without whose clients no helper is of use: of the dependencies, those for logs and traces. */
const comesWithSdk = Object.keys(manifest.dependencies).filter((name) => name in blobSdk.dependencies);

/** What a page or a function has to load for one import, with all that it needs but what is there already. */
async function sizeOf(name: string, external: string[]): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: `export { ${name} } from "azure-storage-concurrency";`, resolveDir: root },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
    external,
  });
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length;
}

test("withLease alone adds less than 16.4 KB to the SDK", async () => {
  const added = await sizeOf("withLease", comesWithSdk);
  const withAll = await sizeOf("withLease", []);
  console.log(`withLease: ${added} bytes, minified and gzipped; ${withAll} with ${comesWithSdk.join(" and ")}, which the SDK brings`);
  expect(added).toBeLessThan(16_400);
  // Where the SDK is another bundle, those are loaded twice.
  expect(withAll).toBeLessThan(18_200);
});

test("importing nothing takes nothing: no file has an effect of its own", async () => {
  const { outputFiles } = await build({
    stdin: { contents: `import "azure-storage-concurrency"; import { optimisticUpdate } from "azure-storage-concurrency";`, resolveDir: root },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
    logLevel: "error",
  });
  expect(outputFiles[0]!.text.trim()).toBe("");
});

test("what is imported loads neither the testing servers nor the command line", async () => {
  const { metafile } = await build({
    stdin: { contents: `export * from "azure-storage-concurrency";`, resolveDir: root },
    bundle: true,
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    write: false,
    metafile: true,
    packages: "external",
    alias: { "azure-storage-concurrency": join(root, "dist/index.js") },
  });
  const loaded = Object.keys(metafile.inputs);
  expect(loaded).toContain("dist/lease/with-lease.js");
  expect(loaded.filter((file) => /^dist\/(testing|cli|cjs)\//.test(file))).toEqual([]);
  // No module of Node either, and of the packages only the dependencies.
  const imported = Object.values(metafile.inputs).flatMap(({ imports }) => imports.filter(({ external }) => external).map(({ path }) => path));
  expect([...new Set(imported)].sort()).toEqual(["@azure/core-tracing", "@azure/logger", "croner", "fast-equals", "p-retry"]);
});
