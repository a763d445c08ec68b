import { join } from "node:path";
import { build } from "esbuild";
import type { PageFiles } from "../page-files.js";

/** Bundles the script and the style of the page. Part of the build of the package, and not of the package. */
export async function bundlePage(): Promise<PageFiles> {
  const { outputFiles } = await build({
    entryPoints: ["page.tsx", "page.css"].map((name) => join(import.meta.dirname, name)),
    bundle: true,
    minify: true,
    format: "iife",
    platform: "browser",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    // The licence of the UI library has to be in every copy.
    legalComments: "inline",
    outdir: import.meta.dirname,
    write: false,
    logLevel: "error",
  });
  const textOf = (name: string): string => outputFiles.find(({ path }) => path.endsWith(name))?.text ?? "";
  return { script: textOf(".js"), style: textOf(".css") };
}
