import { gzipSync } from "node:zlib";

import { build } from "esbuild";
import { expect, test } from "vitest";

import { root } from "./support/repository.js";

/** What a page or a function has to load for one import, with all that it needs but the SDKs: those come from the caller. */
async function sizeOf(name: string, from: string): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: `export { ${name} } from ${JSON.stringify(from)};`, resolveDir: root },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length;
}

test.each(["azure-storage-concurrency", "azure-storage-concurrency/blob"])("withLease alone, from %s, takes less than 10 KB", async (from) => {
  const bytes = await sizeOf("withLease", from);
  console.log(`withLease from ${from}: ${bytes} bytes, minified and gzipped, without the SDK`);
  expect(bytes).toBeLessThan(10_000);
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
