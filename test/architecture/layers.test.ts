import { describe, expect, it } from "vitest";

import { diagramOf, layerOf, type Layers, readDiagram, readLayers, usedLayers } from "./layers.js";
import { cyclesIn, importsOf, readSources } from "./source.js";

const layers = await readLayers();
const sources = readSources();
const imports = importsOf(sources);

describe("the folders of src/", () => {
  it("import exactly what eslint.layers.js lists", () => {
    expect(usedLayers(imports, layers)).toEqual(layers);
  });

  it("import only folders that are listed above them", () => {
    const names = Object.keys(layers);
    for (const [name, others] of Object.entries(layers)) expect(names.slice(0, names.indexOf(name))).toEqual(expect.arrayContaining([...others]));
  });

  it("are all listed, and the list has no others", () => {
    const folders = new Set([...sources.keys()].flatMap((path) => layerOf(path) ?? []));
    expect([...folders].sort()).toEqual(Object.keys(layers).sort());
  });

  it("import no entry", () => {
    const entries = new Set([...sources.keys()].filter((path) => layerOf(path) === undefined));
    const importers = [...imports].filter(([, targets]) => targets.some((target) => entries.has(target)));
    expect(importers.map(([path]) => path)).toEqual([]);
  });

  it("are drawn in CONTRIBUTING.md as they are listed; write the diagram with `npm run layers`", () => {
    expect(readDiagram()).toBe(diagramOf(layers));
  });
});

describe("the files of src/", () => {
  it("import each other without cycles, types included", () => {
    expect(cyclesIn(imports)).toEqual([]);
  });

  it("import files that exist", () => {
    const missing = [...imports].flatMap(([, targets]) => targets.filter((target) => target.endsWith(".ts") && !sources.has(target)));
    expect(missing).toEqual([]);
  });
});

describe("the check of the layers", () => {
  const example = importsOf(
    new Map([
      ["index.ts", 'export { a } from "./top/a.js"; export type { B } from "./middle/b.js";'],
      ["errors.ts", ""],
      ["top/a.ts", 'import { b } from "../middle/b.js";\nimport { more } from "./more/more.js";\nimport pRetry from "p-retry";'],
      ["top/more/more.ts", 'import type { A } from "../a.js";\nimport { c } from "../../bottom/c.js";'],
      ["middle/b.ts", 'type C = import("../bottom/c.js").C;\nawait import("../errors.js");'],
      ["bottom/c.ts", '// import { a } from "../top/a.js";\nexport { c } from "./c.js";'],
    ]),
  );

  it("finds imports of values, types and modules, re-exports, and what is imported dynamically", () => {
    const listed: Layers = { errors: [], bottom: [], middle: [], top: [] };
    expect(usedLayers(example, listed)).toEqual({ errors: [], bottom: [], middle: ["errors", "bottom"], top: ["bottom", "middle"] });
    expect(example.get("top/a.ts")).toEqual(["middle/b.ts", "top/more/more.ts", "p-retry"]);
  });

  it("finds each cycle once, also one of types, and of a file with itself", () => {
    expect(cyclesIn(example)).toEqual([
      ["top/a.ts", "top/more/more.ts", "top/a.ts"],
      ["bottom/c.ts", "bottom/c.ts"],
    ]);
  });

  it("draws no arrow where a longer way leads to the same folder", () => {
    const listed: Layers = { errors: [], bottom: ["errors"], left: ["errors", "bottom"], right: ["bottom"], top: ["errors", "bottom", "left", "right"], alone: [] };
    expect(diagramOf(listed)).toBe(
      ["```mermaid", "flowchart TD", "  top --> left & right", "  left & right --> bottom", "  bottom --> errors", "  alone", "```"].join("\n"),
    );
  });
});
