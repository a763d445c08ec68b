import type { QueueCallOptions, QueueLike, QueueMessageLike } from "../../../src/clients/queue.js";
import { notFaked } from "../../support/not-faked.js";
import { Faults, storageError } from "./faults.js";

interface Stored {
  readonly messageId: string;
  readonly insertedOn: Date;
  readonly expiresOn: Date;
  popReceipt: string;
  text: string;
  visibleAt: number;
  dequeueCount: number;
}

/** A queue in memory, on the (fake) clock of the test. */
export class FakeQueue implements QueueLike {
  readonly name: string;
  readonly url: string;
  readonly faults = new Faults();
  /** As the service answers a stale receipt; Azurite says 400 PopReceiptMismatch. */
  staleAnswer: "PopReceiptMismatch" | "MessageNotFound" = "MessageNotFound";
  exists = true;
  readonly setMetadata = notFaked;
  messages: Stored[] = [];
  readonly receivedCounts: number[] = [];
  #ids = 0;

  constructor(name = "jobs") {
    this.name = name;
    this.url = `https://account.queue.example/${name}`;
  }

  getProperties(options: QueueCallOptions = {}): Promise<object> {
    return this.faults.request("properties", options.abortSignal, () => {
      if (!this.exists) throw storageError(404, "QueueNotFound");
      return {};
    });
  }

  createIfNotExists(options: QueueCallOptions = {}): Promise<object> {
    return this.faults.request("create", options.abortSignal, () => {
      this.exists = true;
      return {};
    });
  }

  sendMessage(
    text: string,
    options: QueueCallOptions & { messageTimeToLive?: number; visibilityTimeout?: number } = {},
  ): Promise<{ messageId: string; popReceipt: string }> {
    return this.faults.request("send", options.abortSignal, () => {
      if (!this.exists) throw storageError(404, "QueueNotFound");
      if (new TextEncoder().encode(text).byteLength > 65_536) throw storageError(413, "RequestBodyTooLarge");
      const ttl = options.messageTimeToLive ?? 7 * 86_400;
      const message: Stored = {
        messageId: `${this.name}-${++this.#ids}`,
        insertedOn: new Date(),
        expiresOn: new Date(ttl === -1 ? Date.UTC(9999, 11, 31) : Date.now() + ttl * 1_000),
        popReceipt: `r${++this.#ids}`,
        text,
        visibleAt: Date.now() + (options.visibilityTimeout ?? 0) * 1_000,
        dequeueCount: 0,
      };
      this.messages.push(message);
      return { messageId: message.messageId, popReceipt: message.popReceipt };
    });
  }

  /** As a browser shows the responses of this queue, if CORS does not expose the date, and its own clock is so far ahead. */
  static inBrowser(queue: FakeQueue, aheadInMs: number): FakeQueue {
    const shifted = (date: Date): Date => new Date(date.getTime() - aheadInMs);
    const receive = queue.receiveMessages.bind(queue);
    queue.receiveMessages = async (options) => {
      const { receivedMessageItems } = await receive(options);
      const items = receivedMessageItems.map((item) => ({
        ...item,
        insertedOn: shifted(item.insertedOn),
        expiresOn: shifted(item.expiresOn),
        nextVisibleOn: shifted(item.nextVisibleOn!),
      }));
      return { receivedMessageItems: items } as unknown as Awaited<ReturnType<typeof receive>>;
    };
    return queue;
  }

  receiveMessages(
    options: QueueCallOptions & { numberOfMessages?: number; visibilityTimeout?: number } = {},
  ): Promise<{ date: Date; receivedMessageItems: QueueMessageLike[] }> {
    return this.faults.request("receive", options.abortSignal, () => {
      if ((options.numberOfMessages ?? 1) < 1 || (options.numberOfMessages ?? 1) > 32) throw storageError(400, "OutOfRangeQueryParameterValue");
      const popReceipt = `r${++this.#ids}`;
      const visible = this.messages.filter((m) => m.visibleAt <= Date.now()).slice(0, options.numberOfMessages ?? 1);
      for (const message of visible) {
        message.popReceipt = popReceipt;
        message.visibleAt = Date.now() + (options.visibilityTimeout ?? 30) * 1_000;
        message.dequeueCount++;
      }
      this.receivedCounts.push(visible.length);
      const receivedMessageItems = visible.map(({ messageId, insertedOn, expiresOn, text, dequeueCount }) => ({
        messageId,
        insertedOn,
        expiresOn,
        popReceipt,
        dequeueCount,
        messageText: text,
        nextVisibleOn: new Date(Date.now() + (options.visibilityTimeout ?? 30) * 1_000),
      }));
      return { date: new Date(), receivedMessageItems };
    });
  }

  updateMessage(
    messageId: string,
    popReceipt: string,
    text?: string,
    visibilityTimeout = 0,
    options: QueueCallOptions = {},
  ): Promise<{ popReceipt?: string | undefined }> {
    return this.faults.request("update", options.abortSignal, () => {
      const message = this.#find(messageId, popReceipt);
      message.popReceipt = `r${++this.#ids}`;
      message.visibleAt = Date.now() + visibilityTimeout * 1_000;
      if (text !== undefined) message.text = text;
      return { popReceipt: message.popReceipt };
    });
  }

  deleteMessage(messageId: string, popReceipt: string, options: QueueCallOptions = {}): Promise<object> {
    return this.faults.request("delete", options.abortSignal, () => {
      const message = this.#find(messageId, popReceipt);
      this.messages = this.messages.filter((other) => other !== message);
      return {};
    });
  }

  /** Another consumer receives everything that is visible. */
  steal(visibilityTimeout = 3_600): Promise<unknown> {
    return this.receiveMessages({ numberOfMessages: 32, visibilityTimeout });
  }

  get visible(): Stored[] {
    return this.messages.filter((m) => m.visibleAt <= Date.now());
  }

  #find(messageId: string, popReceipt: string): Stored {
    const message = this.messages.find((m) => m.messageId === messageId);
    if (!message) throw storageError(404, "MessageNotFound");
    if (message.popReceipt !== popReceipt) throw storageError(this.staleAnswer === "MessageNotFound" ? 404 : 400, this.staleAnswer);
    return message;
  }
}
