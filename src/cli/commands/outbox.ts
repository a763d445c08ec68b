import type { Command } from "commander";
import { Outbox } from "../../outbox/outbox.js";
import type { OutboxMessage } from "../../outbox/outbox-options.js";
import { queueIdentityOf } from "../../queue/inbox/record.js";
import { contextOf } from "../connect.js";
import type { CommandContext } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, counted, oneLine, printOutcome, printRows, wholeNumber } from "../print.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";
import { runWatched, watchable } from "../watch.js";
import type { WatchOptions } from "../watch.js";

/** `outbox list`, `outbox flush`: messages that were committed and not sent yet. */
export function addOutbox(program: Command, terminal: Terminal): void {
  const outbox = program.command("outbox").description("messages that were committed with entities, and not sent yet");

  watchable(outbox.command("list"))
    .description("list the messages that are not sent yet")
    .argument("<table>", "the table of the outbox")
    .action((table: string, options: WatchOptions, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        printRows(context, await messagesIn(context, table), {
          queue: ({ queue }) => queue,
          key: ({ idempotencyKey }) => oneLine(idempotencyKey, 60),
          added: ({ addedOn }) => ago(addedOn),
        }, "All messages are sent.");
      }));

  outbox
    .command("flush")
    .description("send what ended processes left: messages that are older than their own processes need to send them")
    .argument("<table>", "the table of the outbox")
    .option("--older-than-seconds <number>", "a message that its process sends as well is sent twice, with the same key", wholeNumber(1, 3_600), 30)
    .option("-y, --yes", "do not ask for confirmation")
    .action(async (table: string, { olderThanSeconds, yes = false }: { olderThanSeconds: number; yes?: boolean }, command: Command) => {
      const context = contextOf(terminal, command);
      const messages = await messagesIn(context, table);
      if (messages.length === 0) {
        printOutcome(context, "All messages are sent.", { sent: 0, failed: 0 });
        return;
      }
      // A queue of another account needs credentials that this command does not have.
      const identities = [...new Set(messages.map(({ queue }) => queue))];
      // A row may name anything: what is no queue must not keep the messages of the others.
      const names = identities.map((identity) => identity.slice(identity.indexOf(":") + 1)).filter((name) => queueName.test(name));
      const clients = await Promise.all(names.map((name) => context.account.queue(name)));
      const queues = clients.filter(({ url }) => identities.includes(queueIdentityOf(url)));
      if (queues.length === 0) throw new CommandError(exitCodes.failed, `The queues are in another account: ${identities.join(", ")}.`);
      await confirm(terminal, `${counted(messages.length, "message", "is", "are")} not sent yet. What is older than ${counted(olderThanSeconds, "second")} will be sent to ${queues.map(({ name }) => name).join(", ")}.`, yes);
      let lastError: unknown;
      const sender = new Outbox(await context.account.table(table), { queues, relayAfterInMs: olderThanSeconds * 1_000 });
      sender.on("error", (error) => (lastError = error));
      const result = await sender.flush();
      await sender.stop();
      if (result.failed > 0) throw new CommandError(exitCodes.failed, `${counted(result.sent, "message", "was", "were")} sent, ${result.failed} could not be sent: ${(lastError as Error | undefined)?.message ?? "unknown error"}`);
      printOutcome(context, `${counted(result.sent, "message", "was", "were")} sent.`, result);
    });
}

/** As the service accepts it. */
const queueName = /^(?=.{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*$/;

async function messagesIn({ account }: CommandContext, table: string): Promise<OutboxMessage[]> {
  const messages: OutboxMessage[] = [];
  for await (const message of new Outbox(await account.table(table), { queues: [] }).list()) messages.push(message);
  return messages;
}
