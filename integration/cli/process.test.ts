import { execFile, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { describe, expect, it } from "vitest";

import { BlobLocks } from "../../src/index.js";
import { azurite, freshContainer } from "../support/clients.js";

const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const env = { ...process.env, AZURE_STORAGE_CONNECTION_STRING: azurite().connectionString };
const command = [process.execPath, "--import", "tsx", main] as const;

describe("the command line as a process", () => {
  it("prints to stdout, reports by its exit code, and ends by itself", async () => {
    const container = await freshContainer();
    await new BlobLocks(container).withLock("job", async () => {
      const [file, ...args] = command;
      const { stdout, stderr } = await promisify(execFile)(file, [...args, "locks", "list", "-c", container.containerName], { env });
      expect(stdout).toMatch(/^job +leased +\d+ /m);
      expect(stderr).toBe("");
      const refused = promisify(execFile)(file, [...args, "locks", "break", "job", "-c", container.containerName], { env });
      await expect(refused).rejects.toMatchObject({ code: 5, stdout: "" });
    });
  });

  it("asks a person at a terminal, and does what the answer says", async () => {
    const container = await freshContainer();
    await new BlobLocks(container, { holder: "orders-7" }).acquire("job");
    const saidNo = await atTerminal(["locks", "break", "job", "-c", container.containerName], "n\n");
    expect(saidNo).toMatchObject({ exitCode: 5 });
    const saidYes = await atTerminal(["locks", "break", "job", "-c", container.containerName], "y\n");
    expect(saidYes.shown).toContain("is held by orders-7");
    expect(saidYes.shown).toContain("of orders-7 was broken");
    expect(saidYes).toMatchObject({ exitCode: 0 });
  });
});

/** Runs it on a pseudo-terminal, and types once the question is there. */
async function atTerminal(args: readonly string[], typed: string): Promise<{ shown: string; exitCode: number | null }> {
  const line = [...command, ...args].map((part) => `'${part.replaceAll("'", `'\\''`)}'`).join(" ");
  const child = spawn("script", ["--quiet", "--return", "--command", line, "/dev/null"], { env, stdio: ["pipe", "pipe", "inherit"] });
  let shown = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const asked = shown.includes("[y/N]");
    shown += text;
    if (!asked && shown.includes("[y/N]")) child.stdin.write(typed);
  });
  const exitCode = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { shown, exitCode };
}
