import type { PeekedMessageItem } from "@azure/storage-queue";
import { Option } from "commander";
import type { Command } from "commander";
import { decodeText, findEnvelope, openEnvelope, poisonDetailsOf, storedPoisonDetailsOf } from "../../queue/envelope.js";
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
    .addOption(new Option("--encoding <encoding>", "how texts stand in it (default: as each message looks)").choices(["text", "base64"]))
    .action(async (name: string, options: { count: number; encoding?: QueueEncoding }, command: Command) => {
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
      // This library writes plain text, whatever the encoding of the queue; Azure Functions writes base64.
      printRows(context, peekedMessageItems.map((message) => peekedMessage(message, undefined)), poisonColumns, "The poison queue is empty.");
    });

  withPoison(queue.command("redrive"))
    .description("moves messages from the poison queue back to their queue")
    .argument("<queue>", "the queue that they are moved to")
    .option("--max <number>", "the maximum number (default: all)", wholeNumber(1))
    .option("--reason <text>", "only messages whose reason contains the text")
    .option("--error <text>", "only messages whose last error contains the text")
    .option("--older-than-hours <number>", "only messages that were poisoned before that", wholeNumber(0))
    .option("-y, --yes", "do not ask")
    .action(async (name: string, options: RedriveFilter & { poisonQueue?: string; max?: number; yes?: boolean }, command: Command) => {
      const context = contextOf(terminal, command);
      const from = await context.account.queue(options.poisonQueue ?? `${name}-poison`);
      const to = await context.account.queue(name);
      const { approximateMessagesCount = 0 } = await from.getProperties();
      await to.getProperties(); // Detects a missing queue before anything is moved.
      const filter = redriveFilter(options, Date.now());
      const howMany = `${options.max === undefined ? "all" : `at most ${options.max}`}${filter ? " that match" : ""}`;
      await confirm(terminal, `About ${approximateMessagesCount} messages are in ${from.name}; ${howMany} will be moved to ${name}.`, options.yes ?? false);
      const result = await redrive(from, to, { maxMessages: options.max, filter });
      const kept = result.skipped > 0 ? ` ${result.skipped} stayed: they ${filter ? "do not match, " : ""}were moved there meanwhile, or cannot be sent.` : "";
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
  content: (message: PeekedMessage) => contentOf(message),
};

const poisonColumns = {
  poisoned: (message: PeekedMessage) => ago(message.poison?.poisonedOn ?? message.insertedOn),
  attempts: (message: PeekedMessage) => message.poison?.attempts,
  reason: (message: PeekedMessage) => oneLine(message.poison?.reason),
  error: (message: PeekedMessage) => oneLine(message.poison?.error),
  key: (message: PeekedMessage) => oneLine(message.key, 40),
  content: (message: PeekedMessage) => contentOf(message),
};

/** The options of `queue redrive` that select messages. */
export interface RedriveFilter {
  reason?: string;
  error?: string;
  olderThanHours?: number;
}

/** Undefined: all messages. Messages without details match no option. */
export function redriveFilter({ reason, error, olderThanHours }: RedriveFilter, now: number): ((details: PoisonDetails | undefined) => boolean) | undefined {
  if (reason === undefined && error === undefined && olderThanHours === undefined) return undefined;
  const contains = (text: string | undefined, part: string | undefined): boolean => part === undefined || (text?.toLowerCase().includes(part.toLowerCase()) ?? false);
  return (details) =>
    details !== undefined &&
    contains(details.reason, reason) &&
    contains(details.error, error) &&
    details.poisonedOn.getTime() <= now - (olderThanHours ?? -Infinity) * 3_600_000;
}

/** @param encoding - Undefined: as the message looks. */
export function peekedMessage(message: Pick<PeekedMessageItem, "messageId" | "messageText" | "insertedOn" | "expiresOn" | "dequeueCount">, encoding: QueueEncoding | undefined): PeekedMessage {
  const { key, body, text, poison } = open(message.messageText, encoding);
  const { messageId: id, insertedOn, expiresOn, dequeueCount } = message;
  const stored = storedPoisonDetailsOf(poison, insertedOn);
  return { id, key, insertedOn, expiresOn, dequeueCount, content: text ?? body, poison: stored && poisonDetailsOf(stored) };
}

// A message that another producer encoded differently is shown as it is.
function open(text: string, encoding: QueueEncoding | undefined): Envelope {
  if (encoding === undefined) return findEnvelope(text)?.envelope ?? { asc: 1, text: readable(text) };
  try {
    return openEnvelope(text, encoding);
  } catch {
    return { asc: 1, text };
  }
}

/** The text in base64, if it is certainly one: words may look like base64, but are not that of printable text. */
function readable(text: string): string {
  if (text.length < 8 || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return text;
  try {
    const decoded = decodeText(text, "base64");
    return /(?![\t\n\r])\p{Cc}/u.test(decoded) ? text : decoded;
  } catch {
    return text;
  }
}

export function contentOf({ content }: PeekedMessage): string | undefined {
  return oneLine(typeof content === "string" ? content : JSON.stringify(content));
}

function withCount(command: Command): Command {
  return command.option("-n, --count <number>", "how many, 32 at most", wholeNumber(1, 32), 32);
}

function withPoison(command: Command): Command {
  return command.option("--poison-queue <name>", "the name of the poison queue (default: the queue's name with -poison)");
}
