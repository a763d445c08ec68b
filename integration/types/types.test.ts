import { readdirSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";

import { Project, removeProjects } from "../package/support/project.js";
import { root } from "../package/support/repository.js";

/**
 * The files beside this one are user code: each line must compile, except those that are marked with `@ts-expect-error`,
 * which must not. They are compiled against the packed library in a project of its own.
 */
const sources = readdirSync(import.meta.dirname).filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"));
const sdks = ["@azure/storage-blob", "@azure/data-tables", "@azure/storage-queue", "@azure/storage-file-share"];

/** 5.4 is the oldest compiler that is supported: the declarations use `NoInfer`. */
const compilers = ["5.4", "5.9", "6", "7"] as const;
type Compiler = (typeof compilers)[number];

interface Configuration {
  readonly type: "module" | "commonjs";
  readonly compilerOptions: object;
  /** Compilers that do not know this combination of options. */
  readonly except?: readonly Compiler[];
  /** Compilers that also check the declarations of all packages, which takes as long as all the rest. */
  readonly checkDeclarations?: readonly Compiler[];
}

const withoutDom = ["es2022"];
const withDom = ["es2022", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"];
const allStrict = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
  noImplicitReturns: true,
  noFallthroughCasesInSwitch: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
};

const configurations: Readonly<Record<string, Configuration>> = {
  "strict, as in Node": {
    type: "module",
    compilerOptions: { strict: true, module: "nodenext", lib: withoutDom },
    checkDeclarations: ["7"],
  },
  // With the DOM, a name of the library that is also a global one could be mistaken for it.
  "all strict flags, with the DOM": {
    type: "module",
    compilerOptions: { ...allStrict, module: "nodenext", lib: withDom },
    checkDeclarations: ["5.4", "7"],
  },
  "all strict flags, as bundlers resolve": {
    type: "module",
    compilerOptions: { ...allStrict, module: "esnext", moduleResolution: "bundler", lib: withDom },
  },
  "strict, in CommonJS": { type: "commonjs", compilerOptions: { strict: true, module: "nodenext", lib: withDom } },
  // What older compilers resolve by "main", "types" and "typesVersions"; newer ones do as bundlers do, as below.
  "strict, in CommonJS by default": { type: "commonjs", except: ["6", "7"], compilerOptions: { strict: true, module: "commonjs", lib: withDom } },
  "strict, in CommonJS as bundlers resolve": {
    type: "commonjs",
    except: ["5.4", "5.9"],
    compilerOptions: { strict: true, module: "commonjs", moduleResolution: "bundler", lib: withoutDom },
  },
};

const runs = Object.entries(configurations).flatMap(([name, configuration]) =>
  compilers.filter((compiler) => !configuration.except?.includes(compiler)).map((compiler) => ({ name, compiler, configuration })),
);

let project: Project;
const folderOf = (compiler: Compiler): string => `typescript-${compiler}`;

beforeAll(async () => {
  const aliases = compilers.map((compiler) => `${folderOf(compiler)}@npm:typescript@${compiler}`);
  project = await Project.create({ type: "module", packages: [inject("tarball"), ...sdks, "zod@4", "@types/node@20", ...aliases] });
  for (const type of ["module", "commonjs"]) {
    await project.write(`${type}/package.json`, JSON.stringify({ type }));
    for (const file of sources) await project.copy(join(root, "integration/types", file), `${type}/${file}`);
  }
  const versions = await Promise.all(compilers.map((compiler) => project.tsc(folderOf(compiler), ["--version"])));
  console.log(`Type tests: ${sources.length} files, TypeScript ${versions.map((line) => line.trim().replace("Version ", "")).join(", ")}`);
}, 240_000);
afterAll(removeProjects);

describe.concurrent("user code compiles, and does not where it is marked", () => {
  test.for(runs)("TypeScript $compiler: $name", async ({ name, compiler, configuration: { type, compilerOptions, checkDeclarations = [] } }) => {
    const file = `${type}/${`${name} ${compiler}`.replaceAll(/\W+/g, "-")}.json`;
    const common = { target: "es2022", types: ["node"], noEmit: true, skipLibCheck: !checkDeclarations.includes(compiler) };
    await project.write(file, JSON.stringify({ compilerOptions: { ...common, ...compilerOptions }, files: sources }));
    await project.tsc(folderOf(compiler), ["-p", file]);
  });

  test.for(compilers)("TypeScript %s complains about a wrong type and about a mark without an error", async (compiler) => {
    await project.write(
      `module/wrong-${compiler}.ts`,
      'import { typeOf } from "./expect.js";\ntypeOf(1 as number).is<string>();\n// @ts-expect-error Compiles.\ntypeOf(1 as number).is<number>();\n',
    );
    const file = `module/wrong-${compiler}.json`;
    const compilerOptions = { strict: true, module: "nodenext", target: "es2022", lib: withoutDom, types: [], noEmit: true, skipLibCheck: true };
    await project.write(file, JSON.stringify({ compilerOptions, files: [`wrong-${compiler}.ts`] }));
    const complaint = await project.tsc(folderOf(compiler), ["-p", file]).catch(String);
    expect(complaint).toMatch(/\(2,\d+\): error TS2554.*\(3,1\): error TS2578/s);
  });
});
