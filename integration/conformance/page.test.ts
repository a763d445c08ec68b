import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { operationsPage } from "./page.js";
import { sources } from "../../src/cli/verify/row.js";

it("docs/operations.md is what the rows give: node --import tsx integration/conformance/generate.ts", () => {
  expect(readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8")).toBe(operationsPage());
});

it("every table says for each row how it is known", () => {
  const tables = operationsPage().trim().split("\n\n").filter((block) => block.startsWith("| "));
  for (const table of tables) {
    const [head = [], , ...rows] = table.split("\n").map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()));
    const at = head.indexOf("source");
    expect(at, head.join()).toBeGreaterThan(0);
    for (const row of rows) expect(sources.some((source) => row[at]?.startsWith(source)), row.join()).toBe(true);
  }
});
