import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import { pages, root } from "./pages.js";

describe.each(pages.map((page) => [page.path, page] as const))("%s", (_path, page) => {
  test("links to places that are there", () => {
    const broken = page.links.filter(({ target, anchor }) => {
      if (!existsSync(join(root, target))) return true;
      return anchor !== undefined && !pages.find(({ path }) => path === target)?.anchors.includes(anchor);
    });
    expect(broken).toEqual([]);
  });

  test("names files that are there", () => {
    expect(page.namedFiles.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});

describe("each page of a guarantee", () => {
  const guarantees = pages.filter(({ path }) => path.startsWith("docs/guarantees/") && !path.endsWith("README.md"));

  test.each(guarantees.map((page) => [page.path, page] as const))("%s says what is promised, what is not, what if, and what proves it", (path, page) => {
    for (const anchor of ["what-is-promised", "what-is-not", "crash-windows", "proved-by"]) expect(page.anchors).toContain(anchor);
    expect(page.namedFiles.filter((file) => file.endsWith(".test.ts"))).not.toEqual([]);
    const index = pages.find((other) => other.path === "docs/guarantees/README.md");
    expect(index?.links.map(({ target }) => target)).toContain(path);
  });
});
