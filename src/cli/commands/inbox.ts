import type { Command } from "commander";
import type { QueueLike } from "../../clients/queue.js";
import { ClaimInbox } from "../../queue/inbox/claim-inbox.js";
import { CommitInbox } from "../../queue/inbox/commit-inbox.js";
import { recordedShards } from "../../queue/inbox/inbox-table.js";
import type { InboxRecordInfo } from "../../queue/inbox/inbox-table.js";
import { contextOf } from "../connect.js";
import type { CommandContext } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, printOutcome, printProperties, wholeNumber } from "../print.js";
import { purgeShown } from "../purge.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";

interface PurgeOptions {
  olderThanDays: number;
  groupsOlderThanDays?: number;
  partition?: string;
  yes?: boolean;
}

interface GroupOptions {
  table: string;
  queue: string;
}

interface RecordOptions extends GroupOptions {
  partition?: string;
}

/** `inbox show`, `inbox forget`, `inbox group`, `inbox skip`, `inbox purge`: the records of messages. */
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
      const now = await get();
      if (now?.updatedOn.getTime() !== record.updatedOn.getTime()) throw new CommandError(exitCodes.changed, `The record of ${JSON.stringify(key)} has changed since it was shown. Nothing was done.`);
      const forgotten = await forget();
      printOutcome(context, forgotten ? `The record of ${JSON.stringify(key)} was deleted.` : "It was deleted meanwhile.", { key, forgotten });
    });

  withTable(inbox.command("group").argument("<group>", "the group"))
    .description("show the last sequence of a group, and the message that has it")
    .action(async (group: string, options: GroupOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const { claims, queue } = await openClaims(context, options);
      const found = await claims.getGroup(queue, group);
      if (!found) throw new CommandError(exitCodes.notFound, `Nothing is recorded of the group ${JSON.stringify(group)}.`);
      const { lastSequence, holder, updatedOn } = found;
      printProperties(context, { group, lastSequence, messageId: holder?.messageId, expiresOn: holder?.expiresOn, updatedOn });
    });

  withTable(inbox.command("skip").argument("<group>", "the group").argument("<sequence>", "the last sequence to skip", wholeNumber(1)))
    .description("set the last sequence of a group: the message after it may start, and those up to it never will")
    .option("-y, --yes", "do not ask")
    .action(async (group: string, sequence: number, options: GroupOptions & { yes?: boolean }, command: Command) => {
      const context = contextOf(terminal, command);
      const { claims, queue } = await openClaims(context, options);
      const last = (await claims.getGroup(queue, group))?.lastSequence ?? 0;
      await confirm(terminal, `The last sequence of the group ${JSON.stringify(group)} is ${last}. Messages up to ${sequence} will not be handled.`, options.yes ?? false);
      const skipped = await claims.skip(queue, group, sequence);
      printOutcome(context, skipped ? `The last sequence of ${JSON.stringify(group)} is ${sequence} now.` : "It is not lower already.", { group, sequence, skipped });
    });

  inbox
    .command("purge")
    .description("deletes old records; a duplicate that arrives after that takes effect again")
    .argument("<table>", "the table of the inbox")
    .option("--older-than-days <number>", "a message lives 7 days unless its sender says otherwise", wholeNumber(0), 8)
    .option("--partition <key>", "only of this queue's claims (account:queue), or of this partition's commits")
    .option("--groups-older-than-days <number>", "also groups with a sequence in which nothing has happened for so long: they begin with 1 again (default: none)", wholeNumber(0))
    .option("-y, --yes", "do not ask")
    .action(async (name: string, options: PurgeOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const inbox = new ClaimInbox(await context.account.table(name));
      const where = options.partition === undefined ? "" : ` and partition ${JSON.stringify(options.partition)}`;
      const groupsOlderThanInMs = options.groupsOlderThanDays === undefined ? undefined : options.groupsOlderThanDays * 86_400_000;
      const more = groupsOlderThanInMs === undefined ? "" : ` Sequences of groups from before ${new Date(Date.now() - groupsOlderThanInMs).toISOString()} will begin with 1 again.`;
      const question = `Inbox records of table ${name}${where} from before`;
      await purgeShown(context, { noun: "record", question, more, olderThanInMs: options.olderThanDays * 86_400_000, yes: options.yes }, (olderThanInMs, askedInMs) =>
        inbox.purge({ olderThanInMs, partitionKey: options.partition, groupsOlderThanInMs: groupsOlderThanInMs && groupsOlderThanInMs + askedInMs }));
    });
}

function withRecord(command: Command): Command {
  return withTable(command.argument("<key>", "the idempotency key"))
    .option("--partition <key>", "of a CommitInbox: the partition of the effect (default: the record of a ClaimInbox)");
}

function withTable(command: Command): Command {
  return command
    .requiredOption("-t, --table <name>", "the table of the inbox")
    .requiredOption("-q, --queue <name>", "the queue of the messages");
}

/** With the number of shards that the consumers of the table have recorded. */
async function openClaims({ account }: CommandContext, options: GroupOptions): Promise<{ readonly claims: ClaimInbox; readonly queue: QueueLike }> {
  const table = await account.table(options.table);
  const shards = await recordedShards(table, {});
  return { claims: new ClaimInbox(table, { shards }), queue: await account.queue(options.queue) };
}

async function openRecord(
  context: CommandContext,
  key: string,
  options: RecordOptions,
): Promise<{ readonly get: () => Promise<InboxRecordInfo | undefined>; readonly forget: () => Promise<boolean> }> {
  const { claims, queue: client } = await openClaims(context, options);
  const { partition } = options;
  if (partition !== undefined) {
    const commits = new CommitInbox(await context.account.table(options.table));
    return { get: () => commits.get(client, key, { partitionKey: partition }), forget: () => commits.forget(client, key, { partitionKey: partition }) };
  }
  return { get: () => claims.get(client, key), forget: () => claims.forget(client, key) };
}

function notRecorded(key: string): CommandError {
  return new CommandError(exitCodes.notFound, `Nothing is recorded of the key ${JSON.stringify(key)}.`);
}
