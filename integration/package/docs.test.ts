import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { root } from "./support/repository.js";
import { runProgram } from "./support/run-program.js";

let site: string;

beforeAll(async () => {
  site = await mkdtemp(join(tmpdir(), "site-"));
  // Rejects after a warning: a link that leads nowhere, or a type in a signature that is left out.
  await runProgram(process.execPath, [join(root, "node_modules/typedoc/bin/typedoc"), "--out", site], { cwd: root, timeoutInMs: 540_000 });
}, 600_000);
afterAll(() => rm(site, { recursive: true, force: true }));

describe("the site of npm run docs", () => {
  test("has every page of the documentation beside the reference, with search and themes", () => {
    const guides = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".md") && !file.startsWith("api/"));
    const wanted = [...guides.map((file) => `docs_${file}`), "samples_README.md"].map((file) => `${file.replaceAll("/", "_").slice(0, -3)}.html`);
    expect(readdirSync(join(site, "documents"))).toEqual(expect.arrayContaining(wanted));
    expect(existsSync(join(site, "functions/index.optimisticUpdate.html"))).toBe(true);
    expect(existsSync(join(site, "assets/search.js"))).toBe(true);
    expect(readFileSync(join(site, "documents/docs_updates.html"), "utf8")).toMatch(/<option value="dark">/);
  });

  test("links to pages and anchors that exist", () => {
    const pages = readdirSync(site, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".html"));
    const texts = new Map(pages.map((file) => [file, readFileSync(join(site, file), "utf8")]));
    const anchors = new Map([...texts].map(([file, text]) => [file, new Set([...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))]));
    const broken: string[] = [];
    for (const [file, text] of texts) {
      for (const [, href = ""] of text.matchAll(/<a [^>]*href="([^"]+)"/g)) {
        if (/^[a-z]+:/.test(href) || href === "#") continue; // the menu
        const [path = "", anchor] = decodeURI(href).split("#");
        const target = path === "" ? file : relative(site, join(site, dirname(file), path));
        const known = anchors.get(target);
        if (known ? anchor !== undefined && !known.has(anchor) : !existsSync(join(site, target))) broken.push(`${file}: ${href}`);
      }
    }
    expect(pages.length).toBeGreaterThan(200);
    expect([...new Set(broken)]).toEqual([]);
  });
});
