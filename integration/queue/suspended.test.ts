import { setTimeout as pause } from "node:timers/promises";

import { describe, expect, it, onTestFinished } from "vitest";

import { enqueue } from "../../src/index.js";
import { connectionString, freshQueue, freshTable } from "../support/clients.js";
import { startWorker, type Worker } from "../support/workers.js";
import type { ConsumerConfig, ConsumerNote, Work } from "./workers/consumer.js";

const rounds = 3;

/** Collects what a worker tells, and lets the test wait for it. */
class Listener {
  readonly notes: ConsumerNote[] = [];
  readonly worker: Worker<unknown>;
  #told: () => void = () => undefined;

  constructor(worker: Worker<unknown>) {
    this.worker = worker;
    void this.#listen();
  }

  async until(is: ConsumerNote["is"], key?: string): Promise<void> {
    while (!this.notes.some((note) => note.is === is && (key === undefined || ("key" in note && note.key === key)))) {
      await new Promise<void>((resolve) => (this.#told = resolve));
    }
  }

  async #listen(): Promise<void> {
    try {
      for (;;) {
        this.notes.push(await this.worker.receive<ConsumerNote>());
        this.#told();
      }
    } catch {
      // it has ended
    }
  }
}

describe.each(["claim", "commit"] as const)("a process that is stopped (SIGSTOP) while its handler waits, in %s mode,", (mode) => {
  it.each(["assertHeld", "signal"] as const)("has no effect after its successor has started, if it asks %s right before", async (asks) => {
    const [queue, poison, table] = await Promise.all([freshQueue(), freshQueue(), freshTable()]);
    const config: ConsumerConfig = {
      connectionString: connectionString(),
      queue: queue.name,
      poisonQueue: poison.name,
      table: table.tableName,
      mode,
      concurrency: 1,
      visibilityTimeoutInSeconds: 2,
      tell: true,
      asks,
    };
    const start = (): Listener => {
      const worker = startWorker(new URL("./workers/consumer.ts", import.meta.url), config, { timeoutInMs: 120_000 });
      onTestFinished(async () => {
        worker.signal("SIGCONT");
        await worker.stop();
      });
      return new Listener(worker);
    };
    const stopped = start();
    await stopped.until("ready");
    const keys = Array.from({ length: rounds }, (_, round) => `order-${round}`);
    let successor: Listener | undefined;
    for (const key of keys) {
      // Only the first consumer polls: the successor is started when the first one is stopped.
      await enqueue(queue, { ms: 500, partition: "p" } satisfies Work, { idempotencyKey: key });
      await stopped.until("start", key);
      stopped.worker.signal("SIGSTOP");
      successor = start();
      await successor.until("effect", key);
      stopped.worker.signal("SIGCONT");
      await stopped.until("lost", key);
      successor.worker.send("stop");
      await successor.worker.result;
      await pause(100);
      const effects = [stopped, successor].map(({ notes }) => notes.filter((note) => note.is === "effect" && note.key === key).length);
      expect(effects, key).toEqual([0, 1]);
    }
    stopped.worker.send("stop");
    await stopped.worker.result;
    expect((await poison.getProperties()).approximateMessagesCount).toBe(0);
  }, 180_000);
});
