/** The folders of `src/` and their dependencies, as `eslint.layers.js` lists them, and the diagram of them in CONTRIBUTING.md. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "./source.js";

/** What each folder imports; a folder stands below all that it imports. */
export type Layers = Readonly<Record<string, readonly string[]>>;

/** By a URL that is not known to the compiler: the configuration of ESLint is JavaScript without types. */
export async function readLayers(): Promise<Layers> {
  const config = (await import(/* @vite-ignore */ new URL("../../eslint.layers.js", import.meta.url).href)) as { mayImport: Layers };
  return config.mayImport;
}

/** The folder of a file, as the list names it: `core`, or `errors` for `errors.ts`. Undefined for an entry. */
export function layerOf(path: string): string | undefined {
  const [folder, ...rest] = path.split("/");
  if (rest.length > 0) return folder;
  return path === "errors.ts" ? "errors" : undefined;
}

/** What the folders really import, in the order of `layers`. */
export function usedLayers(imports: ReadonlyMap<string, readonly string[]>, layers: Layers): Layers {
  const names = Object.keys(layers);
  const used = (name: string): readonly string[] => {
    const own = [...imports].filter(([path]) => layerOf(path) === name);
    const others = new Set(own.flatMap(([, targets]) => targets).map(layerOf));
    return names.filter((other) => other !== name && others.has(other));
  };
  return Object.fromEntries(names.map((name) => [name, used(name)]));
}

/** A Mermaid diagram, from the top layer down. An arrow is left out where a longer way leads to the same folder. */
export function diagramOf(layers: Layers): string {
  const names = Object.keys(layers).reverse();
  const importersOf = new Map<string, string[]>();
  for (const name of names) {
    const direct = directOf(name, layers).join(" & ");
    importersOf.set(direct, [name, ...(importersOf.get(direct) ?? [])]);
  }
  const arrows = [...importersOf].filter(([direct]) => direct !== "").map(([direct, importers]) => `${importers.join(" & ")} --> ${direct}`);
  const alone = names.filter((name) => directOf(name, layers).length === 0 && !Object.values(layers).some((others) => others.includes(name)));
  return ["```mermaid", "flowchart TD", ...[...arrows, ...alone].map((line) => `  ${line}`), "```"].join("\n");
}

function directOf(name: string, layers: Layers): readonly string[] {
  const imported = layers[name] ?? [];
  return imported.filter((other) => !imported.some((between) => reaches(between, other, layers)));
}

function reaches(from: string, to: string, layers: Layers): boolean {
  return (layers[from] ?? []).some((next) => next === to || reaches(next, to, layers));
}

const contributing = join(root, "CONTRIBUTING.md");
const block = /^```mermaid\n[\s\S]*?^```$/m;

export function readDiagram(): string | undefined {
  return block.exec(readFileSync(contributing, "utf8"))?.[0];
}

export function writeDiagram(diagram: string): void {
  writeFileSync(contributing, readFileSync(contributing, "utf8").replace(block, diagram));
}
