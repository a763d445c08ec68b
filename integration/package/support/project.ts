import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";

import { root } from "./repository.js";
import { runProgram } from "./run-program.js";

export interface ProjectOptions {
  /** Whether its `.js` and `.ts` files are ES modules. */
  readonly type: "module" | "commonjs";
  /** What is installed: tarballs, and names with or without versions. */
  readonly packages: readonly string[];
  /** A folder with another Node than the one that runs the tests. */
  readonly nodeFolder?: string | undefined;
}

const folders: string[] = [];

export async function removeProjects(): Promise<void> {
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true, force: true })));
}

/** A project of somebody who uses the library: an empty folder outside of this repository, with packages of its own. */
export class Project {
  readonly folder: string;
  readonly #env: NodeJS.ProcessEnv;

  private constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.folder = folder;
    this.#env = env;
  }

  static async create({ type, packages, nodeFolder }: ProjectOptions): Promise<Project> {
    const folder = await mkdtemp(join(tmpdir(), "app-"));
    folders.push(folder);
    await writeFile(join(folder, "package.json"), JSON.stringify({ name: "app", private: true, type }));
    // npm is a script for whichever node comes first, and chooses versions that fit it.
    const path = nodeFolder === undefined ? process.env["PATH"] : [nodeFolder, process.env["PATH"]].join(delimiter);
    const project = new Project(folder, { ...process.env, PATH: path });
    await project.#program("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", ...packages]);
    return project;
  }

  /** Copies a program of `integration/package/apps` here. */
  async add(app: string): Promise<void> {
    await this.copy(join(root, "integration/package/apps", app), app);
  }

  async copy(from: string, to: string): Promise<void> {
    await mkdir(dirname(join(this.folder, to)), { recursive: true });
    await copyFile(from, join(this.folder, to));
  }

  async write(file: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.folder, file)), { recursive: true });
    await writeFile(join(this.folder, file), text);
  }

  /** A file of the project, parsed. */
  async json(file: string): Promise<unknown> {
    return JSON.parse(await readFile(join(this.folder, file), "utf8"));
  }

  /** Runs the compiler that is installed here under this name. Rejects with the compiler's complaints. */
  tsc(packageName: string, args: readonly string[]): Promise<string> {
    return this.#program("node", [join("node_modules", packageName, "bin/tsc"), ...args]);
  }

  /**
   * Compiles as strictly as anybody does, the declarations of all packages included. Rejects with the compiler's
   * complaints.
   *
   * @param typescript - The folder of the compiler, if it is not the one of this repository.
   */
  async compile(file: string, compilerOptions: object = {}, typescript = join(root, "node_modules/typescript")): Promise<void> {
    const strict = { strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false };
    const output = { target: "es2022", module: "nodenext", types: ["node"], rootDir: ".", outDir: "." };
    await writeFile(
      join(this.folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions: { ...output, ...strict, ...compilerOptions }, files: [file] }),
    );
    await this.#program("node", [join(typescript, "bin/tsc"), "-p", "."]);
  }

  /** Runs a program, and returns the JSON that it prints. It has to end by itself. */
  async run(file: string, env: NodeJS.ProcessEnv): Promise<unknown> {
    return JSON.parse(await this.node([file], env));
  }

  /** Runs Node, and returns what it prints. The program has to end by itself. */
  node(args: readonly string[], env: NodeJS.ProcessEnv = {}, timeoutInMs?: number): Promise<string> {
    return this.#program("node", args, env, timeoutInMs);
  }

  /** Runs a command of a package that is installed here, and returns what it prints. Rejects with its exit code. */
  npx(command: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
    return this.#program("npx", ["--no-install", ...command], env);
  }

  #program(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, timeoutInMs?: number): Promise<string> {
    return runProgram(program, args, { cwd: this.folder, env: { ...this.#env, ...env }, timeoutInMs });
  }
}
