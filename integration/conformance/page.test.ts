import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { operationsPage } from "./page.js";

it("docs/operations.md is what the rows give: node --import tsx integration/conformance/generate.ts", () => {
  expect(readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8")).toBe(operationsPage());
});
