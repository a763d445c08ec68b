import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

import { ContainerClient } from "@azure/storage-blob";

import { ClaimInbox, CommitInbox, type CommitMessageContext, type MessageContext, QueueConsumer } from "../../../src/index.js";
import { fastTable } from "../../support/fast-clients.js";
import { fastQueue } from "../../support/fast-queue.js";
import { runWorker } from "../../support/worker-process.js";

export interface ConsumerConfig {
  readonly connectionString: string;
  readonly queue: string;
  readonly poisonQueue: string;
  readonly table: string;
  readonly mode: "claim" | "commit";
  readonly order?: "any" | "sequence";
  readonly shards?: number;
  readonly concurrency: number;
  readonly visibilityTimeoutInSeconds: number;
  readonly drainTimeoutInMs?: number;
  /** Handlers tell when they start and end. */
  readonly tell?: boolean;
  /** Handlers wait without their signal, and ask only right before their effect whether they may have it. */
  readonly asks?: "assertHeld" | "signal";
  /** The container of large payloads. */
  readonly overflow?: string;
}

/** What a worker tells its test. */
export type ConsumerNote =
  | { readonly is: "ready" | "stopped" }
  | { readonly is: "start"; readonly key: string; readonly at: number; readonly attempt: number }
  | { readonly is: "effect" | "end" | "lost"; readonly key: string; readonly at: number; readonly attempt: number };

/** `ms`: how long to work on it. `partition`: where to leave the effect, in commit mode. */
export interface Work {
  readonly ms: number;
  readonly partition?: string;
}

/** Consumes until SIGTERM, or until the parent says anything. */
runWorker(async (config: ConsumerConfig, parent) => {
  const tell = (note: ConsumerNote): void => parent.send(note);
  const table = fastTable(config.connectionString, config.table);

  async function handle({ ms }: Work, context: MessageContext | CommitMessageContext): Promise<void> {
    const { idempotencyKey: key, attempt, signal } = context;
    if (config.tell) tell({ is: "start", key, at: Date.now(), attempt });
    await pause(ms, undefined, config.asks ? {} : { signal });
    if (config.asks === "assertHeld") context.assertHeld();
    if (config.asks === "signal") signal.throwIfAborted();
    if (config.asks) tell({ is: "effect", key, at: Date.now(), attempt });
    // Each attempt would leave an effect of its own.
    if ("commit" in context) await context.commit([["create", { rowKey: `${key} ${randomUUID()}`, key }]]);
    if (config.tell) tell({ is: "end", key, at: Date.now(), attempt });
  }

  const queue = fastQueue(config.connectionString, config.queue);
  const options = {
    poisonQueue: fastQueue(config.connectionString, config.poisonQueue),
    concurrency: config.concurrency,
    visibilityTimeoutInSeconds: config.visibilityTimeoutInSeconds,
    minPollIntervalInMs: 20, maxPollIntervalInMs: 200,
    retryDelayInMs: 0,
    // Nothing that happens to these processes is a failure of a message: not a kill, not a stop, not a lost answer.
    maxAttempts: 1,
    drainTimeoutInMs: config.drainTimeoutInMs,
    ...(config.overflow !== undefined && { overflow: new ContainerClient(config.connectionString, config.overflow) }),
  };
  const consumer =
    config.mode === "claim"
      ? new QueueConsumer<Work>(queue, handle, { ...options, inbox: new ClaimInbox(table, { shards: config.shards }), order: config.order })
      : new QueueConsumer<Work>(queue, handle, { ...options, inbox: new CommitInbox(table), partitionOf: ({ partition = "" }) => partition });
  consumer.on("lost", ({ idempotencyKey: key, attempt }) => tell({ is: "lost", key, at: Date.now(), attempt }));
  const counts = { completed: 0, duplicate: 0, retried: 0, error: 0, lost: 0 };
  for (const event of ["completed", "duplicate", "retried", "error", "lost"] as const) consumer.on(event, () => counts[event]++);

  const told = new Promise((resolve) => {
    process.once("SIGTERM", resolve);
    void parent.receive().then(resolve);
  });
  await consumer.start();
  tell({ is: "ready" });
  await told;
  await consumer.stop();
  tell({ is: "stopped" });
  return counts;
});
