import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { AzuriteStartError } from "./azurite-error.js";

/**
 * The path of the program of the installed `azurite` package.
 *
 * The working directory comes first: with strict package managers (pnpm, Yarn PnP) the user's project sees its own
 * development dependencies, and this library does not.
 */
export function findAzurite(resolveFrom: string | undefined): string {
  const places = resolveFrom === undefined ? [process.cwd(), dirname(fileURLToPath(import.meta.url))] : [resolve(resolveFrom)];
  let cause: unknown;
  for (const place of places) {
    try {
      // The file need not exist: it only says where the look-up starts.
      const manifest = createRequire(join(place, "any.js")).resolve("azurite/package.json");
      return join(dirname(manifest), programOf(manifest));
    } catch (error) {
      cause = error;
    }
  }
  throw new AzuriteStartError("AZURITE_NOT_INSTALLED", "azurite is not installed: npm i -D azurite", { cause });
}

function programOf(manifest: string): string {
  const { bin } = JSON.parse(readFileSync(manifest, "utf8")) as { bin: { azurite: string } };
  return bin.azurite;
}
