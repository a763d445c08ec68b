import type { Command } from "commander";
import { ClaimInbox } from "../../queue/inbox/claim-inbox.js";
import { contextOf } from "../connect.js";
import { printOutcome, wholeNumber } from "../print.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";

interface PurgeOptions {
  olderThanDays: number;
  partition?: string;
  yes?: boolean;
}

/** `inbox purge`: deletes records of messages that were processed long ago. */
export function addInbox(program: Command, terminal: Terminal): void {
  program
    .command("inbox")
    .description("the records of messages that were handled")
    .command("purge")
    .description("deletes old records; a duplicate that arrives after that takes effect again")
    .argument("<table>", "the table of the inbox")
    .option("--older-than-days <number>", "a message lives 7 days unless its sender says otherwise", wholeNumber(0), 8)
    .option("--partition <key>", "only of this queue's claims (account:queue), or of this partition's commits")
    .option("-y, --yes", "do not ask")
    .action(async (name: string, options: PurgeOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const inbox = new ClaimInbox(await context.account.table(name));
      const olderThanInMs = options.olderThanDays * 86_400_000;
      const olderThan = new Date(Date.now() - olderThanInMs);
      const where = options.partition === undefined ? "" : ` and partition ${JSON.stringify(options.partition)}`;
      await confirm(terminal, `Inbox records of table ${name}${where} from before ${olderThan.toISOString()} will be deleted.`, options.yes ?? false);
      const { deleted, kept } = await inbox.purge({ olderThanInMs, partitionKey: options.partition });
      printOutcome(context, `${deleted} records were deleted, ${kept} are in use.`, { deleted, kept, olderThan });
    });
}
