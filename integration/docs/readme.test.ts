import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, inject, test } from "vitest";

/**
 * The code of the README is compiled and run as it stands there. What an example takes for granted (`blob`, `table`,
 * `container`) is put in front of it; each example has its own.
 */
const root = join(import.meta.dirname, "../..");
const folder = join(root, "integration/docs/.examples");
const readme = readFileSync(join(root, "README.md"), "utf8");
const blocks = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code ?? "");

const prelude = (index: number): string => `
import { TableClient as _TableClient } from "@azure/data-tables";
import { BlobServiceClient as _BlobServiceClient } from "@azure/storage-blob";
const _connection = process.env["README_STORAGE"]!;
const container = _BlobServiceClient.fromConnectionString(_connection).getContainerClient("readme-${index}");
const connectionString = _connection;
await container.create();
const blob = container.getBlockBlobClient("example");
const table = _TableClient.fromConnectionString(_connection, "readme${index}", { allowInsecureConnection: true });
await table.createTable();
const doTheWork = async (options: { conditions: { leaseId: string }; abortSignal: AbortSignal }): Promise<void> => void (await blob.getProperties(options));
const runDueJobs = (epoch: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(void epoch)));
void [doTheWork, runDueJobs, connectionString];
`;

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const files = blocks.map((code, index) => {
  const file = join(folder, `example-${index}.ts`);
  writeFileSync(file, `${prelude(index)}\n${code}\nexport {};\n`);
  return file;
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the examples of the README", () => {
  test("there are some", () => {
    expect(blocks.length).toBeGreaterThan(5);
  });

  test("compile", () => {
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({ extends: "../../../tsconfig.json", compilerOptions: { noUnusedLocals: false, types: ["node"] }, include: ["*.ts"] }),
    );
    const result = spawnSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder], { encoding: "utf8" });
    expect(result.stdout).toBe("");
  });

  test.concurrent.each(files.map((file, index) => [index, file] as const))("number %i runs", async (_index, file) => {
    const { stderr, status } = await run(file);
    expect(stderr).toBe("");
    expect(status).toBe(0);
  });
});

async function run(file: string): Promise<{ stderr: string; status: number | null }> {
  const { spawn } = await import("node:child_process");
  const child = spawn(process.execPath, ["--import", "tsx", file], {
    cwd: root,
    env: { ...process.env, README_STORAGE: inject("azurite").connectionString, NODE_NO_WARNINGS: "1" },
    stdio: ["ignore", "ignore", "pipe"],
    timeout: 60_000,
  });
  let stderr = "";
  child.stderr.on("data", (data: Buffer) => (stderr += data.toString()));
  const status = await new Promise<number | null>((resolve) => child.on("exit", resolve));
  return { stderr, status };
}
