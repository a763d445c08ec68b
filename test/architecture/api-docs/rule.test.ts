import ts from "typescript";
import { describe, expect, it } from "vitest";

import { checkApiDocs } from "./rule.js";

/** The parts of the standard library that the sources below use. A whole one would take a second for each test. */
const lib = `
interface Array<T> {} interface Boolean {} interface Function {} interface IArguments {} interface Number {} interface Object {} interface RegExp {} interface String {}
interface CallableFunction {} interface NewableFunction {}
interface Promise<T> { then(): void }
interface SymbolConstructor { readonly asyncDispose: unique symbol; readonly asyncIterator: unique symbol }
declare var Symbol: SymbolConstructor;
interface AsyncIterableIterator<T> { [Symbol.asyncIterator](): AsyncIterableIterator<T> }
`;

/** The findings in `src/index.ts` and other files, as `line name: problem`, with the file if it is another one. */
function findingsIn(index: string, others: Readonly<Record<string, string>> = {}): string[] {
  const files: Record<string, string> = { "/lib.d.ts": lib, "/src/index.ts": index, "/src/testing.ts": "export {};", ...others };
  const options: ts.CompilerOptions = { strict: true, noLib: true, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler };
  const host: ts.CompilerHost = {
    ...ts.createCompilerHost(options),
    fileExists: (path) => path in files,
    directoryExists: () => true,
    realpath: (path) => path,
    readFile: (path) => files[path],
    getSourceFile: (path, version) => (files[path] === undefined ? undefined : ts.createSourceFile(path, files[path], version, true)),
    getCurrentDirectory: () => "/",
  };
  const program = ts.createProgram(Object.keys(files), options, host);
  expect(ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText)).toEqual([]);
  const entries = ["/src/index.ts", "/src/testing.ts"];
  return checkApiDocs(program, { entries, mirrors: (file) => file.startsWith("/src/clients/") }).map(
    ({ file, line, name, problem }) => `${file === "/src/index.ts" ? "" : `${file}:`}${line} ${name}: ${problem}`,
  );
}

const noExample = "no @example, and no {@link} to an export that has one";
/** An export that others can link to. */
const documented = "/** Runs.\n@example run(); */\nexport function run(): void {}\n";

