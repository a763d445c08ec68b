import { existsSync, readdirSync, readFileSync } from "node:fs";
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

describe("the list of samples", () => {
  test("has each sample, with its title and its helper", () => {
    const list = pages.find(({ path }) => path === "samples/README.md")!.text;
    const samples = readdirSync(join(root, "samples")).filter((file) => file.endsWith(".ts") && file !== "tour.ts");
    expect(samples.length).toBeGreaterThan(20);
    const field = (source: string, name: string): string => new RegExp(`  ${name}: "(.*)",`).exec(source)?.[1] ?? name;
    const rows = samples.map((file) => {
      const source = readFileSync(join(root, "samples", file), "utf8");
      return `| [${file}](${file}) | ${field(source, "title")} | [\`${field(source, "helper")}\`](../${field(source, "section")}) |`;
    });
    expect(rows.filter((row) => !list.includes(row))).toEqual([]);
  });
});

describe("the workflows", () => {
  const workflows = ["ci", "release"].map((name) => readFileSync(join(root, `.github/workflows/${name}.yml`), "utf8"));
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string>; engines: { node: string } };

  test("run scripts that exist, on the oldest Node that is supported and on newer ones", () => {
    const named = workflows.flatMap((text) => [...text.matchAll(/npm (?:run )?(test\b[\w:]*|build|[\w]+:[\w:]+)/g)].map(([, name = ""]) => name));
    expect(named).toContain("test:versions");
    expect(named.filter((name) => !(name in manifest.scripts))).toEqual([]);
    expect(workflows[0]).toContain(`node-version: ${/\d+/.exec(manifest.engines.node)![0]}\n`);
    expect(workflows[0]).toContain("node: [22, 24, 26]");
  });

  test("may write nothing but what the release needs to be trusted", () => {
    for (const text of workflows) expect(text).toMatch(/^permissions:\n {2}contents: read$/m);
    expect(workflows.map((text) => text.match(/: write\b/g)?.length ?? 0)).toEqual([0, 1]);
    expect(workflows[1]).toMatch(/id-token: write/);
  });
});
