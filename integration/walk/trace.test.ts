import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { expect, it, onTestFinished } from "vitest";

import type { Call, Storage } from "./calls.js";
import { TracedLibrary } from "./trace.js";

/** A library of a few lines. */
function sources(files: Readonly<Record<string, string>>): string {
  const src = mkdtempSync(join(tmpdir(), "walk-"));
  onTestFinished(() => rmSync(src, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(src, path)), { recursive: true });
    writeFileSync(join(src, path), text);
  }
  return src;
}

it("a trace has the files of all functions that run during the second call, and counts changes of the file", async () => {
  const src = sources({
    "index.ts": 'export { call, later } from "./call.js"; export type { Nowhere } from "./types.js";',
    "types.ts": "export interface Nowhere {}",
    "call.ts": `
      import { Thing } from "./kinds/thing.js";
      import { add, nested, once } from "./arrows.js";
      import { constant } from "./constant.js";
      let warm = false;
      export async function call(): Promise<number> {
        if (!warm) once();
        warm = true;
        const thing = new Thing(constant);    // 1: to thing.ts, which is entered for the accessor and the method, too
        const sum = add(thing.value, thing.method()); // 2: to arrows.ts
        await Promise.resolve();
        return sum + nested(1)(2) + own();    // 3: back, and so own() is a hop, though nested() is none
      }
      function own(): number { return 0; }
      export function later(): void { once(); }`,
    "kinds/thing.ts": `
      export class Thing {
        readonly #value: number;
        constructor(value: number) { this.#value = value; }
        get value(): number { return this.#value; }
        method = (): { n: number }["n"] => ({ n: this.#value }).n;
      }`,
    "arrows.ts": `
      import { once as other } from "./once.js";
      export const add = (a: number, b: number): number => a + b;
      export const nested = (a: number) => (b: number): number => a * b;
      export const once = other;`,
    "once.ts": "export function once(): void {}",
    "constant.ts": "export const constant = (() => 20)();",
    "testing.ts": 'throw new Error("is not part of it");',
  });
  interface Fixture {
    call: () => Promise<number>;
    later: () => void;
  }
  const results: unknown[] = [];
  const call: Call = {
    name: "call",
    prepare: async (library) => async (trace) => {
      const fixture = library as unknown as Fixture;
      fixture.later();
      await trace(async () => results.push(await fixture.call()));
      fixture.later();
    },
  };
  const walk = await (await TracedLibrary.load(src)).walk(call, {} as Storage);
  expect(walk).toEqual({ files: ["src/call.ts", "src/kinds/thing.ts", "src/arrows.ts"], hops: 3 });
  expect(results).toEqual([42, 42]);
});
