import { afterEach, vi } from "vitest";

import { Outbox } from "../../src/index.js";
import type { OutboxOptions, TableLike } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import { ClockService } from "../once/fakes.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

/** One process: it shares nothing with the others but the service. */
export interface FakeProcess {
  readonly table: FakeTransactionTable;
  readonly queue: FakeQueue;
  readonly other: FakeQueue;
  readonly outbox: Outbox;
  readonly errors: unknown[];
  readonly relayed: boolean[];
  /** Nothing that it sends from now on arrives, and no response reaches it: for the others it has crashed. */
  crash(): void;
}

/** A service, its queues, and the processes that use them. */
export class OutboxWorld {
  readonly service = new ClockService();
  readonly table = new FakeTransactionTable(this.service);
  readonly queue = new FakeQueue("orders");
  readonly other = new FakeQueue("invoices");

  process(options: Partial<OutboxOptions> = {}): FakeProcess {
    const table = new FakeTransactionTable(this.service, { pipeline: {} });
    const crashed = { now: false };
    const client = new Proxy(table, {
      get: (target, name) => {
        const member = Reflect.get(target, name, target) as unknown;
        if (typeof member !== "function") return member;
        return (...args: unknown[]): unknown => (crashed.now ? never() : (member as (...given: unknown[]) => unknown).apply(target, args));
      },
    }) as TableLike;
    const clientOf = (queue: FakeQueue): FakeQueue => new Proxy(queue, { get: (target, name) => (crashed.now && name === "sendMessage" ? never : bound(target, name)) });
    const [queue, other] = [clientOf(this.queue), clientOf(this.other)];
    const outbox = new Outbox(client, { queues: [queue, other], ...options });
    outboxes.push(outbox);
    const [errors, relayed]: [unknown[], boolean[]] = [[], []];
    outbox.on("error", (error) => errors.push(error)).on("sent", (detail) => relayed.push(detail.relayed));
    return { table: client as FakeTransactionTable, queue, other, outbox, errors, relayed, crash: () => (crashed.now = true) };
  }

  /** The payloads in a queue, in order. */
  payloads(queue = this.queue): unknown[] {
    return queue.messages.map(({ text }) => openEnvelope(text, "text").body);
  }

  keys(queue = this.queue): (string | undefined)[] {
    return queue.messages.map(({ text }) => openEnvelope(text, "text").key);
  }

  /** The rows of the outbox: of messages, and markers. */
  rows(): { messages: number; markers: number } {
    const keys = [...this.service.resources.keys()].map((key) => (JSON.parse(key) as string[])[2]!);
    return { messages: keys.filter((key) => key.startsWith("~asc~outbox!")).length, markers: keys.filter((key) => key.startsWith("~asc~outmarker!")).length };
  }
}

function bound(target: object, name: string | symbol): unknown {
  const member = Reflect.get(target, name, target) as unknown;
  return typeof member === "function" ? (member as (...args: unknown[]) => unknown).bind(target) : member;
}

const never = (): Promise<never> => new Promise(() => undefined);

/** Lets work end that needs no time. */
export async function turns(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

export async function after(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

const outboxes: Outbox[] = [];

/** Stops the outboxes at the end of each test. To be called after `useFakeTimers`, whose check comes later then. */
export function stopOutboxes(): void {
  afterEach(async () => {
    const ends = outboxes.splice(0).map((outbox) => outbox.stop({ drainTimeoutInMs: 0 }));
    await vi.advanceTimersByTimeAsync(150_000);
    await Promise.all(ends);
  });
}
