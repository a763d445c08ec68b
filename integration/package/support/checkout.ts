import { cp, mkdir, readdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";

import { Project } from "./project.js";
import { root } from "./repository.js";

const sdks = ["@azure/storage-blob", "@azure/data-tables", "@azure/storage-queue", "@azure/storage-file-share"];
const copied = ["src", "test", "integration", "bench", "samples", "dist", "docs", "package.json", "tsconfig.json", "tsconfig.build.json", "vitest.config.ts", "eslint.layers.js"];

/**
 * A copy of this repository for another Node, with the newest SDKs for it. Every other package is that of this repository: only what
 * the tests are about is installed.
 */
export async function checkOut(major: number): Promise<Project> {
  const node = await Project.create({ type: "module", packages: [`node@${major}`] });
  const nodeFolder = join(node.folder, "node_modules/node/bin");
  const project = await Project.create({ type: "module", packages: sdks.map((sdk) => `${sdk}@latest`), nodeFolder });
  await Promise.all(copied.map((name) => cp(join(root, name), join(project.folder, name), { recursive: true, filter: (source) => !source.includes("/.examples") })));
  const installed = new Set(await packagesIn(project.folder));
  for (const name of await packagesIn(root)) {
    if (installed.has(name)) continue;
    const link = join(project.folder, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", name), link, "dir");
  }
  return project;
}

async function packagesIn(folder: string): Promise<string[]> {
  const modules = join(folder, "node_modules");
  const names = (await readdir(modules)).filter((name) => !name.startsWith("."));
  const scoped = async (name: string): Promise<string[]> =>
    name.startsWith("@") ? (await readdir(join(modules, name))).map((inScope) => `${name}/${inScope}`) : [name];
  return (await Promise.all(names.map(scoped))).flat();
}
