import { setTimeout as pause } from "node:timers/promises";

import { describe, expect, it, onTestFinished } from "vitest";

import { ClaimInbox, enqueueMany } from "../../src/index.js";
import { dropResponse, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshQueue, freshTable } from "../support/clients.js";
import { startWorker, type Worker } from "../support/workers.js";
import type { ConsumerConfig, ConsumerNote } from "./workers/consumer.js";

const groups = 20;
const perGroup = 15;
const maxKills = 4;
/** A process is killed when it has begun to handle so many messages. */
const startsBeforeKill = 5;
const timeoutInMs = 300_000;

interface Life {
  readonly worker: Worker<unknown>;
  readonly notes: ConsumerNote[];
  killedAt?: number;
}

describe.each([
  { order: "any", shards: 1 },
  { order: "sequence", shards: 3 },
] as const)("groups with order $order and $shards shards, of consumers that are killed, with every twentieth response lost", ({ order, shards }) => {
  it("are handled by one handler at a time, and completely", async () => {
    const [queue, poison, table] = await Promise.all([freshQueue(), freshQueue(), freshTable()]);
    const loss = [dropResponse({ probability: 0.05 })];
    const proxies = await Promise.all([azurite().queueUrl, azurite().tableUrl].map((url) => startFaultProxy(url, loss, { logLimit: 0 })));
    onTestFinished(async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()));
    });
    const [queueProxy, tableProxy] = proxies;
    const messages = Array.from({ length: groups * perGroup }, (_, i) => ({ group: `g${i % groups}`, sequence: Math.floor(i / groups) + 1 }));
    await enqueueMany(queue, messages, ({ group, sequence }) => ({ payload: { ms: 15 }, idempotencyKey: `${group} ${sequence}`, group, sequence }));

    const config: ConsumerConfig = {
      connectionString: connectionString({ queueUrl: queueProxy!.url, tableUrl: tableProxy!.url }),
      queue: queue.name,
      poisonQueue: poison.name,
      table: table.tableName,
      mode: "claim",
      order,
      shards,
      concurrency: 16,
      visibilityTimeoutInSeconds: 5,
      tell: true,
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
      await pause(50);
      if ((await queue.getProperties()).approximateMessagesCount === 0) break;
      const victim = running[turn]!;
      // By what it has done, not by the time: three consumers may be done within a second.
      if (victim.notes.filter(({ is }) => is === "start").length < startsBeforeKill || lives.length >= 3 + maxKills) continue;
      victim.killedAt = Date.now();
      victim.worker.signal("SIGKILL");
      await victim.worker.exited;
      running[turn] = start();
    }
    for (const { worker } of running) worker.send("stop");
    await Promise.all(running.map(({ worker }) => worker.result));

    expect((await poison.getProperties()).approximateMessagesCount).toBe(0);
    expect(lives.some(({ killedAt }) => killedAt !== undefined)).toBe(true);
    const inbox = new ClaimInbox(table, { shards });
    for (const group of new Set(messages.map((message) => message.group))) {
      const attempts = attemptsOf(lives, group);
      expect(new Set(attempts.map(({ sequence }) => sequence)).size, `messages of ${group}`).toBe(perGroup);
      for (const [i, attempt] of attempts.entries()) {
        const next = attempts[i + 1];
        if (!next) continue;
        expect(next.start, `${group}: ${next.sequence} starts while ${attempt.sequence} runs`).toBeGreaterThanOrEqual(attempt.end);
        // A message that was killed is started again; no other one comes before it.
        if (order === "sequence") expect(next.sequence - attempt.sequence, `${group}: ${next.sequence} after ${attempt.sequence}`).toBeOneOf([0, 1]);
      }
      expect((await inbox.getGroup(queue, group))?.lastSequence, `the last sequence of ${group}`).toBe(order === "sequence" ? perGroup : undefined);
    }
  }, timeoutInMs);
});

/** In the order of their starts. A handler that was killed ended at that time at the latest. */
function attemptsOf(lives: readonly Life[], group: string): { readonly sequence: number; readonly start: number; readonly end: number }[] {
  return lives
    .flatMap(({ notes, killedAt = Infinity }) =>
      notes.flatMap((note) => {
        if (note.is !== "start" || note.key.split(" ")[0] !== group) return [];
        const end = notes.find((other) => (other.is === "end" || other.is === "lost") && other.key === note.key && other.at >= note.at);
        return [{ sequence: Number(note.key.split(" ")[1]), start: note.at, end: end && "at" in end ? end.at : killedAt }];
      }),
    )
    .toSorted((a, b) => a.start - b.start || a.sequence - b.sequence);
}

async function listen({ worker, notes }: Life): Promise<void> {
  try {
    for (;;) notes.push(await worker.receive<ConsumerNote>());
  } catch {
    // it has ended
  }
}
