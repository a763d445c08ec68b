import type { QueueMessageLike } from "../../../src/clients.js";
import { blobError } from "../../fakes/rest-errors.js";
import type { VirtualTime } from "../time/virtual-time.js";

interface Stored {
  readonly messageId: string;
  readonly insertedOn: Date;
  readonly expiresOn: Date;
  popReceipt: string;
  text: string;
  visibleAt: number;
  dequeueCount: number;
}

/** The messages of a queue, on the virtual clock. */
export class QueueStore {
  readonly #time: VirtualTime;
  /** In the order in which they were sent. */
  readonly #messages = new Map<string, Stored>();
  /** Ids of messages that may be visible, so that a receive need not look at all that are hidden. */
  readonly #ready = new Set<string>();
  #ids = 0;

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  get size(): number {
    return this.#messages.size;
  }

  send(text: string, ttlInSeconds = 7 * 86_400, hiddenInSeconds = 0): string {
    const insertedOn = this.#time.date;
    const expiresOn = new Date(ttlInSeconds === -1 ? Date.UTC(9999, 11, 31) : insertedOn.getTime() + ttlInSeconds * 1_000);
    const messageId = `m${++this.#ids}`;
    const message: Stored = { messageId, insertedOn, expiresOn, popReceipt: "", text, visibleAt: 0, dequeueCount: 0 };
    this.#messages.set(messageId, message);
    this.#hide(message, hiddenInSeconds);
    return messageId;
  }

  receive(count: number, hiddenInSeconds: number): QueueMessageLike[] {
    const popReceipt = `r${++this.#ids}`;
    const received: QueueMessageLike[] = [];
    for (const id of this.#ready) {
      if (received.length >= count) break;
      const message = this.#messages.get(id);
      if (!message) continue;
      this.#hide(message, hiddenInSeconds);
      message.popReceipt = popReceipt;
      message.dequeueCount++;
      const { messageId, insertedOn, expiresOn, text: messageText, dequeueCount } = message;
      received.push({ messageId, insertedOn, expiresOn, popReceipt, messageText, dequeueCount });
    }
    return received;
  }

  update(messageId: string, popReceipt: string, text: string | undefined, hiddenInSeconds: number): string {
    const message = this.#owned(messageId, popReceipt);
    message.popReceipt = `r${++this.#ids}`;
    if (text !== undefined) message.text = text;
    this.#hide(message, hiddenInSeconds);
    return message.popReceipt;
  }

  delete(messageId: string, popReceipt: string): void {
    this.#owned(messageId, popReceipt);
    this.#messages.delete(messageId);
    this.#ready.delete(messageId);
  }

  #hide(message: Stored, seconds: number): void {
    const visibleAt = this.#time.now + seconds * 1_000;
    message.visibleAt = visibleAt;
    if (seconds <= 0) {
      this.#ready.add(message.messageId);
      return;
    }
    this.#ready.delete(message.messageId);
    this.#time.after(seconds * 1_000, () => {
      // Hidden anew, or deleted since?
      if (message.visibleAt === visibleAt && this.#messages.has(message.messageId)) this.#ready.add(message.messageId);
    });
  }

  #owned(messageId: string, popReceipt: string): Stored {
    const message = this.#messages.get(messageId);
    if (message?.popReceipt !== popReceipt) throw blobError(404, "MessageNotFound");
    return message;
  }
}
