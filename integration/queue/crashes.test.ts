import { setTimeout as pause } from "node:timers/promises";

import { describe, expect, it, onTestFinished } from "vitest";

import { enqueue } from "../../src/index.js";
import { dropResponse, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshQueue, freshTable, tableClient } from "../support/clients.js";
import { startWorker, type Worker } from "../support/workers.js";
import type { ConsumerConfig, ConsumerNote } from "./workers/consumer.js";

const messages = 2_000;
const duplicates = 100;
const maxKills = 10;

/** A busy machine takes its time; nothing here depends on how much. */
const timeoutInMs = 400_000;

interface Life {
  readonly worker: Worker<unknown>;
  readonly notes: ConsumerNote[];
  killedAt?: number;
}

/** Three processes, of which one is killed every two seconds, work through 2,100 messages while every tenth answer is lost. */
async function work(mode: "claim" | "commit", task: (i: number) => object, tell: boolean): Promise<{ lives: Life[]; table: string }> {
  const [queue, poison, table] = await Promise.all([freshQueue(), freshQueue(), freshTable()]);
  const loss = [dropResponse({ probability: 0.1 })];
  const proxies = await Promise.all([azurite().queueUrl, azurite().tableUrl].map((url) => startFaultProxy(url, loss, { logLimit: 0 })));
  onTestFinished(async () => {
    await Promise.all(proxies.map((proxy) => proxy.stop()));
  });
  const [queueProxy, tableProxy] = proxies;

  const orders = Array.from({ length: messages + duplicates }, (_, i) => (i < messages ? i : (i - messages) * 20));
  for (let i = 0; i < orders.length; i += 50) {
    await Promise.all(orders.slice(i, i + 50).map((order) => enqueue(queue, task(order), { idempotencyKey: `order-${order}` })));
  }

  const config: ConsumerConfig = {
    connectionString: connectionString({ queueUrl: queueProxy!.url, tableUrl: tableProxy!.url }),
    queue: queue.name,
    poisonQueue: poison.name,
    table: table.tableName,
    mode,
    concurrency: 32,
    visibilityTimeoutInSeconds: 8,
    tell,
  };
  const lives: Life[] = [];
  const start = (): Life => {
    const life: Life = { worker: startWorker(new URL("./workers/consumer.ts", import.meta.url), config, { timeoutInMs }), notes: [] };
    lives.push(life);
    void listen(life);
    return life;
  };
  const running = [start(), start(), start()];
  onTestFinished(async () => {
    await Promise.all(lives.map(({ worker }) => worker.stop()));
  });

  for (let turn = 0; ; turn = (turn + 1) % 3) {
    await pause(2_000);
    if ((await queue.getProperties()).approximateMessagesCount === 0) break;
    const victim = running[turn]!;
    // Killing what has not begun proves nothing, and starting processes is most of the work on a busy machine.
    if (!victim.notes.some(({ is }) => is === "ready") || lives.length >= 3 + maxKills) continue;
    victim.killedAt = Date.now();
    victim.worker.signal("SIGKILL");
    await victim.worker.exited;
    running[turn] = start();
  }
  for (const { worker } of running) worker.send("stop");
  await Promise.all(running.map(({ worker }) => worker.result));
  expect((await poison.getProperties()).approximateMessagesCount).toBe(0);
  expect(queueProxy!.faultCount() + tableProxy!.faultCount()).toBeGreaterThan(100);
  expect(lives.filter(({ killedAt }) => killedAt !== undefined).length).toBeGreaterThan(0);
  return { lives, table: table.tableName };
}

async function listen({ worker, notes }: Life): Promise<void> {
  try {
    for (;;) notes.push(await worker.receive<ConsumerNote>());
  } catch {
    // it has ended
  }
}

describe("consumers that are killed, with every tenth answer lost", () => {
  it("have each effect once, with commits", async () => {
    const { table } = await work("commit", (i) => ({ ms: 0, partition: `p${i % 4}` }), false);
    const effects = new Map<string, number>();
    for await (const { rowKey, key } of tableClient(table).listEntities<{ key?: string }>()) {
      if (!rowKey?.startsWith("~asc~inbox!")) effects.set(key!, (effects.get(key!) ?? 0) + 1);
    }
    expect(effects.size).toBe(messages);
    expect([...effects].filter(([, count]) => count !== 1)).toEqual([]);
  }, timeoutInMs);

  it("never work on a key at the same time, with claims, and finish each", async () => {
    const { lives } = await work("claim", () => ({ ms: 20 }), true);

    const attempts = new Map<string, { start: number; end: number; ended: boolean; explained: boolean }[]>();
    for (const { notes, killedAt = Infinity } of lives) {
      for (const note of notes) {
        if (note.is !== "start") continue;
        const end = notes.find((other) => (other.is === "end" || other.is === "lost") && other.key === note.key && other.at >= note.at);
        const lost = notes.some((other) => other.is === "lost" && other.key === note.key && other.at >= note.at);
        const of = attempts.get(note.key) ?? [];
        of.push({
          start: note.at,
          end: end && "at" in end ? end.at : killedAt,
          ended: end?.is === "end",
          // Lost: on a machine that is too busy to write the record before the message's time is over.
          explained: killedAt !== Infinity || lost,
        });
        attempts.set(note.key, of);
      }
    }
    expect(attempts.size).toBe(messages);
    for (const [key, of] of attempts) {
      of.sort((a, b) => a.start - b.start);
      for (const [i, attempt] of of.entries()) {
        const next = of[i + 1];
        if (!next) continue;
        expect(next.start, `${key} is worked on twice at the same time`).toBeGreaterThanOrEqual(attempt.end);
        expect(attempt.explained, `${key} is started again although nothing crashed`).toBe(true);
      }
      expect(of.at(-1)!.ended, `${key} is finished`).toBe(true);
    }
    // What was in flight when a process died or lost it, and no more, is started again.
    const again = [...attempts.values()].reduce((sum, of) => sum + of.length - 1, 0);
    const crashes = lives.filter(({ killedAt }) => killedAt !== undefined).length;
    const losses = lives.flatMap(({ notes }) => notes).filter(({ is }) => is === "lost").length;
    expect(again).toBeLessThanOrEqual(crashes * 32 + losses);
  }, timeoutInMs);
});
