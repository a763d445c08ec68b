import { afterEach, beforeEach, expect, vi } from "vitest";

import { CommitInbox, QueueConsumer } from "../../../src/index.js";
import type { CommitConsumerOptions, CommitMessageContext, MessageContext, MessageHandler, QueueConsumerEvents, QueueConsumerOptions } from "../../../src/index.js";
import { consumerEventNames } from "../../../src/queue/context.js";
import { FakeQueue } from "./fake-queue.js";
import { FakeTable } from "./fake-table.js";

export type Handler = MessageHandler<unknown>;
export type CommitHandler = MessageHandler<unknown, CommitMessageContext>;

/** Queues, a table and consumers on the fake clock, new for each test. At its end nothing may be left behind. */
export class Bench {
  queue!: FakeQueue;
  poisonQueue!: FakeQueue;
  table!: FakeTable;
  #consumers: QueueConsumer[] = [];
  #events: [keyof QueueConsumerEvents, unknown][] = [];

  constructor() {
    beforeEach(() => {
      vi.useFakeTimers();
      vi.spyOn(Math, "random").mockReturnValue(0.5); // jitter in the middle
      this.queue = new FakeQueue();
      this.poisonQueue = new FakeQueue("jobs-poison");
      this.table = new FakeTable();
      [this.#consumers, this.#events] = [[], []];
    });
    afterEach(async () => {
      for (const consumer of this.#consumers) {
        const stopping = consumer.stop();
        await this.pass(120_000);
        await stopping;
      }
      expect(vi.getTimerCount()).toBe(0);
      vi.restoreAllMocks();
      vi.useRealTimers();
    });
  }

  pass(ms: number): Promise<unknown> {
    return vi.advanceTimersByTimeAsync(ms);
  }

  consume(handler: Handler, options: QueueConsumerOptions<unknown> = {}): Promise<QueueConsumer> {
    return this.#start(new QueueConsumer(this.queue, handler, { poisonQueue: this.poisonQueue, ...options }));
  }

  consumeAndCommit(handler: CommitHandler, options: Partial<CommitConsumerOptions<unknown>> = {}): Promise<QueueConsumer> {
    const { queue, poisonQueue, table } = this;
    return this.#start(new QueueConsumer<unknown>(queue, handler, { inbox: new CommitInbox(table), partitionOf: () => "p", poisonQueue, ...options }));
  }

  /** Forgets the events so far. */
  clear(): void {
    this.#events = [];
  }

  /** For a consumer that a test has made itself. */
  stopAtEnd(consumer: QueueConsumer): void {
    this.#consumers.push(consumer);
  }

  /** The names of the events, in order, except those that every message and every poll has. */
  get names(): string[] {
    return this.#events.map(([name]) => name).filter((name) => name !== "empty" && name !== "received");
  }

  details<K extends keyof QueueConsumerEvents>(name: K): QueueConsumerEvents[K][] {
    return this.#events.filter(([event]) => event === name).map(([, detail]) => detail as QueueConsumerEvents[K]);
  }

  /** The rows of the table that are no records of an inbox. */
  get effects(): Record<string, unknown>[] {
    return [...this.table.rows.values()].filter(({ rowKey }) => !rowKey.startsWith("~asc~inbox!"));
  }

  get envelopes(): Record<string, unknown>[] {
    return this.queue.messages.map(({ text }) => JSON.parse(text) as Record<string, unknown>);
  }

  get poisons(): Record<string, unknown>[] {
    return this.poisonQueue.messages.map(({ text }) => JSON.parse(text) as Record<string, unknown>);
  }

  async #start(consumer: QueueConsumer): Promise<QueueConsumer> {
    this.stopAtEnd(consumer);
    for (const event of Object.keys(consumerEventNames) as (keyof QueueConsumerEvents)[]) {
      consumer.on(event, (detail: unknown) => void this.#events.push([event, detail]));
    }
    await consumer.start();
    return consumer;
  }
}

/** Rejects when the signal aborts. */
export function untilAborted({ signal }: Pick<MessageContext, "signal">): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
}
