import { Command } from "commander";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { CommandError, exitCodes } from "../../src/cli/exit-codes.js";
import { runWatched, watchable } from "../../src/cli/watch.js";
import type { CommandContext } from "../../src/cli/connect.js";
import type { Terminal } from "../../src/cli/terminal.js";
import { FakeTerminal } from "./fake-terminal.js";

const env = { AZURE_STORAGE_CONNECTION_STRING: "UseDevelopmentStorage=true" };
let terminal: FakeTerminal;

beforeEach(() => {
  vi.useFakeTimers();
  terminal = new FakeTerminal({ env });
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function start(args: string[], show: (context: CommandContext) => Promise<void>): Promise<unknown> {
  const command = watchable(new Command("list").option("--json")).exitOverride().configureOutput({ writeErr: () => undefined });
  command.action((options: object, self: Command) => runWatched(terminal, self, options, show));
  return command.parseAsync(args, { from: "user" });
}

function print(terminal: Terminal, text: string): Promise<void> {
  terminal.out(text);
  return Promise.resolve();
}

describe("--watch", () => {
  it("is needed to show something more than once", async () => {
    let looks = 0;
    await start([], ({ terminal: to }) => print(to, `look ${++looks}\n`));
    expect(terminal.stdout).toBe("look 1\n");
    expect(terminal.cleared).toBe(0);
  });

  it("shows it every two seconds, or as often as asked, until Ctrl-C, and ends with success", async () => {
    for (const [args, intervalInMs] of [[["--watch"], 2_000], [["--watch", "7"], 7_000]] as const) {
      terminal = new FakeTerminal({ env });
      let looks = 0;
      const ended = start([...args], ({ terminal: to }) => print(to, `look ${++looks}\n`));
      await vi.advanceTimersByTimeAsync(intervalInMs * 2 + 10);
      expect(terminal.stdout).toBe("look 1\nlook 2\nlook 3\n");
      expect(terminal.cleared).toBe(3);
      terminal.interrupt();
      await ended;
      expect(terminal.endsSoon).toBe(true);
      expect(looks).toBe(3);
    }
  });

  it("does not clear what a program reads", async () => {
    const ended = start(["--json", "--watch"], ({ terminal: to }) => print(to, "[]\n"));
    await vi.advanceTimersByTimeAsync(2_010);
    terminal.interrupt();
    await ended;
    expect(terminal.stdout).toBe("[]\n[]\n");
    expect(terminal.cleared).toBe(0);
  });

  it("replaces a page when the next one is there, and keeps it if the next one fails", async () => {
    let looks = 0;
    const ended = start(["--watch"], async ({ terminal: to }) => {
      to.out("begun ");
      await Promise.resolve();
      if (++looks === 2) throw new Error("no connection");
      to.out("done\n");
    });
    await vi.advanceTimersByTimeAsync(2_010);
    expect(terminal.stdout).toBe("begun done\n");
    expect(terminal.stderr).toBe("no connection\n");
    expect(terminal.cleared).toBe(1);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(terminal.stdout).toBe("begun done\nbegun done\n");
    terminal.interrupt();
    await ended;
  });

  it("ends if the first look fails", async () => {
    await expect(start(["--watch"], () => Promise.reject(new CommandError(exitCodes.notFound, "no such container")))).rejects.toThrow("no such container");
  });

  it.each(["0", "x", "3601"])("does not accept an interval of %s", async (interval) => {
    await expect(start(["--watch", interval], () => Promise.resolve())).rejects.toThrow();
  });
});
