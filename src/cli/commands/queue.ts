import type { PeekedMessageItem, QueueClient } from "@azure/storage-queue";
import { Option } from "commander";
import type { Command } from "commander";
import { inParallel } from "../../core/parallel.js";
import { isNotFound, isParentNotFound } from "../../core/storage-errors.js";
import { decodeText, findEnvelope, isReferenceBody, openEnvelope, poisonDetailsOf, storedPoisonDetailsOf } from "../../queue/envelope.js";
import type { Envelope, PoisonDetails, QueueEncoding } from "../../queue/envelope.js";
import { redrive } from "../../queue/redrive.js";
import { contextOf } from "../connect.js";
import type { Account } from "../connect.js";
import { ago, counted, oneLine, printOutcome, printRows, wholeNumber } from "../print.js";
import { maxPeek, receiveMessages } from "../receive-messages.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";
import { runWatched, watchable } from "../watch.js";
import type { WatchOptions } from "../watch.js";

/** `queue stats`, `queue peek`, `queue poison`, `queue redrive`. */
export function addQueue(program: Command, terminal: Terminal): void {
  const queue = program.command("queue").description("messages that wait, and messages in the poison queue");

  watchable(queue.command("stats"))
    .description("length and age of queues, and of their poison queues")
    .argument("[queues...]", "their names (default: all queues of the account)")
    .action((names: string[], options: WatchOptions, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        printRows(context, await statsOf(context.account, names), {
          queue: ({ queue: name }) => name,
          messages: ({ messages }) => messages,
          "oldest visible": ({ oldestInsertedOn }) => ago(oldestInsertedOn),
          poison: ({ poisonMessages }) => poisonMessages,
        }, "There are no queues.");
      }));

  watchable(queue.command("peek"))
    .description("the next messages, without receiving them")
    .argument("<queue>", "its name")
    .option("-n, --count <number>", "how many, 32 at most", wholeNumber(1, maxPeek), maxPeek)
    .addOption(new Option("--encoding <encoding>", "how texts stand in it (default: as each message looks)").choices(["text", "base64"]))
    .action((name: string, options: WatchOptions & { count: number; encoding?: QueueEncoding }, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        const client = await context.account.queue(name);
        const { peekedMessageItems } = await client.peekMessages({ numberOfMessages: options.count });
        printRows(context, peekedMessageItems.map((message) => peekedMessage(message, options.encoding)), peekColumns, "Nothing is visible in the queue.");
      }));

  watchable(withPoisonFilter(withPoison(queue.command("poison"))))
    .description("messages in the poison queue, and why they are there")
    .argument("<queue>", "the queue that they came from")
    .option("-n, --count <number>", `how many; more than ${maxPeek}, and a selection, are received and made visible again`, wholeNumber(1, 10_000), maxPeek)
    .action((name: string, options: RedriveFilter & WatchOptions & { count: number; poisonQueue?: string }, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        const client = await context.account.queue(options.poisonQueue ?? `${name}-poison`);
        const filter = redriveFilter(options, Date.now());
        // This library writes plain text, whatever the encoding of the queue; Azure Functions writes base64.
        const open = (message: StoredMessage): PeekedMessage => peekedMessage(message, undefined);
        const isShown = (message: PeekedMessage): boolean => filter === undefined || filter(message.poison);
        const shown = filter || options.count > maxPeek ? await receiveAll(client, options.count, open, isShown) : (await client.peekMessages({ numberOfMessages: options.count })).peekedMessageItems.map(open);
        printRows(context, shown, poisonColumns, filter ? "No message matches." : "The poison queue is empty.");
      }));

  withPoisonFilter(withPoison(queue.command("redrive")))
    .description("moves messages from the poison queue back to their queue")
    .argument("<queue>", "the queue that they are moved to")
    .option("--max <number>", "the maximum number (default: all)", wholeNumber(1))
    .option("-y, --yes", "do not ask")
    .action(async (name: string, options: RedriveFilter & { poisonQueue?: string; max?: number; yes?: boolean }, command: Command) => {
      const context = contextOf(terminal, command);
      const from = await context.account.queue(options.poisonQueue ?? `${name}-poison`);
      const to = await context.account.queue(name);
      const { approximateMessagesCount = 0, date: insertedBefore } = await from.getProperties();
      await to.getProperties(); // Detects a missing queue before anything is moved.
      const filter = redriveFilter(options, Date.now());
      const howMany = `${options.max === undefined ? "all" : `at most ${options.max}`}${filter ? " that match" : ""}`;
      await confirm(terminal, `About ${counted(approximateMessagesCount, "message", "is", "are")} in ${from.name}; ${howMany} will be moved to ${name}.`, options.yes ?? false);
      const result = await redrive(from, to, { maxMessages: options.max, filter, insertedBefore });
      const kept = result.skipped > 0 ? ` ${result.skipped} stayed: they ${filter ? "do not match, " : ""}were moved there meanwhile, or cannot be sent.` : "";
      printOutcome(context, `${counted(result.moved, "message", "was", "were")} moved to ${name}.${kept}`, result);
    });
}

