import { fingerprint } from "../../queue/envelope.js";
import { peekedMessage, statsOf } from "../commands/queue.js";
import type { PeekedMessage } from "../commands/queue.js";
import type { Account } from "../connect.js";
import { maxPeek } from "../receive-messages.js";
import type { PoisonView, QueuePoint, QueueView } from "./snapshot.js";

/** An hour at 5 seconds. */
const maxPoints = 720;

/** Polls a queue, and remembers how it has changed. */
export class QueueCollector {
  readonly #account: Account;
  readonly #name: string;
  readonly #history: QueuePoint[] = [];
  /** The payloads of the messages that are shown: they leave this process when the user asks for one. */
  #payloads: ReadonlyMap<string, string> = new Map();

  constructor(account: Account, name: string) {
    this.#account = account;
    this.#name = name;
  }

  /** Costs 3 requests, and 1 if there are poison messages. */
  async collect(abortSignal: AbortSignal): Promise<QueueView> {
    const [stats] = await statsOf(this.#account, [this.#name]);
    if (!stats) throw new Error("the queue has no properties");
    const { messages, hiddenMessages: hidden, oldestInsertedOn, poisonMessages: poison } = stats;
    const poisonMessages = poison ? await this.#peekPoison(abortSignal) : [];
    if (!poison) this.#payloads = new Map();
    const now = Date.now();
    this.#history.push({ at: new Date(now).toISOString(), messages, ageInMs: oldestInsertedOn ? Math.max(0, now - oldestInsertedOn.getTime()) : 0 });
    if (this.#history.length > maxPoints) this.#history.shift();
    return { messages, hidden, oldestInsertedOn: oldestInsertedOn?.toISOString(), poison, poisonMessages, history: [...this.#history] };
  }

  /** Undefined: the message is not shown any more. */
  payloadOf(id: string, version: string): string | undefined {
    return this.#payloads.get(`${id}/${version}`);
  }

  async #peekPoison(abortSignal: AbortSignal): Promise<PoisonView[]> {
    const queue = await this.#account.queue(poisonQueueOf(this.#name));
    const { peekedMessageItems } = await queue.peekMessages({ numberOfMessages: maxPeek, abortSignal });
    const shown = peekedMessageItems.map((item) => ({ message: peekedMessage(item, undefined), version: versionOf(item) }));
    this.#payloads = new Map(shown.map(({ message, version }) => [`${message.id}/${version}`, payloadText(message)]));
    return shown.map(({ message: { id, key, insertedOn, poison }, version }) => ({
      id,
      version,
      poisonedOn: (poison?.poisonedOn ?? insertedOn).toISOString(),
      attempts: poison?.attempts,
      reason: poison?.reason,
      error: poison?.error,
      key,
    }));
  }
}

export function poisonQueueOf(queue: string): string {
  return `${queue}-poison`;
}

/** Identifies the text: a program may have written another one into the message since it was shown. */
export function versionOf({ messageText }: { readonly messageText: string }): string {
  return fingerprint(messageText);
}

function payloadText({ content }: PeekedMessage): string {
  return typeof content === "string" ? content : JSON.stringify(content, null, 2);
}
