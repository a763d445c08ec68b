import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { describe, expect, it } from "vitest";

import { run } from "../../src/cli/run.js";
import { FakeTerminal } from "./fake-terminal.js";

async function scriptFor(shell: string): Promise<string> {
  const terminal = new FakeTerminal();
  expect(await run(["completion", shell], terminal)).toBe(0);
  return terminal.stdout;
}

/** What bash offers after these words; the last one is begun. */
async function offered(...words: string[]): Promise<string[]> {
  const array = ["asc", ...words].map((word) => `'${word}'`).join(" ");
  const program = `${await scriptFor("bash")}\nCOMP_WORDS=(${array}); COMP_CWORD=${words.length}; _asc; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)("bash", ["-c", program]);
  return stdout.split("\n").filter((word) => word !== "");
}

describe("shell completion", () => {
  it("offers commands, then their commands, then options, in bash", async () => {
    expect(await offered("lo")).toEqual(["locks"]);
    expect(await offered("locks", "")).toEqual(expect.arrayContaining(["list", "show", "break", "purge", "--json"]));
    expect(await offered("locks", "break", "nightly", "--ep")).toEqual(["--epoch"]);
    expect(await offered("completion", "f")).toEqual(["fish"]);
  });

  it("passes over global options and values before the command", async () => {
    expect(await offered("--json", "--account", "contoso", "queue", "red")).toEqual(["redrive"]);
  });

  it("names every command in every shell", async () => {
    for (const shell of ["bash", "zsh", "fish"]) {
      const script = await scriptFor(shell);
      for (const path of ["locks purge", "inbox forget", "outbox flush", "schedule trigger", "queue stats", "leases list", "verify"]) expect(script).toContain(path);
      expect(script).toContain("azure-storage-concurrency");
    }
  });

  it("knows only three shells", async () => {
    expect(await run(["completion", "tcsh"], new FakeTerminal())).toBe(2);
  });
});
