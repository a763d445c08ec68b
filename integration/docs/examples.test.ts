import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";

import { startFileShareServer, type FileShareServer } from "../../src/testing.js";
import { givenNames } from "./workers/given.js";
import { pages, root } from "./pages.js";

/**
 * The code of all pages is compiled and run unchanged. What an example uses without creating it (`blob`, `table`, ...) is
 * declared before it, with storage of its own.
 */
const folder = join(root, "integration/docs/.examples");
const blocks = pages.flatMap((page) => page.blocks);
const typescript = blocks.filter(({ language }) => language === "ts");
const javascript = blocks.filter(({ language }) => language === "js");

const fileOf = (index: number): string => join(folder, `example-${index}.ts`);
let compiled: Promise<Ended>;
let ran: Promise<Ended>;
let files: FileShareServer;

beforeAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [index, { code }] of typescript.entries()) writeFileSync(fileOf(index), withGiven(code, index));
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ extends: "../../../tsconfig.json", compilerOptions: { noUnusedLocals: false }, include: ["*.ts"] }),
  );
  files = await startFileShareServer();
  compiled = run([join(root, "node_modules/typescript/bin/tsc"), "-p", folder]);
  ran = run(["--import", "tsx", join(import.meta.dirname, "workers/run-examples.ts"), join(folder, "results.json"), ...typescript.map((_, i) => fileOf(i))]);
});

afterAll(async () => {
  await Promise.allSettled([compiled, ran]);
  await files.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe("the examples in README and docs", () => {
  test("are many", () => {
    expect(typescript.length).toBeGreaterThan(20);
  });

  test("compile", async () => {
    expect((await compiled).output).toBe("");
  });

  test("leave no timer or connection that keeps a process alive", async () => {
    expect(await ran).toEqual({ output: "", status: 0 });
  });

  test.each(typescript.map(({ where }, index) => [where, index] as const))("%s runs", async (_where, index) => {
    await ran;
    const results = JSON.parse(readFileSync(join(folder, "results.json"), "utf8")) as Record<string, string>;
    expect(results[fileOf(index)]).toBe("ran");
  });

  test.each(javascript.map(({ where, code }) => [where, code] as const))("%s runs", async (where, code) => {
    const file = join(folder, `${where.replace(/\W/g, "-")}.mjs`);
    writeFileSync(file, code);
    expect(await run([file])).toEqual({ output: "", status: 0 });
  });
});

describe("commands in README and docs", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> };
  const named = pages.flatMap(({ path, text }) => [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = ""]) => [path, name] as const));

  test.each([...new Set(named.map((each) => each.join(" ")))].map((each) => each.split(" ")))("%s: npm run %s exists", (_path, name) => {
    expect(Object.keys(scripts)).toContain(name);
  });
});

/** The example, after declarations of what it does not create itself. */
function withGiven(code: string, index: number): string {
  const needed = givenNames.filter((name) => new RegExp(`\\b${name}\\b`).test(code) && !new RegExp(`\\b(const|let|using) ${name}\\b`).test(code));
  const prelude = needed.length === 0 ? "" : `import { given } from "../workers/given.js";\nconst { ${needed.join(", ")} } = await given(${index});\n`;
  return `${prelude}${code}\nexport {};\n`;
}

interface Ended {
  readonly output: string;
  readonly status: number | null;
}

async function run(args: readonly string[]): Promise<Ended> {
  const { connectionString } = inject("azurite");
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, EXAMPLES_STORAGE: connectionString, EXAMPLES_FILES: files.connectionString, NODE_NO_WARNINGS: "1", METRICS_PORT: "0" },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 280_000, // a watchdog: half a minute on a quiet machine
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()));
  const status = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { output, status };
}
