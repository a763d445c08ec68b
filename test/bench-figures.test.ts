import { readFile } from "node:fs/promises";

import { expect, it } from "vitest";

import { figuresPicture } from "../bench/figures.js";
import { withFigures } from "../bench/readme-figures.js";
import type { Results } from "../bench/results.js";

const root = new URL("../", import.meta.url);

it("shows in the README what was measured, misses included", async () => {
  const results = JSON.parse(await readFile(new URL("bench/results.json", root), "utf8")) as Results;
  const readme = await readFile(new URL("README.md", root), "utf8");
  expect(withFigures(readme, results)).toBe(readme);
  expect(await readFile(new URL("docs/figures.svg", root), "utf8")).toBe(figuresPicture(results.rows));
});

it("says which bounds were missed", () => {
  const row = { bench: "b", name: "slow", unit: "ms", ours: 2, baseline: 1, ratio: 2, requestsPerOp: null, bound: "<= 1.15x", met: false };
  const results: Results = { node: "v20.20.0", cores: 2, storage: "Azurite", rows: [row] };
  const text = withFigures("x <!-- figures: written by npm run bench --> old <!-- end of figures --> y", results);
  expect(text).toContain("1 of 1 bounds were **missed**: b: slow (2x).");
  expect(text).not.toContain("old");
});
