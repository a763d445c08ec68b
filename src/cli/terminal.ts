import { CommandError, exitCodes } from "./exit-codes.js";

/** Where a command reads from and writes to. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether a person sits there who can be asked. */
  readonly interactive: boolean;
  out(text: string): void;
  err(text: string): void;
  /** Asks, and returns the line that was typed; empty at the end of the input. */
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
      // To stderr: what goes to stdout may be on its way into a file.
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

/** Goes on only if somebody said yes: in advance with `--yes`, or now. A pipe is nobody. */
export async function confirm(terminal: Terminal, what: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!terminal.interactive) {
    throw new CommandError(exitCodes.notConfirmed, `${what} Nobody is here to confirm it: pass --yes.`);
  }
  const answer = await terminal.ask(`${what} Go on? [y/N] `);
  if (!/^\s*y(es)?\s*$/i.test(answer)) throw new CommandError(exitCodes.notConfirmed, "Nothing was done.");
}
