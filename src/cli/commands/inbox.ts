import type { Command } from "commander";
import { TableInbox } from "../../queue/inbox/table-inbox.js";
import { contextOf } from "../connect.js";
import { printOutcome, wholeNumber } from "../print.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";

interface PurgeOptions {
  olderThanDays: number;
  partition?: string;
  yes?: boolean;
}

/** `inbox purge`: removes records of messages that were processed long ago. */
export function addInbox(program: Command, terminal: Terminal): void {
  program
    .command("inbox")
    .description("the records of messages that were handled")
    .command("purge")
    .description("removes old records; a duplicate that arrives after that takes effect again")
    .argument("<table>", "the table of the inbox")
    .option("--older-than-days <number>", "a message lives 7 days unless its sender says otherwise", wholeNumber(0), 8)
    .option("--partition <key>", "only of this queue's claims, or of this partition's commits")
    .option("-y, --yes", "do not ask")
    .action(async (name: string, options: PurgeOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const inbox = new TableInbox(await context.account.table(name));
      const olderThan = new Date(Date.now() - options.olderThanDays * 86_400_000);
      const where = options.partition === undefined ? "" : ` and partition ${JSON.stringify(options.partition)}`;
      await confirm(terminal, `Inbox records of table ${name}${where} from before ${olderThan.toISOString()} will be removed.`, options.yes ?? false);
      const removed = await inbox.purge({ olderThan, partitionKey: options.partition });
      printOutcome(context, `${removed} records were removed.`, { removed, olderThan });
    });
}
