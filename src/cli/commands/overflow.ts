import type { Command } from "commander";
import { purgeOverflow } from "../../queue/overflow/purge-overflow.js";
import { contextOf } from "../connect.js";
import { wholeNumber } from "../print.js";
import { purgeShown } from "../purge.js";
import type { Terminal } from "../terminal.js";

interface PurgeOptions {
  olderThanDays: number;
  yes?: boolean;
}

/** `overflow purge`: deletes the payloads of large messages that do not exist any more. */
export function addOverflow(program: Command, terminal: Terminal): void {
  program
    .command("overflow")
    .description("payloads of messages that are too large for a queue")
    .command("purge")
    .description("delete old payloads; a message that still refers to one of them becomes poison")
    .argument("<container>", "the container of the payloads")
    .option("--older-than-days <number>", "longer than any message exists, in the poison queue, too", wholeNumber(0), 30)
    .option("-y, --yes", "do not ask for confirmation")
    .action(async (name: string, { olderThanDays, yes }: PurgeOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const container = await context.account.container(name);
      const question = `Payloads of messages in container ${name} that were sent before`;
      await purgeShown(context, { noun: "payload", question, olderThanInMs: olderThanDays * 86_400_000, yes }, (olderThanInMs) => purgeOverflow(container, { olderThanInMs }));
    });
}
