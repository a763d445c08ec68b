import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The folder of this repository. */
export const root: string = join(import.meta.dirname, "../../..");

interface Manifest {
  readonly exports: Readonly<Record<string, { readonly default: { readonly types: string; readonly default: string } } | string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

export const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;

/** `index`, `clients`, `testing`: the entries that are modules. */
export const entries: readonly string[] = Object.values(manifest.exports).flatMap((entry) =>
  typeof entry === "string" ? [] : [entry.default.default.replace("./dist/", "").replace(".js", "")],
);
