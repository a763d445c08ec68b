import { notFaked } from "../../support/not-faked.js";
import type { QueueCallOptions } from "../../../src/clients.js";
import type { QueueLike } from "../../../src/index.js";
import { blobError } from "../../fakes/rest-errors.js";
import type { Link } from "./link.js";
import { QueueStore } from "./queue-store.js";

/** A queue as one process sees it. */
export class SimQueue implements QueueLike {
  readonly name: string;
  readonly url: string;
  readonly pipeline: object;
  readonly setMetadata = notFaked;
  readonly #link: Link;

  constructor(link: Link, name: string) {
    this.#link = link;
    this.pipeline = link.pipeline;
    this.name = name;
    this.url = `https://account.queue.core.windows.net/${name}`;
  }

  /** What is stored, as a test looks at it: no request. */
  get store(): QueueStore {
    const { resources, time } = this.#link.backend;
    let store = resources.get(this.name) as QueueStore | undefined;
    if (!store) resources.set(this.name, (store = new QueueStore(time)));
    return store;
  }

  getProperties(options: QueueCallOptions = {}): Promise<object> {
    return this.#request("getProperties", "read", options, () => ({}));
  }

  createIfNotExists(options: QueueCallOptions = {}): Promise<object> {
    return this.#request("createIfNotExists", "write", options, () => ({}));
  }

  sendMessage(
    text: string,
    options: QueueCallOptions & { messageTimeToLive?: number; visibilityTimeout?: number } = {},
  ): Promise<{ messageId: string }> {
    return this.#request("sendMessage", "write", options, () => ({
      messageId: this.store.send(text, options.messageTimeToLive, options.visibilityTimeout),
    }));
  }

  receiveMessages(
    options: QueueCallOptions & { numberOfMessages?: number; visibilityTimeout?: number } = {},
  ): ReturnType<QueueLike["receiveMessages"]> {
    return this.#request("receiveMessages", "write", options, () => ({
      date: this.#link.backend.time.date,
      receivedMessageItems: this.store.receive(options.numberOfMessages ?? 1, options.visibilityTimeout ?? 30),
    }));
  }

  updateMessage(
    messageId: string,
    popReceipt: string,
    text?: string,
    visibilityTimeout = 0,
    options: QueueCallOptions = {},
  ): Promise<{ popReceipt?: string }> {
    return this.#request("updateMessage", "write", options, () => ({
      popReceipt: this.store.update(messageId, popReceipt, text, visibilityTimeout),
    }));
  }

  deleteMessage(messageId: string, popReceipt: string, options: QueueCallOptions = {}): Promise<object> {
    return this.#request("deleteMessage", "write", options, () => {
      this.store.delete(messageId, popReceipt);
      return {};
    });
  }

  #request<R>(operation: string, kind: "read" | "write", options: QueueCallOptions, serve: () => R): Promise<R> {
    return this.#link.request({ operation, kind, resource: this.name }, options.abortSignal, blobError, serve);
  }
}
