import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { root } from "../architecture/source.js";
import { formats, golden } from "./formats.js";

// What earlier versions have stored is read by this one, and what this one stores by them: docs/formats.md. A golden file is never changed
// for a change of the code; a format that has to change gets another version, and another file beside the old one.

describe("the golden file of each stored format", () => {
  it("exists, and belongs to one", () => {
    expect(readdirSync(new URL("golden", import.meta.url)).sort()).toEqual(formats.map(({ name }) => `${name}.json`).sort());
  });

  it.each(formats)("$name is what is stored today", async ({ name, write }) => {
    // As JSON: a row has no property whose value is undefined.
    expect(JSON.parse(JSON.stringify(await write()))).toEqual(golden(name));
  });

  it.each(formats)("$name is read today", async ({ name, read, meaning }) => {
    expect(await read(golden(name) as never)).toEqual(meaning);
  });

  it.each(formats)("$name has all of its fields in docs/formats.md", ({ name }) => {
    const page = readFileSync(join(root, "docs/formats.md"), "utf8");
    expect(page).toContain(`\`test/formats/golden/${name}.json\``);
    for (const field of Object.keys(golden(name) as object)) {
      if (["partitionKey", "rowKey", "metadata", "content", "messageText"].includes(field)) continue;
      expect(page, field).toContain(`\`${field}\``);
    }
  });
});
