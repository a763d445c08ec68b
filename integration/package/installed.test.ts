import { randomUUID } from "node:crypto";
import { join } from "node:path";

import { BlobServiceClient } from "@azure/storage-blob";
import { afterAll, describe, expect, inject, test } from "vitest";

import { Project, type ProjectOptions, removeProjects } from "./support/project.js";
import { manifest } from "./support/repository.js";

/**
 * The packed library in projects outside of this repository, where it finds only what they have installed. What runs
 * there talks to the Azurite of this run.
 */
const tarball = inject("tarball");
const sdks = ["@azure/storage-blob", "@azure/data-tables", "@azure/storage-queue", "@azure/storage-file-share"];
const node20Types = "@types/node@20";

const everything = {
  blobs: { n: 2, lost: 1, second: true },
  entities: { first: 1, n: 8 },
  locks: { found: true },
  queue: { handled: 7, duplicates: 1 },
  files: { attempts: 2, n: 2, guarded: [expect.any(Number) as number] },
};

function createProject(options: ProjectOptions): Promise<Project> {
  return Project.create({ ...options, packages: [tarball, ...options.packages] });
}

/** Each program gets names of its own. */
function scene(): NodeJS.ProcessEnv {
  const { connectionString, blobUrl, tableUrl } = inject("azurite");
  return { STORAGE: connectionString, BLOB_URL: blobUrl, TABLE_URL: tableUrl, SCENE: `t${randomUUID().replaceAll("-", "")}` };
}

/** The epoch that is stored with a lock of the program: that of its only holder. */
async function epochOf(env: NodeJS.ProcessEnv, lock: string): Promise<number> {
  const container = BlobServiceClient.fromConnectionString(env["STORAGE"]!).getContainerClient(env["SCENE"]!);
  const { metadata } = await container.getBlobClient(`locks/${lock}`).getProperties();
  expect(metadata?.["asc_epoch"]).toMatch(/^[1-9]\d*$/);
  return Number(metadata!["asc_epoch"]);
}

afterAll(removeProjects);

describe.concurrent("installed from its package, the library works", () => {
  test("in an ES module in strict TypeScript", async () => {
    const project = await createProject({ type: "module", packages: [...sdks, node20Types] });
    await project.add("everything.ts");
    await project.compile("everything.ts");
    expect(await project.run("everything.js", scene())).toEqual(everything);
  });

  test("in CommonJS in strict TypeScript, with the SDK clients of that side", async () => {
    const project = await createProject({ type: "commonjs", packages: [...sdks, node20Types] });
    await project.add("everything.ts");
    for (const resolution of [{}, { module: "commonjs", moduleResolution: "bundler" }]) {
      await project.compile("everything.ts", { esModuleInterop: true, ...resolution });
      expect(await project.run("everything.js", scene())).toEqual(everything);
    }
  });

  test("in plain JavaScript, by import and by require", async () => {
    const project = await createProject({ type: "module", packages: ["@azure/storage-blob"] });
    const env = scene();
    for (const [program, lock] of [["plain.js", "module"], ["plain.cjs", "script"]] as const) {
      await project.add(program);
      const report = await project.run(program, env);
      expect(report).toEqual({ value: { n: 1 }, held: true, epoch: await epochOf(env, lock) });
    }
  });

  test.for([
    ["only-blob", "@azure/storage-blob", { value: { n: 2 }, second: true, guard: false }],
    ["only-table", "@azure/data-tables", { outcome: "created", balances: [70, 130] }],
    ["only-queue", "@azure/storage-queue", { handled: ["hello"] }],
    ["only-file", "@azure/storage-file-share", { text: '{"n":3}', second: true, refused: true, exists: false }],
  ] as const)("%s, with %s and no other SDK", async ([app, sdk, report]) => {
    const project = await createProject({ type: "module", packages: [sdk, node20Types] });
    await project.add(`${app}.ts`);
    await project.compile(`${app}.ts`);
    const env = scene();
    const reported = await project.run(`${app}.js`, env);
    expect(reported).toEqual({ ...report, ...(app === "only-blob" && { epoch: await epochOf(env, "orders") }) });
  });

  test("as a command, with the SDK of what is asked about and no other", async () => {
    const project = await createProject({ type: "module", packages: ["@azure/storage-blob"] });
    const env = scene();
    await project.add("plain.js");
    await project.run("plain.js", env);
    const command = (...args: string[]): Promise<string> =>
      project.npx(["azure-storage-concurrency", ...args], { AZURE_STORAGE_CONNECTION_STRING: env["STORAGE"] });

    expect(await command("--help")).toMatch(/^Usage: azure-storage-concurrency .*locks.*leases.*queue.*inbox/s);
    const locks: unknown = JSON.parse(await command("locks", "list", "--container", env["SCENE"]!, "--json"));
    expect(locks).toEqual([expect.objectContaining({ name: "module", state: "available", epoch: await epochOf(env, "module") })]);
    await expect(command("queue", "peek", "jobs")).rejects.toThrow(/ended with code 1\b.*npm install @azure\/storage-queue/s);
    await expect(command("locks", "lsit")).rejects.toThrow("ended with code 2");
    await expect(command("locks", "list", "--container", "not-there")).rejects.toThrow("ended with code 3");
  });

  test("with the oldest SDKs that it asks for, and the oldest compiler", async () => {
    const oldest = sdks.map((sdk) => `${sdk}@${manifest.peerDependencies[sdk]!.replace("^", "")}`);
    const project = await createProject({ type: "module", packages: [...oldest, node20Types, "typescript@5.4"] });
    await project.add("everything.ts");
    await project.compile("everything.ts", {}, join(project.folder, "node_modules/typescript"));
    expect(await project.run("everything.js", scene())).toEqual(everything);
  });

  test("with the newest SDKs, on Node 24", async () => {
    const node = await Project.create({ type: "module", packages: ["node@24"] });
    const nodeFolder = join(node.folder, "node_modules/node/bin");
    const newest = sdks.map((sdk) => `${sdk}@latest`);
    const project = await createProject({ type: "module", packages: [...newest, "@types/node@24"], nodeFolder });
    await project.add("everything.ts");
    await project.add("node-version.js");
    await project.compile("everything.ts");
    expect(await project.run("node-version.js", {})).toBe(24);
    expect(await project.run("everything.js", scene())).toEqual(everything);
  });
});
