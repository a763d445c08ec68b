import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { TestProject } from "vitest/node";

import { root } from "./repository.js";
import { runProgram } from "./run-program.js";

declare module "vitest" {
  interface ProvidedContext {
    /** The packed library, as the registry would get it. */
    tarball: string;
  }
}

/** Packs what was built before: a build of its own would take the files away that other tests are just importing. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (!existsSync(join(root, "dist/index.js"))) throw new Error("there is nothing to pack: run npm run build first");
  const folder = await mkdtemp(join(tmpdir(), "packed-"));
  const output = await runProgram("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder], { cwd: root });
  const packed = JSON.parse(output) as [{ filename: string }] | Record<string, { filename: string }>;
  const [{ filename }] = Object.values(packed) as [{ filename: string }];
  project.provide("tarball", join(folder, filename));
  return () => rm(folder, { recursive: true, force: true });
}
