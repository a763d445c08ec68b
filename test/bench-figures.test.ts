import { readFile } from "node:fs/promises";

import { expect, it } from "vitest";

import { figuresPicture } from "../bench/figures.js";
import { withFigures } from "../bench/benchmarks-page.js";
import type { Results } from "../bench/results.js";
import { figure } from "../bench/row-format.js";

const root = new URL("../", import.meta.url);

it("shows in docs/benchmarks.md what was measured, missed bounds included", async () => {
  const results = JSON.parse(await readFile(new URL("bench/results.json", root), "utf8")) as Results;
  const page = await readFile(new URL("docs/benchmarks.md", root), "utf8");
  expect(withFigures(page, results)).toBe(page);
  expect(await readFile(new URL("docs/figures.svg", root), "utf8")).toBe(figuresPicture(results.rows));
});

it("shows the picture and the measured figures in the README", async () => {
  const { rows } = JSON.parse(await readFile(new URL("bench/results.json", root), "utf8")) as Results;
  const readme = await readFile(new URL("README.md", root), "utf8");
  const row = (name: string): Results["rows"][number] => rows.find(({ bench, name: own }) => `${bench}: ${own}`.includes(name))!;
  const requests = (name: string, digits: number): string => {
    const { ours, baseline } = row(name).requestsPerOp!;
    return `${Number(ours.toFixed(digits))} requests per ${row(name).unit.replace(/s\/s$/, "")} instead of ${Number(baseline.toFixed(digits))}`;
  };
  expect(readme).toContain("(docs/figures.svg)");
  expect(readme).toContain(requests("hot-entity", 2));
  expect(readme).toContain(requests("queue-inbox", 2));
  expect(readme).toContain(`${figure(row("lock-local").ratio)} times as many critical sections`);
  expect(row("lone-update").requestsPerOp).toEqual({ ours: 2, baseline: 2 });
  expect(readme).toContain("an update still costs 2 requests, as with the plain SDK");
});

it("quotes in the README what docs/scale.md says about 10,000 processes", async () => {
  const [readme, scale] = await Promise.all(["README.md", "docs/scale.md"].map((path) => readFile(new URL(path, root), "utf8")));
  const [, library, plain] = /^\| 10,000 \| `BlobLocks` \| ([\d.]+) \|.*\n\| \| `BlobLocks`, `fair` .*\n\| \| plain SDK \| ([\d.]+) \|/m.exec(scale!)!;
  expect(readme).toContain(`With 10,000 simulated processes on one lock, ${library} acquisitions per second instead of ${plain}.`);
});

it("says which bounds were missed", () => {
  const row = { bench: "b", name: "slow", unit: "ms", ours: 2, baseline: 1, ratio: 2, spread: null, requestsPerOp: null, bound: "<= 1.15x", met: false };
  const results: Results = { node: "v20.20.0", cores: 2, storage: "Azurite", rows: [row] };
  const text = withFigures("x <!-- figures: written by npm run bench --> old <!-- end of figures --> y", results);
  expect(text).toContain("1 of 1 bounds were **missed**: b: slow (2x).");
  expect(text).not.toContain("old");
});
