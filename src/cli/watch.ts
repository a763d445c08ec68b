import type { Command } from "commander";
import { delay } from "../core/deadline.js";
import { printable } from "../errors.js";
import { contextOf } from "./connect.js";
import type { CommandContext } from "./connect.js";
import { describeFailure } from "./failure.js";
import { wholeNumber } from "./print.js";
import type { Terminal } from "./terminal.js";

/** The option of {@link runWatched}. */
export interface WatchOptions {
  readonly watch?: number | true;
}

const defaultIntervalInSeconds = 2;

/** Adds `--watch` to a command that shows something. */
export function watchable(command: Command): Command {
  return command.option("-w, --watch [seconds]", `show it again every so many seconds (default: ${defaultIntervalInSeconds}), until Ctrl-C`, wholeNumber(1, 3_600));
}

/** Shows something once, or again and again until the user has seen enough. */
export async function runWatched(terminal: Terminal, command: Command, { watch }: WatchOptions, show: (context: CommandContext) => Promise<void>): Promise<void> {
  const context = contextOf(terminal, command);
  if (watch === undefined) return show(context);
  const ended = new AbortController();
  const offInterrupt = terminal.onInterrupt(() => {
    ended.abort();
    // A request in flight would keep the process from ending.
    terminal.endSoon();
  });
  const intervalInMs = (watch === true ? defaultIntervalInSeconds : watch) * 1_000;
  try {
    // What is wrong with the command line, or with the account, is wrong each time.
    await showPage(context, show);
    while (await isDue(intervalInMs, ended.signal)) {
      await showPage(context, show).catch((error: unknown) => terminal.err(`${printable(describeFailure(error).message)}\n`));
    }
  } finally {
    offInterrupt();
  }
}

/** Waits for the next look. False: the user has ended the command. */
function isDue(intervalInMs: number, ended: AbortSignal): Promise<boolean> {
  return delay(intervalInMs, ended).then(() => true, () => false);
}

/** The page replaces the one before when all of it is there: otherwise the terminal is empty while requests are sent. */
async function showPage(context: CommandContext, show: (context: CommandContext) => Promise<void>): Promise<void> {
  let page = "";
  const terminal: Terminal = Object.create(context.terminal, { out: { value: (text: string) => void (page += text) } }) as Terminal;
  await show({ ...context, terminal });
  if (!context.json) context.terminal.clear();
  context.terminal.out(page);
}
