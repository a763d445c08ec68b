import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import { pages, root } from "./pages.js";

describe.each(pages.map((page) => [page.path, page] as const))("%s", (_path, page) => {
  test("links to pages and anchors that exist", () => {
    const broken = page.links.filter(({ target, anchor }) => {
      if (!existsSync(join(root, target))) return true;
      return anchor !== undefined && !pages.find(({ path }) => path === target)?.anchors.includes(anchor);
    });
    expect(broken).toEqual([]);
  });

  test("names files that exist", () => {
    expect(page.namedFiles.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});

describe("the index", () => {
  const index = pages.find(({ path }) => path === "docs/README.md");
  const listed = index?.links.map(({ target }) => target) ?? [];

  test("links to every page of docs/", () => {
    const others = pages.map(({ path }) => path).filter((path) => /^docs\/[\w-]+\.md$/.test(path) && path !== "docs/README.md");
    expect(others.length).toBeGreaterThan(15);
    expect(others.filter((path) => !listed.includes(path))).toEqual([]);
  });
});

describe("the README", () => {
  const readme = pages.find(({ path }) => path === "README.md");

  test("has its sections in this order", () => {
    expect(readme?.anchors.slice(1)).toEqual(["install", "quick-example", "what-makes-it-different", "choosing-a-helper", "try-it", "status-and-limits", "documentation"]);
  });

  test("links to the pages that have the details", () => {
    const details = ["guarantees/README", "options", "errors", "cost", "permissions", "facades", "extending", "azurite", "benchmarks"].map((page) => `docs/${page}.md`);
    expect(readme?.links.map(({ target }) => target)).toEqual(expect.arrayContaining(details));
  });
});

describe("each page of a helper", () => {
  const helpers = ["updates", "transactions", "leases", "locks", "queues", "files", "reads", "appends"].map((name) => `docs/${name}.md`);

  test.each(helpers)("%s has an example, the link to its guarantees, the errors, the failure modes, and links to related pages", (path) => {
    const page = pages.find((other) => other.path === path)!;
    expect(page.blocks.some(({ language }) => language === "ts")).toBe(true);
    expect(page.links.map(({ target }) => target)).toContain(path.replace("docs/", "docs/guarantees/"));
    expect(page.links.map(({ target }) => target)).toContain("docs/errors.md");
    for (const anchor of ["failure-modes", "see-also"]) expect(page.anchors).toContain(anchor);
  });
});

describe("each page of a guarantee", () => {
  const guarantees = pages.filter(({ path }) => path.startsWith("docs/guarantees/") && !path.endsWith("README.md"));

  test.each(guarantees.map((page) => [page.path, page] as const))("%s says what is guaranteed, how, what happens after failures, what is not guaranteed, and which tests check it", (path, page) => {
    expect(page.anchors.slice(1)).toEqual(["guarantees", "how-it-works", "crash-windows", "not-guaranteed", "tests"]);
    expect(page.namedFiles.filter((file) => file.endsWith(".test.ts"))).not.toEqual([]);
    const index = pages.find((other) => other.path === "docs/guarantees/README.md");
    expect(index?.links.map(({ target }) => target)).toContain(path);
  });
});
