import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { entries } from "../support/repository.js";
import { makeReports, reportFolder } from "./reports.js";
import { declarationBytes, exportsOf, globalNames } from "./surface.js";

describe("the public API", () => {
  const { files, problems } = makeReports();

  test("has three entries", () => {
    const counts = entries.map((entry) => `${entry} ${exportsOf(entry).length}`);
    console.log(`Exports: ${counts.join(", ")}; declarations: ${declarationBytes()} bytes`);
    expect(entries).toEqual(["index", "clients", "testing"]);
  });

  test.each(Object.keys(files))("is as %s says: if a change is wanted, run npm run api and commit what it writes", (name) => {
    expect(files[name]).toBe(readFileSync(join(reportFolder, name), "utf8"));
  });

  test("has no other report", () => {
    expect(readdirSync(reportFolder).toSorted()).toEqual(Object.keys(files).toSorted());
  });

  test("names all that is needed to use it", () => {
    expect(problems).toEqual([]);
  });

  test.each(entries)("has no name in %s that is also a global one: without its import, another type would be used silently", (entry) => {
    const global = globalNames();
    expect(global).toContain("LockInfo");
    expect(global).toContain("NodeJS");
    expect(exportsOf(entry).filter((name) => global.has(name))).toEqual([]);
  });
});