describe("the comments of the public API", () => {
  it("have a sentence for each export", () => {
    expect(findingsIn("/** Counts.\n@example count */\nexport const count = 1;")).toEqual([]);
    expect(findingsIn("/** @example count */\nexport const count = 1;")).toEqual(["2 count: no sentence"]);
    expect(findingsIn("/** counts\n@example count */\nexport const count = 1;")).toEqual(["3 count: no complete sentence"]);
    expect(findingsIn("export const count = 1;")).toEqual(["1 count: no sentence", `1 count: ${noExample}`]);
  });

  it("have an example, or a link to an export that has one", () => {
    expect(findingsIn(`${documented}/** The result of {@link run}. */\nexport interface Result {}`)).toEqual([]);
    expect(findingsIn(`${documented}/** The result of {@linkcode run}. */\nexport type Result = 1;`)).toEqual([]);
    expect(findingsIn(`${documented}/** The result of \`run\`. */\nexport interface Result {}`)).toEqual([`5 Result: ${noExample}`]);
    expect(findingsIn(`${documented}/** See {@link Result}. */\nexport interface Other {}\n/** See {@link Other}. */\nexport interface Result {}`)).toEqual([
      `5 Other: ${noExample}`,
      `7 Result: ${noExample}`,
    ]);
    expect(findingsIn("export {};", { "/src/testing.ts": "/** Starts. */\nexport function start(): void {}" })).toEqual([]);
  });

  it("have @throws for what returns a promise", () => {
    const example = "@example load()";
    expect(findingsIn(`/** Loads.\n${example} */\nexport declare function load(): Promise<void>;`)).toEqual(["3 load: returns a promise, no @throws"]);
    expect(findingsIn(`/** Loads.\n${example} */\nexport declare function load(): 1 | Promise<void>;`)).toEqual(["3 load: returns a promise, no @throws"]);
    expect(findingsIn(`/** Lists.\n${example} */\nexport declare function list(): AsyncIterableIterator<1>;`)).toEqual(["3 list: returns a promise, no @throws"]);
    expect(findingsIn(`/** Loads.\n${example}\n@throws Error */\nexport declare function load(): Promise<void>;`)).toEqual([]);
    expect(findingsIn(`/** Loads.\n${example} */\nexport interface Loader {\n/** Loads. */\nload(): Promise<void>;\n/** Saves. */\nsave?: () => Promise<void>; }`)).toEqual([
      "5 Loader.load: returns a promise, no @throws",
      "7 Loader.save: returns a promise, no @throws",
    ]);
  });

  it("have @throws for what throws or checks its arguments, but not for what its callbacks do", () => {
    const parse = (body: string, tag = ""): string[] => findingsIn(`/** Parses.\n@example parse()${tag} */\nexport function parse(): void { ${body} }\ndeclare function checkText(): void;`);
    expect(parse("throw 1;")).toEqual(["3 parse: throws, no @throws"]);
    expect(parse("if (1) checkText();")).toEqual(["3 parse: throws, no @throws"]);
    expect(parse("throw 1;", "\n@throws TypeError")).toEqual([]);
    expect(parse("(() => { throw 1; });")).toEqual([]);
  });

  it("have @defaultValue for each option that may be left out", () => {
    const options = "name: string;\n/** Seconds. */\ntime?: number;\n/** Seconds.\n@defaultValue 1 */\nwait?: number; ";
    expect(findingsIn(`${documented}/** See {@link run}. */\nexport interface RunOptions {\n/** A name. */\n${options}}`)).toEqual(["9 RunOptions.time: no @defaultValue"]);
    expect(findingsIn(`${documented}/** See {@link run}. */\nexport type RunOptions = {\n/** A name. */\n${options}};`)).toEqual(["9 RunOptions.time: no @defaultValue"]);
    expect(findingsIn(`${documented}/** See {@link run}. */\nexport interface Result {\n/** A name. */\n${options}}`)).toEqual([]);
  });

  it("have a sentence for each public member", () => {
    const source = `/** Locks.\n@example new Lock() */
export class Lock {
  constructor(name: string) { this.name = name; }
  readonly name: string;
  release(): void {}
  get held(): boolean { return true; }
  static open(): void {}
  private a = 1;
  protected b = this.a;
  #c = 1;
  /** @internal */
  d = this.#c;
  [Symbol.asyncDispose](): Promise<void> { return this.e; }
  /** A promise. */
  declare e: Promise<void>;
}`;
    const missing = ["4 Lock.constructor", "5 Lock.name", "6 Lock.release", "7 Lock.held", "8 Lock.open"];
    expect(findingsIn(source)).toEqual(missing.map((place) => `${place}: no sentence`));
    expect(findingsIn("/** Locks.\n@example new Lock() */\nexport class Lock { constructor() {} }")).toEqual([]);
    expect(findingsIn("/** Locks.\n@example new Lock() */\nexport class Lock { private constructor(name: string) { void name; } }")).toEqual([]);
  });

  it("are inherited from what a member implements", () => {
    const service = `${documented}/** See {@link run}. */\nexport interface Service {\n/** Stops.\n@throws Error */\nstop(): Promise<void>; }\n/** See {@link run}. */`;
    expect(findingsIn(`${service}\nexport declare class Consumer implements Service { stop(): Promise<void>; }`)).toEqual([]);
    expect(findingsIn(`${service}\nexport declare class Consumer { stop(): Promise<void>; }`)).toEqual([
      "10 Consumer.stop: no sentence",
      "10 Consumer.stop: returns a promise, no @throws",
    ]);
  });

  it("are not needed for members that mirror an SDK, and for other packages", () => {
    const client = { "/src/clients/blob.ts": "/** See {@link run}. */\nexport interface Blob {\nupload(): Promise<void>; }" };
    expect(findingsIn(`${documented}export type { Blob } from "./clients/blob";`, client)).toEqual([]);
    expect(findingsIn(`${documented}export type { Blob } from "./clients/blob";`, { "/src/clients/blob.ts": "export interface Blob {}" })).toEqual([
      "/src/clients/blob.ts:1 Blob: no sentence",
      `/src/clients/blob.ts:1 Blob: ${noExample}`,
    ]);
    expect(findingsIn('export type { Other } from "./node_modules/other";', { "/src/node_modules/other.ts": "export interface Other {}" })).toEqual([]);
  });

  it("are not needed for the members of a list of exported classes", () => {
    const classes = `${documented}/** See {@link run}. */\nexport declare class A<T> {}\n/** See {@link run}. */\nexport declare class B {}\n/** See {@link run}. */\n`;
    expect(findingsIn(`${classes}export interface All {\nA: A<string>;\nB: B; }`)).toEqual([]);
    expect(findingsIn(`${classes}export interface All {\nA: A<string>;\nB: 1; }`)).toEqual(["10 All.A: no sentence", "11 All.B: no sentence"]);
    expect(findingsIn(`${classes}export interface All {\nA: Hidden; }\ndeclare class Hidden {}`)).toEqual(["10 All.A: no sentence"]);
  });

  it("are checked once for what two entries export", () => {
    expect(findingsIn("export const count = 1;", { "/src/testing.ts": 'export { count } from "./index";' })).toHaveLength(2);
  });
});