type StoredMessage = Parameters<typeof peekedMessage>[0];

export interface QueueStats {
  readonly queue: string;
  readonly messages: number;
  readonly oldestInsertedOn: Date | undefined;
  /** Undefined: there is no poison queue. */
  readonly poisonMessages: number | undefined;
  /** Received and not completed, or sent with a delay. Undefined: more messages are visible than can be peeked. */
  readonly hiddenMessages: number | undefined;
}

export async function statsOf(account: Account, given: readonly string[]): Promise<QueueStats[]> {
  const names = [...given];
  if (given.length === 0) for await (const { name } of (await account.queueService()).listQueues()) names.push(name);
  // Those of the listing are shown beside their queue.
  const shown = given.length > 0 ? names : names.filter((name) => !(name.endsWith("-poison") && names.includes(name.slice(0, -"-poison".length))));
  const stats: QueueStats[] = [];
  await inParallel([...shown.entries()], 8, async ([index, queue]) => {
    const client = await account.queue(queue);
    const poison = await account.queue(`${queue}-poison`);
    const [properties, { peekedMessageItems }, poisonMessages] = await Promise.all([client.getProperties(), client.peekMessages({ numberOfMessages: maxPeek }), lengthOf(poison)]);
    const times = peekedMessageItems.map(({ insertedOn }) => insertedOn.getTime());
    const { approximateMessagesCount: messages = 0 } = properties;
    const hiddenMessages = times.length < maxPeek ? Math.max(0, messages - times.length) : undefined;
    stats[index] = { queue, messages, oldestInsertedOn: times.length === 0 ? undefined : new Date(Math.min(...times)), poisonMessages, hiddenMessages };
  });
  return stats;
}

async function lengthOf(queue: QueueClient): Promise<number | undefined> {
  try {
    return (await queue.getProperties()).approximateMessagesCount;
  } catch (error) {
    if (isNotFound(error) || isParentNotFound(error)) return undefined;
    throw error;
  }
}

/** Only 32 messages can be peeked: to see others, they are received. */
async function receiveAll(queue: QueueClient, max: number, open: (message: StoredMessage) => PeekedMessage, isShown: (message: PeekedMessage) => boolean): Promise<PeekedMessage[]> {
  const shown: PeekedMessage[] = [];
  await receiveMessages(queue, (fresh) => {
    shown.push(...fresh.map(open).filter(isShown));
    return shown.length < max;
  });
  return shown.slice(0, max);
}

export interface PeekedMessage {
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

/** The options of `queue poison` and `queue redrive` that select messages. */
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
  // A payload in a blob: the key is in the reference, which any program may have written.
  const reference = isReferenceBody(body) ? (body.ascOverflow as { readonly key?: unknown } | null) : undefined;
  const stored = storedPoisonDetailsOf(poison, insertedOn);
  const content = text ?? (isNestedWithin(maxNesting, body) ? body : message.messageText);
  return { id, key: typeof reference?.key === "string" ? reference.key : key, insertedOn, expiresOn, dequeueCount, content, poison: stored && poisonDetailsOf(stored) };
}

/** What is nested more deeply is shown as the text of its message: indented as JSON, a kilobyte of brackets would become megabytes. */
const maxNesting = 32;

function isNestedWithin(levels: number, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((part) => isNestedWithin(levels - 1, part));
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

function withPoisonFilter(command: Command): Command {
  return command
    .option("--reason <text>", "only messages whose reason contains the text")
    .option("--error <text>", "only messages whose last error contains the text")
    .option("--older-than-hours <number>", "only messages that were poisoned before that", wholeNumber(0));
}

function withPoison(command: Command): Command {
  return command.option("--poison-queue <name>", "the name of the poison queue (default: the queue's name with -poison)");
}
