import type { Command } from "commander";
import type { QueueLike } from "../../clients/queue.js";
import { ClaimInbox } from "../../queue/inbox/claim-inbox.js";
import { CommitInbox } from "../../queue/inbox/commit-inbox.js";
import type { InboxRecordInfo } from "../../queue/inbox/inbox-table.js";
import { contextOf } from "../connect.js";
import type { CommandContext } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, printOutcome, printProperties, wholeNumber } from "../print.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";

interface PurgeOptions {
  olderThanDays: number;
  partition?: string;
  yes?: boolean;
}

interface RecordOptions {
  table: string;
  queue: string;
  partition?: string;
}

/** `inbox show`, `inbox forget`, `inbox purge`: the records of messages. */
export function addInbox(program: Command, terminal: Terminal): void {
  const inbox = program.command("inbox").description("the records of messages that were handled");

  withRecord(inbox.command("show"))
    .description("show what is recorded of a key")
    .action(async (key: string, options: RecordOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const { get } = await openRecord(context, key, options);
      const record = await get();
      if (!record) throw notRecorded(key);
      const { state, updatedOn } = record;
      printProperties(context, { key, state, updatedOn, since: context.json ? undefined : ago(updatedOn) });
    });

  withRecord(inbox.command("forget"))
    .description("delete the record of a key: the next message with it takes effect, again if it did before")
    .option("-y, --yes", "do not ask")
    .action(async (key: string, options: RecordOptions & { yes?: boolean }, command: Command) => {
      const context = contextOf(terminal, command);
      const { get, forget } = await openRecord(context, key, options);
      const record = await get();
      if (!record) throw notRecorded(key);
      await confirm(terminal, `The key ${JSON.stringify(key)} is ${record.state}. The next message with it will take effect.`, options.yes ?? false);
      const forgotten = await forget();
      printOutcome(context, forgotten ? `The record of ${JSON.stringify(key)} was deleted.` : "It was deleted meanwhile.", { key, forgotten });
    });

  inbox
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

function withRecord(command: Command): Command {
  return command
    .argument("<key>", "the idempotency key")
    .requiredOption("-t, --table <name>", "the table of the inbox")
    .requiredOption("-q, --queue <name>", "the queue of the messages")
    .option("--partition <key>", "of a CommitInbox: the partition of the effect (default: the record of a ClaimInbox)");
}

async function openRecord(
  { account }: CommandContext,
  key: string,
  { table, queue, partition }: RecordOptions,
): Promise<{ readonly get: () => Promise<InboxRecordInfo | undefined>; readonly forget: () => Promise<boolean> }> {
  const [tableClient, client] = [await account.table(table), (await account.queue(queue)) as QueueLike];
  if (partition !== undefined) {
    const commits = new CommitInbox(tableClient);
    return { get: () => commits.get(client, key, { partitionKey: partition }), forget: () => commits.forget(client, key, { partitionKey: partition }) };
  }
  const claims = new ClaimInbox(tableClient);
  return { get: () => claims.get(client, key), forget: () => claims.forget(client, key) };
}

function notRecorded(key: string): CommandError {
  return new CommandError(exitCodes.notFound, `Nothing is recorded of the key ${JSON.stringify(key)}.`);
}
