import { randomUUID } from "node:crypto";
import { join } from "node:path";

import { afterAll, describe, expect, inject, test } from "vitest";

import { pages } from "../docs/pages.js";
import { Project, removeProjects } from "./support/project.js";
import { root } from "./support/repository.js";

/** The recipes of the documentation, followed to the letter: in an empty project, with the versions that npm picks today. */
const tarball = inject("tarball");
const env = { STORAGE: inject("azurite").connectionString };

afterAll(removeProjects);

/** The command of a page, and the code block after it that begins with this line. */
function recipe(path: string, firstLine: string): { packages: string[]; code: string } {
  const page = pages.find((each) => each.path === path)!;
  const block = page.blocks.find(({ code }) => code.startsWith(firstLine));
  const packages = [...page.text.slice(0, page.text.indexOf(firstLine)).matchAll(/`npm install ([^`]+)`/g)].at(-1)?.[1]?.split(" ") ?? [];
  if (block === undefined) throw new Error(`${path} has no recipe that begins with ${firstLine}`);
  return { packages, code: block.code };
}

const update = (lines: readonly string[]): string => `
  const container = BlobServiceClient.fromConnectionString(process.env.STORAGE).getContainerClient("t${randomUUID()}");
  await container.create();
  await optimisticUpdate(container.getBlockBlobClient("counter.json"), (draft) => { draft.n++; }, { initial: { n: 0 } });
  ${lines.join("\n")}
`;

const imports = `
import { BlobServiceClient } from "@azure/storage-blob";
import { optimisticUpdate } from "azure-storage-concurrency";
`;
const requires = imports.replaceAll(/import (.*) from (.*);/g, "const $1 = require($2);");

describe.concurrent("followed to the letter in a new project", () => {
  test.for([[], ["@opentelemetry/instrumentation"]])("the recipe for traces yields the spans of the library and of the SDK (also installed: %s)", async (also) => {
    const { packages, code } = recipe("docs/telemetry.md", "// tracing.mjs");
    const project = await Project.create({ type: "module", packages: [tarball, "@azure/storage-blob", ...packages, ...also] });
    await project.write("tracing.mjs", code);
    await project.write("app.mjs", `${imports}${update([])}`);
    await project.write("app.cjs", `${requires}void (async () => {${update([])}})();`);
    for (const app of ["app.mjs", "app.cjs"]) {
      const spans = await project.node(["--import", "./tracing.mjs", app], env);
      for (const name of ["optimisticUpdate", "optimisticUpdate.attempt", "BlockBlobClient-upload", "HTTP PUT"]) expect(spans).toContain(`name: '${name}'`);
    }
  });

  test("the recipe for Prometheus yields metrics", async () => {
    const { packages, code } = recipe("docs/metrics.md", "// metrics.mjs");
    const project = await Project.create({ type: "module", packages: [tarball, "@azure/storage-blob", ...packages] });
    // The port is free; the page has a fixed one.
    await project.write("metrics.mjs", `${code}\nawait new Promise((resolve) => server.once("listening", resolve));\nglobalThis.port = server.address().port;`);
    await project.write("app.mjs", `${imports}${update(["console.log(await (await fetch(`http://localhost:${port}/metrics`)).text());"])}`);
    const metrics = await project.node(["--import", "./metrics.mjs", "app.mjs"], { ...env, METRICS_PORT: "0" });
    expect(metrics).toContain("azure_storage_concurrency_update_duration");
  });

  test("Jest runs the recipe, and all helpers, as CommonJS without configuration; so does ts-jest", async () => {
    const { code } = recipe("docs/testing.md", `const { BlobServiceClient } = require("@azure/storage-blob");`);
    const sdks = ["@azure/storage-blob", "@azure/data-tables", "@azure/storage-queue", "@azure/storage-file-share"];
    const tools = ["jest", "ts-jest", "typescript@5.9", "@types/jest", "@types/node@20", "azurite", "croner"];
    const project = await Project.create({ type: "commonjs", packages: [tarball, ...sdks, ...tools] });
    const compilerOptions = { target: "es2022", module: "commonjs", strict: true, types: ["node", "jest"] };
    await project.write("tsconfig.json", JSON.stringify({ compilerOptions, files: ["typed.test.ts", "everything.ts"] }));
    await project.write("jest.config.js", `module.exports = { testTimeout: 120_000, transform: { "\\\\.ts$": "ts-jest" } };`);
    await project.write("page.test.js", code);
    await project.copy(join(root, "integration/package/apps/everything.ts"), "everything.ts");
    await project.write(
      "typed.test.ts",
      `
      import { Schedule } from "azure-storage-concurrency";
      import type { BlockBlobLike } from "azure-storage-concurrency/clients";
      import { startAzurite } from "azure-storage-concurrency/testing";

      test("all helpers work", async () => {
        expect(require.resolve("azure-storage-concurrency")).toMatch(/cjs/);
        const azurite = await startAzurite();
        Object.assign(process.env, { STORAGE: azurite.connectionString, BLOB_URL: azurite.blobUrl, TABLE_URL: azurite.tableUrl, SCENE: "everything" });
        const report = new Promise((resolve) => jest.spyOn(console, "log").mockImplementation(resolve));
        await import("./everything");
        expect(JSON.parse(String(await report))).toMatchObject({ blobs: { n: 2 }, entities: { n: 8 }, queue: { handled: 7 }, files: { n: 2 } });
        await azurite.stop();
      });

      test("the clients of the SDK have the types of the library", () => {
        const blob: BlockBlobLike | undefined = undefined;
        expect([blob, typeof Schedule]).toEqual([undefined, "function"]);
      });
      `,
    );
    await project.npx(["jest"]);
  });
});

test("Vitest runs the recipe with the fixture", async () => {
  const files = ["storage.setup.ts", "vitest.config.ts", "orders.test.ts"];
  const sdks = ["@azure/storage-blob", "@azure/data-tables", "@azure/storage-queue"];
  const project = await Project.create({ type: "module", packages: [tarball, ...sdks, "azurite", "vitest@4.1"] });
  for (const file of files) await project.write(file, recipe("docs/testing.md", `// ${file}`).code);
  expect(await project.npx(["vitest", "run", "--no-color"])).toMatch(/Tests {2}4 passed \(4\)/);
});

