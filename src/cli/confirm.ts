import { CommandError, exitCodes } from "./exit-codes.js";
import type { Terminal } from "./terminal.js";

/** Goes on only if somebody said yes: in advance with `--yes`, or now. A pipe is nobody. */
export async function confirm(terminal: Terminal, what: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!terminal.interactive) {
    throw new CommandError(exitCodes.notConfirmed, `${what} Nobody is here to confirm it: pass --yes.`);
  }
  const answer = await terminal.ask(`${what} Go on? [y/N] `);
  if (!/^\s*y(es)?\s*$/i.test(answer)) throw new CommandError(exitCodes.notConfirmed, "Nothing was done.");
}
