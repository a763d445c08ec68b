import type { PeekedMessageItem } from "@azure/storage-queue";
import { Option } from "commander";
import type { Command } from "commander";
import { openEnvelope, poisonDetailsOf } from "../../queue/envelope.js";
import type { Envelope, PoisonDetails, QueueEncoding } from "../../queue/envelope.js";
import { redrive } from "../../queue/redrive.js";
import { contextOf } from "../connect.js";
import { ago, oneLine, printOutcome, printRows, wholeNumber } from "../print.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";

/** `queue peek`, `queue poison`, `queue redrive`. */
export function addQueue(program: Command, terminal: Terminal): void {
  const queue = program.command("queue").description("messages that wait, and messages in the poison queue");

  withCount(queue.command("peek"))
    .description("the next messages, without taking them")
    .argument("<queue>", "its name")
    .addOption(new Option("--encoding <encoding>", "how texts stand in it").choices(["text", "base64"]).default("text"))
    .action(async (name: string, options: { count: number; encoding: QueueEncoding }, command: Command) => {
      const context = contextOf(terminal, command);
      const client = await context.account.queue(name);
      const { peekedMessageItems } = await client.peekMessages({ numberOfMessages: options.count });
      printRows(context, peekedMessageItems.map((message) => peekedMessage(message, options.encoding)), peekColumns, "Nothing is visible in the queue.");
    });

  withPoison(withCount(queue.command("poison")))
    .description("messages in the poison queue, and why they are there")
    .argument("<queue>", "the queue that they came from")
    .action(async (name: string, options: { count: number; poisonQueue?: string }, command: Command) => {
      const context = contextOf(terminal, command);
      const client = await context.account.queue(options.poisonQueue ?? `${name}-poison`);
      const { peekedMessageItems } = await client.peekMessages({ numberOfMessages: options.count });
      // Messages in a poison queue are plain text, whatever the encoding of their queue.
      printRows(context, peekedMessageItems.map((message) => peekedMessage(message, "text")), poisonColumns, "The poison queue is empty.");
    });

  withPoison(queue.command("redrive"))
    .description("moves messages from the poison queue back to their queue")
    .argument("<queue>", "the queue that they are moved to")
    .option("--max <number>", "the maximum number (default: all)", wholeNumber(1))
    .option("-y, --yes", "do not ask")
    .action(async (name: string, options: { poisonQueue?: string; max?: number; yes?: boolean }, command: Command) => {
      const context = contextOf(terminal, command);
      const from = await context.account.queue(options.poisonQueue ?? `${name}-poison`);
      const to = await context.account.queue(name);
      const { approximateMessagesCount = 0 } = await from.getProperties();
      await to.getProperties(); // Detects a missing queue before anything is moved.
      const howMany = options.max === undefined ? "all" : `at most ${options.max}`;
      await confirm(terminal, `About ${approximateMessagesCount} messages are in ${from.name}; ${howMany} will be moved to ${name}.`, options.yes ?? false);
      const result = await redrive(from, to, options.max === undefined ? {} : { maxMessages: options.max });
      const kept = result.skipped > 0 ? ` ${result.skipped} stayed: they were moved there meanwhile.` : "";
      printOutcome(context, `${result.moved} messages were moved to ${name}.${kept}`, result);
    });
}

interface PeekedMessage {
  readonly id: string;
  readonly key: string | undefined;
  readonly insertedOn: Date;
  readonly expiresOn: Date;
  readonly dequeueCount: number;
  readonly content: unknown;
  readonly poison: PoisonDetails | undefined;
}

const peekColumns = {
  id: (message: PeekedMessage) => message.id,
  inserted: (message: PeekedMessage) => ago(message.insertedOn),
  deliveries: (message: PeekedMessage) => message.dequeueCount,
  key: (message: PeekedMessage) => oneLine(message.key, 40),
  content: (message: PeekedMessage) => textOf(message.content),
};

const poisonColumns = {
  poisoned: (message: PeekedMessage) => ago(message.poison?.poisonedOn ?? message.insertedOn),
  attempts: (message: PeekedMessage) => message.poison?.attempts,
  reason: (message: PeekedMessage) => oneLine(message.poison?.reason),
  error: (message: PeekedMessage) => oneLine(message.poison?.error),
  key: (message: PeekedMessage) => oneLine(message.key, 40),
  content: (message: PeekedMessage) => textOf(message.content),
};

function peekedMessage(message: PeekedMessageItem, encoding: QueueEncoding): PeekedMessage {
  const { key, body, text, poison } = open(message.messageText, encoding);
  const { messageId: id, insertedOn, expiresOn, dequeueCount } = message;
  return { id, key, insertedOn, expiresOn, dequeueCount, content: text ?? body, poison: poison && poisonDetailsOf(poison) };
}

// A message that another producer encoded differently is shown as it is.
function open(text: string, encoding: QueueEncoding): Envelope {
  try {
    return openEnvelope(text, encoding);
  } catch {
    return { asc: 1, text };
  }
}

function textOf(content: unknown): string | undefined {
  return oneLine(typeof content === "string" ? content : JSON.stringify(content));
}

function withCount(command: Command): Command {
  return command.option("-n, --count <number>", "how many, 32 at most", wholeNumber(1, 32), 32);
}

function withPoison(command: Command): Command {
  return command.option("--poison-queue <name>", "the name of the poison queue (default: the queue's name with -poison)");
}
