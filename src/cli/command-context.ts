import type { Command } from "commander";

import { Account } from "./connect.js";
import type { Printing } from "./print.js";
import type { Terminal } from "./terminal.js";

/** Options that every command has. */
export interface GlobalOptions {
  connectionString?: string;
  json?: boolean;
}

/** What a command works with. */
export interface CommandContext extends Printing {
  readonly account: Account;
}

/** Options are those of the command and of all above it: `--json` may stand anywhere. */
export function contextOf(terminal: Terminal, command: Command): CommandContext {
  const { connectionString, json } = command.optsWithGlobals<GlobalOptions>();
  return { terminal, json: json ?? false, account: new Account(connectionString, terminal) };
}
