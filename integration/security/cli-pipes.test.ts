import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect, it } from "vitest";

const urlOf = (file: string): string => new URL(`../../src/cli/${file}`, import.meta.url).href;

/** A command whose output is read by a program that ends early. Prints the exit code of the command. */
async function piped(code: string, reader: string): Promise<string> {
  const script = `import { processTerminal } from "${urlOf("terminal.ts")}"; import { printRows } from "${urlOf("print.ts")}"; const terminal = processTerminal(); ${code}`;
  const line = `'${process.execPath}' --import tsx --input-type=module -e "$SCRIPT" ${reader}; echo "exit code \${PIPESTATUS[0]}"`;
  const { stdout } = await promisify(execFile)("bash", ["-c", line], { env: { ...process.env, SCRIPT: script }, cwd: fileURLToPath(new URL("../..", import.meta.url)) });
  return stdout;
}

const rows = `printRows({ terminal, json: false }, Array.from({ length: 150_000 }, (_, i) => ({ name: "lock-" + i })), { name: (row) => row.name }, "none");`;

it("a reader that has seen enough of 150,000 rows is no failure", async () => {
  expect(await piped(rows, "| head -n 2")).toBe("NAME\nlock-0\nexit code 0\n");
});

it("a reader of errors that ends early does not change the exit code of a command that fails", async () => {
  const errors = `for (let i = 0; i < 20_000; i++) terminal.err("x".repeat(100) + "\\n"); await new Promise((resolve) => setTimeout(resolve, 500)); process.exitCode = 4;`;
  expect(await piped(errors, "2>&1 >/dev/null | head -n 1")).toMatch(/^x{100}\nexit code 4\n$/);
});
