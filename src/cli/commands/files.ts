import type { Command } from "commander";
import { purgeStagingFiles } from "../../update/purge-staging-files.js";
import { contextOf } from "../connect.js";
import { wholeNumber } from "../print.js";
import { purgeShown } from "../purge.js";
import type { Terminal } from "../terminal.js";

interface PurgeOptions {
  directory?: string;
  recursive?: boolean;
  olderThanHours: number;
  yes?: boolean;
}

/** `files purge`: deletes staging files of writers that crashed. */
export function addFiles(program: Command, terminal: Terminal): void {
  program
    .command("files")
    .description("files that updates of files left behind")
    .command("purge")
    .description("delete old staging files that no update uses")
    .argument("<share>", "name of the share")
    .option("-d, --directory <path>", "a directory of the share (default: its root)")
    .option("-r, --recursive", "subdirectories, too")
    .option("--older-than-hours <number>", "minimum time since the last write", wholeNumber(1), 1)
    .option("-y, --yes", "do not ask for confirmation")
    .action(async (name: string, { directory = "", recursive = false, olderThanHours, yes }: PurgeOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const share = await context.account.share(name);
      const where = `${name}/${directory}${recursive ? " and its subdirectories" : ""}`;
      const directoryClient = directory === "" ? share : share.getDirectoryClient(directory);
      const question = `Staging files in ${where} that were last written before`;
      await purgeShown(context, { noun: "staging file", question, olderThanInMs: olderThanHours * 3_600_000, yes }, (olderThanInMs) => purgeStagingFiles(directoryClient, { recursive, olderThanInMs }));
    });
}
