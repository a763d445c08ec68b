import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { makeReports, reportFolder } from "./reports.js";

describe("the public surface", () => {
  const { files, problems } = makeReports();

  test.each(Object.keys(files))("is as %s says: if a change is wanted, run npm run api and commit what it writes", (name) => {
    expect(files[name]).toBe(readFileSync(join(reportFolder, name), "utf8"));
  });

  test("has no other report", () => {
    expect(readdirSync(reportFolder).toSorted()).toEqual(Object.keys(files).toSorted());
  });

  test("names all that is needed to use it", () => {
    expect(problems).toEqual([]);
  });
});