test("a sample of the package runs where it is installed", async () => {
  const page = pages.find(({ path }) => path === "samples/README.md")!;
  const command = /^npm install azure-storage-concurrency (.*)\n(node .*)$/m.exec(page.text)!;
  const project = await Project.create({ type: "module", packages: [tarball, ...command[1]!.split(" ")] });
  expect(await project.node(command[2]!.split(" ").slice(1))).toContain("Money between accounts");
});

test("two copies in one process lose no update, and know each other's errors", async () => {
  const project = await Project.create({ type: "module", packages: [tarball, "@azure/storage-blob"] });
  await project.write(
    "app.mjs",
    `
    import { createRequire } from "node:module";
    import { BlobServiceClient } from "@azure/storage-blob";
    import * as esm from "azure-storage-concurrency";
    const require = createRequire(import.meta.url);
    const cjs = require("./node_modules/azure-storage-concurrency/dist/cjs/index.js");
    const container = BlobServiceClient.fromConnectionString(process.env.STORAGE).getContainerClient("t${randomUUID()}");
    await container.create();
    const blob = container.getBlockBlobClient("counter.json");
    const count = (draft) => { draft.n++; };
    const updates = Array.from({ length: 40 }, (_, i) => (i % 2 ? esm : cjs).optimisticUpdate((i % 4 < 2 ? esm : cjs).jsonBlob(blob), count, { initial: { n: 0 }, maxAttempts: 100 }));
    await Promise.all(updates);
    const { value } = await esm.readTarget(cjs.jsonBlob(blob));
    const excluded = await esm.withLease(blob, () => cjs.tryAcquireLease(blob));
    const conflict = await cjs.deleteIfUnchanged(blob, '"0x1"').catch((error) => error);
    console.log(JSON.stringify({
      same: require("azure-storage-concurrency") === esm, copies: esm.optimisticUpdate !== cjs.optimisticUpdate,
      value, excluded: excluded === undefined, known: esm.isConcurrencyError(conflict, "CONFLICT"),
    }));
    `,
  );
  expect(await project.run("app.mjs", env)).toEqual({ same: true, copies: true, value: { n: 40 }, excluded: true, known: true });
});
