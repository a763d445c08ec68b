import { Command, CommanderError } from "commander";
import { printable } from "../errors.js";
import { addCompletion } from "./commands/completion.js";
import { addDashboard } from "./commands/dashboard.js";
import { addFiles } from "./commands/files.js";
import { addInbox } from "./commands/inbox.js";
import { addLeases } from "./commands/leases.js";
import { addLocks } from "./commands/locks.js";
import { addOutbox } from "./commands/outbox.js";
import { addOverflow } from "./commands/overflow.js";
import { addQueue } from "./commands/queue.js";
import { addSchedule } from "./commands/schedule.js";
import { addVerify } from "./commands/verify.js";
import { exitCodes } from "./exit-codes.js";
import type { ExitCode } from "./exit-codes.js";
import { describeFailure } from "./failure.js";
import { jsonText } from "./terminal.js";
import type { Terminal } from "./terminal.js";

/** Runs one command, and returns the exit code. Never throws. */
export async function run(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  try {
    await programFor(terminal).parseAsync(args, { from: "user" });
    return exitCodes.done;
  } catch (error) {
    // The parser has printed the error itself; a request for help is not an error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
    const { exitCode, message } = describeFailure(error);
    terminal.err(args.includes("--json") ? `${jsonText({ error: message, exitCode })}\n` : `${printable(message)}\n`);
    return exitCode;
  }
}

function programFor(terminal: Terminal): Command {
  const program = new Command("azure-storage-concurrency")
    .description("Inspects and manages locks, leases, queues, inboxes, outboxes, schedules and staging files in a storage account, and verifies it.")
    .option("--account <name>", "the account, with Entra ID (or AZURE_STORAGE_ACCOUNT); needs the package @azure/identity")
    .option("--endpoint-suffix <domain>", "of the account in another cloud (default: core.windows.net)")
    .option("--connection-string <string>", "the account, with a key or a SAS; other users of the machine can see it: prefer AZURE_STORAGE_CONNECTION_STRING")
    .option("--json", "results as JSON")
    .addHelpText("after", exitCodeHelp);
  // Set before the commands are added: they inherit it.
  program.exitOverride().configureOutput({
    writeOut: (text) => terminal.out(text),
    writeErr: (text) => terminal.err(text),
    // It repeats the arguments: a name that was copied from elsewhere must not add a line.
    outputError: (text, write) => write(`${printable(text.trim())}\n`),
  });
  for (const add of [addLocks, addLeases, addQueue, addInbox, addOutbox, addOverflow, addSchedule, addFiles, addVerify, addDashboard, addCompletion]) add(program, terminal);
  return program;
}

const exitCodeHelp = `
Exit codes: 0 success, 1 error, 2 usage error, 3 not found, 4 changed since it was shown, 5 not confirmed.`;
