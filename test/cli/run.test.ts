import { describe, expect, it } from "vitest";

import { run } from "../../src/cli/run.js";
import { FakeTerminal } from "./fake-terminal.js";

describe("the command line", () => {
  it("shows its help when asked, and that is no failure", async () => {
    const terminal = new FakeTerminal();
    expect(await run(["--help"], terminal)).toBe(0);
    for (const command of ["locks", "leases", "queue", "inbox", "files", "verify"]) expect(terminal.stdout).toContain(command);
    expect(terminal.stdout).toContain("Exit codes: 0 success");
  });

  it.each([
    ["no command", []],
    ["an unknown command", ["lock"]],
    ["an unknown option", ["locks", "list", "--container", "c", "--hold"]],
    ["a missing container", ["locks", "list"]],
    ["a missing name", ["locks", "show", "--container", "c"]],
    ["an epoch that is no number", ["locks", "break", "a", "-c", "c", "--epoch", "x"]],
    ["a period that is too long", ["locks", "break", "a", "-c", "c", "--period", "61"]],
    ["a count that is too large", ["queue", "peek", "q", "--count", "33"]],
    ["an encoding that is none", ["queue", "peek", "q", "--encoding", "utf-7"]],
    ["an age that is negative", ["inbox", "purge", "t", "--older-than-days", "-1"]],
    ["an age that is too small", ["files", "purge", "s", "--older-than-hours", "0"]],
    ["a service that is none", ["verify", "--service", "cosmos"]],
    ["a time that is too long", ["verify", "--timeout", "3601"]],
    ["an empty number", ["queue", "redrive", "q", "--max", ""]],
  ])("does not understand %s: exit code 2, and a message on stderr", async (_, args) => {
    const terminal = new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: "UseDevelopmentStorage=true" } });
    expect(await run(args, terminal)).toBe(2);
    expect(terminal.stderr).not.toBe("");
    expect(terminal.stdout).toBe("");
  });

  it.each([
    [["leases", "show"]],
    [["leases", "show", "--blob", "b"]],
    [["leases", "show", "--container", "c", "--share", "s"]],
    [["leases", "show", "--container", "c", "--file", "f"]],
  ])("wants to know what to look at: %j", async (args) => {
    const terminal = new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: "UseDevelopmentStorage=true" } });
    expect(await run(args, terminal)).toBe(2);
    expect(terminal.stderr).toContain("Pass --container");
  });

  it("says how to name the account if nobody did", async () => {
    const terminal = new FakeTerminal();
    expect(await run(["locks", "list", "-c", "c"], terminal)).toBe(2);
    expect(terminal.stderr).toContain("AZURE_STORAGE_CONNECTION_STRING");
  });

  it("does not repeat a connection string that is not valid", async () => {
    const terminal = new FakeTerminal();
    expect(await run(["locks", "list", "-c", "c", "--connection-string", "AccountKey=verysecret"], terminal)).toBe(2);
    expect(terminal.stderr).toBe("the connection string is not valid\n");
  });

  it("reports failures as JSON too", async () => {
    const terminal = new FakeTerminal();
    expect(await run(["locks", "list", "-c", "c", "--json"], terminal)).toBe(2);
    expect(JSON.parse(terminal.stderr)).toEqual({ error: expect.stringContaining("no storage account") as string, exitCode: 2 });
  });
});
