import { startIdleTimer } from "../core/deadline.js";
import { printable } from "../errors.js";
import { CommandError, exitCodes } from "./exit-codes.js";

/** The input and output of a command. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether a user can be asked. */
  readonly interactive: boolean;
  out(text: string): void;
  err(text: string): void;
  /** Removes what was shown before, if the output goes to a terminal. */
  clear(): void;
  /** Asks the user, and returns the line that was typed; empty at the end of the input. */
  ask(question: string): Promise<string>;
  /** Calls the listener when the user or the system ends the command (Ctrl-C, SIGTERM). Returns a function that removes it. */
  onInterrupt(listener: () => void): () => void;
  /** Ends the process soon, even if requests are still in flight. */
  endSoon(): void;
}

/** The terminal of this process. */
export function processTerminal(): Terminal {
  // The reader of a pipe has seen enough (`| head`): that is no failure, and no more is written.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      // Of a command that fails, only the message is lost.
      if (stream === process.stdout) process.exit(exitCodes.done);
    });
  }
  return {
    env: process.env,
    interactive: process.stdin.isTTY && process.stderr.isTTY,
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    // From the top, and without what was scrolled away.
    clear: () => {
      if (process.stdout.isTTY) process.stdout.write("\x1b[H\x1b[2J\x1b[3J");
    },
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
    onInterrupt,
    endSoon: () => void startIdleTimer(1_000, () => process.exit()),
  };
}

/** Once: a second signal ends the process at once, as it does without a listener. */
function onInterrupt(listener: () => void): () => void {
  const signals = ["SIGINT", "SIGTERM"] as const;
  const off = (): void => {
    for (const signal of signals) process.off(signal, onSignal);
  };
  const onSignal = (): void => {
    off();
    listener();
  };
  for (const signal of signals) process.on(signal, onSignal);
  return off;
}

/** JSON escapes only some of the characters that control a terminal. */
export function jsonText(value: unknown): string {
  const escape = (char: string): string => Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
  return JSON.stringify(value, null, 2).replace(/(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/gu, escape);
}

/** Returns only if the user confirms: in advance with `--yes`, or now. A pipe cannot confirm. */
export async function confirm(terminal: Terminal, what: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!terminal.interactive) {
    throw new CommandError(exitCodes.notConfirmed, `${printable(what)} There is no terminal to confirm it: pass --yes.`);
  }
  const reply = await terminal.ask(`${printable(what)} Go on? [y/N] `);
  if (!/^\s*y(es)?\s*$/i.test(reply)) throw new CommandError(exitCodes.notConfirmed, "Nothing was done.");
}
