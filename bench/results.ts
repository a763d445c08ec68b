import { readFile, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";

import type { Row } from "./harness.js";
import { figuresPicture } from "./figures.js";
import { withFigures } from "./benchmarks-page.js";

/** What a run measured, and on what. */
export interface Results {
  readonly node: string;
  readonly cores: number;
  readonly storage: "Azurite";
  readonly rows: readonly Row[];
}

export function resultsOf(rows: readonly Row[]): Results {
  return { node: process.version, cores: availableParallelism(), storage: "Azurite", rows };
}

export async function writeResults(file: string | URL, results: Results): Promise<void> {
  await writeFile(file, `${JSON.stringify(results, undefined, 2)}\n`);
}

/** After a full run: the figures beside the benches, and the picture and the table of docs/benchmarks.md. */
export async function publishResults(results: Results): Promise<void> {
  await writeResults(new URL("results.json", import.meta.url), results);
  await writeFile(new URL("../docs/figures.svg", import.meta.url), figuresPicture(results.rows));
  const page = new URL("../docs/benchmarks.md", import.meta.url);
  await writeFile(page, withFigures(await readFile(page, "utf8"), results));
}
