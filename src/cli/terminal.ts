import { CommandError, exitCodes } from "./exit-codes.js";

/** The input and output of a command. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether a user can be asked. */
  readonly interactive: boolean;
  out(text: string): void;
  err(text: string): void;
  /** Asks the user, and returns the line that was typed; empty at the end of the input. */
  ask(question: string): Promise<string>;
}

/** The terminal of this process. */
export function processTerminal(): Terminal {
  return {
    env: process.env,
    interactive: process.stdin.isTTY && process.stderr.isTTY,
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    ask: async (question) => {
      // To stderr, as stdout may be redirected to a file.
      process.stderr.write(question);
      process.stdin.setEncoding("utf8");
      let line = "";
      for await (const chunk of process.stdin as AsyncIterable<string>) {
        line += chunk;
        if (line.includes("\n")) break;
      }
      return line.split("\n", 1)[0] ?? "";
    },
  };
}

/** Returns only if the user confirms: in advance with `--yes`, or now. A pipe cannot confirm. */
export async function confirm(terminal: Terminal, what: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!terminal.interactive) {
    throw new CommandError(exitCodes.notConfirmed, `${what} There is no terminal to confirm it: pass --yes.`);
  }
  const reply = await terminal.ask(`${what} Go on? [y/N] `);
  if (!/^\s*y(es)?\s*$/i.test(reply)) throw new CommandError(exitCodes.notConfirmed, "Nothing was done.");
}
