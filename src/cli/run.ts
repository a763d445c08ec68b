import { Command, CommanderError } from "commander";
import { codeOf, isNotFound, isParentNotFound, statusOf } from "../core/storage-errors.js";
import { isConcurrencyError } from "../errors.js";
import { addFiles } from "./commands/files.js";
import { addInbox } from "./commands/inbox.js";
import { addLeases } from "./commands/leases.js";
import { addLocks } from "./commands/locks.js";
import { addQueue } from "./commands/queue.js";
import { CommandError, exitCodes } from "./exit-codes.js";
import type { ExitCode } from "./exit-codes.js";
import type { Terminal } from "./terminal.js";

/** Runs one command, and returns the exit code. Never throws. */
export async function run(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  try {
    await programFor(terminal).parseAsync(args, { from: "user" });
    return exitCodes.done;
  } catch (error) {
    // The parser has printed the error itself; a request for help is not an error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
    const { exitCode, message } = failureOf(error);
    terminal.err(args.includes("--json") ? `${JSON.stringify({ error: message, exitCode })}\n` : `${message}\n`);
    return exitCode;
  }
}

function programFor(terminal: Terminal): Command {
  const program = new Command("azure-storage-concurrency")
    .description("Looks after locks, leases, queues, inboxes and staging files in a storage account.")
    .option("--connection-string <string>", "the account (default: AZURE_STORAGE_CONNECTION_STRING)")
    .option("--json", "results as JSON")
    .addHelpText("after", exitCodeHelp);
  // Set before the commands are added: they inherit it.
  program.exitOverride().configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.err(text) });
  for (const add of [addLocks, addLeases, addQueue, addInbox, addFiles]) add(program, terminal);
  return program;
}

const exitCodeHelp = `
Exit codes: 0 done, 1 failed, 2 not understood, 3 not there, 4 changed hands meanwhile, 5 not confirmed.`;

function failureOf(error: unknown): { exitCode: ExitCode; message: string } {
  if (error instanceof CommandError) return { exitCode: error.exitCode, message: error.message };
  const cause = isConcurrencyError(error) ? (error.cause ?? error) : error;
  if (statusOf(cause) === undefined) {
    const message = error instanceof Error ? error.message : String(error);
    return { exitCode: error instanceof RangeError || error instanceof TypeError ? exitCodes.usage : exitCodes.failed, message };
  }
  // Only the first line of the service's message: ids and times follow on further lines.
  const firstLine = (error as Error).message.split("\n", 1)[0] ?? "";
  const code = codeOf(cause) ?? statusOf(cause);
  return { exitCode: isNotFound(cause) || isParentNotFound(cause) ? exitCodes.notFound : exitCodes.failed, message: `${code}: ${firstLine}` };
}
