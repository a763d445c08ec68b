import { readFileSync } from "node:fs";
import { join } from "node:path";

import { beforeAll, describe, expect, it } from "vitest";

import { startFileShareServer } from "../../src/testing.js";
import { azurite } from "../support/clients.js";
import { calls } from "./calls.js";
import { TracedLibrary, type Walk } from "./trace.js";
import { Walkthroughs } from "./walkthroughs.js";

/** With more, the walkthroughs could leave out what matters. */
const mostCoreFiles = 10;

describe("a call of the library", () => {
  const walks = new Map<string, Walk>();

  beforeAll(async () => {
    const traced = await TracedLibrary.load();
    await using fileServer = await startFileShareServer();
    const storage = { connectionString: azurite().connectionString, fileServer };
    for (const call of calls) walks.set(call.name, await traced.walk(call, storage));
  });

  function walkthroughs(): Walkthroughs {
    return new Walkthroughs(readFileSync(join(import.meta.dirname, "../../CONTRIBUTING.md"), "utf8"));
  }

  const described = calls.filter(({ heading }) => heading !== undefined);

  it.each(described)("$name: its walkthrough names the files that it goes through, in their order", ({ name, heading }) => {
    const { files } = walks.get(name)!;
    const text = walkthroughs();
    const named = text.filesOf(heading!);
    const isCore = (file: string): boolean => text.core.includes(file);
    expect(named.filter((file) => !isCore(file))).toEqual(files.filter((file) => !isCore(file)));
    // A core file may be named anywhere, as the place where it is first entered says little.
    expect(named.filter((file) => !files.includes(file))).toEqual([]);
  });

  it("goes through core files that are few, and that at least half of the calls go through", () => {
    const { core } = walkthroughs();
    const users = (file: string): number => [...walks.values()].filter(({ files }) => files.includes(file)).length;
    expect(core.length).toBeLessThanOrEqual(mostCoreFiles);
    expect(core.filter((file) => users(file) < calls.length / 2)).toEqual([]);
  });

  const limited = calls.filter(({ limit }) => limit !== undefined);

  it.each(limited)("$name: goes through $limit files at most", ({ name, limit }) => {
    const { files } = walks.get(name)!;
    expect(files.length, files.join("\n")).toBeLessThanOrEqual(limit!);
  });
});

describe("a chapter of walkthroughs", () => {
  const chapter = new Walkthroughs(`# Contributing

## Before

\`src/before.ts\`

## Walkthroughs

All go through \`src/core.ts\`.

### \`first\`, and its answer lost

1. \`src/b.ts\` asks
   \`src/a.ts\`, not \`a.ts\`, and \`src/core.ts\`.
2. When it is late: \`src/late.ts\`,
   and \`src/later.ts\`.
3. \`src/b.ts\` again, then \`src/folder/c-d.ts\`.
   - *If* it fails: \`src/failed.ts\`.
   - \`src/e.ts\` ends it.

If nothing helps: \`src/help.ts\`.

Iffy is \`src/iffy.ts\`.

### One message of a \`Second\`

1. \`src/second.ts\`

## After

\`src/after.ts\`
`);

  it("names core files in its introduction", () => {
    expect(chapter.core).toEqual(["src/core.ts"]);
  });

  it("has sections that name files, without those of other cases", () => {
    const files = ["src/b.ts", "src/a.ts", "src/core.ts", "src/folder/c-d.ts", "src/e.ts", "src/iffy.ts"];
    expect(chapter.filesOf("first")).toEqual(files);
    expect(chapter.filesOf("Second")).toEqual(["src/second.ts"]);
  });

  it("that is not there is an error, and so is a section", () => {
    expect(() => chapter.filesOf("third")).toThrow("`third`");
    expect(() => new Walkthroughs("# Contributing\n")).toThrow("no chapter");
  });
});
