import type { TransactionAction } from "@azure/data-tables";
import * as asc from "azure-storage-concurrency";
import type { BackgroundService, CommitMessageContext, CommitResult, EnqueueResult, MessageContext, MessageInfo, MessageLostError, PurgeResult, QueueConsumer, QueueConsumerHealth, RedriveResult } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { blob, container, orderSchema, poisonQueue, queue, table } from "./storage.js";
import type { Order } from "./storage.js";

declare const actions: TransactionAction[];

export async function sendMessages(): Promise<void> {
  const sent = await asc.enqueue(queue, { id: "1" }, { idempotencyKey: "order-1", delayInMs: 10, timeToLiveInSeconds: 60, encoding: "base64" });
  typeOf(sent).is<EnqueueResult>();
  typeOf(sent.idempotencyKey).is<string>();
  // @ts-expect-error Results are readonly.
  sent.messageId = "x";
  // @ts-expect-error The service stores seconds.
  await asc.enqueue(queue, {}, { timeToLiveInMs: 10 });
  // @ts-expect-error No such encoding.
  await asc.enqueue(queue, {}, { encoding: "utf8" });
  await asc.enqueue(queue, {}, { overflow: container });
  await asc.enqueueMany(queue, [1], (n) => ({ payload: n, overflow: container }), { overflow: container });
  const purged = await asc.purgeOverflow(container, { olderThanInMs: 1 });
  typeOf(purged).is<PurgeResult>();
  new asc.QueueConsumer(queue, () => undefined, { overflow: container });
  // @ts-expect-error -- the name of a container
  await asc.enqueue(queue, {}, { overflow: "payloads" });
  const results = await asc.enqueueMany(queue, new Set([1]), (n) => ({ payload: n.toFixed(), idempotencyKey: "k" }), { concurrency: 2 });
  typeOf(results).is<readonly (EnqueueResult | { readonly error: unknown })[]>();
  // @ts-expect-error A message has a payload.
  await asc.enqueueMany(queue, [1], () => ({ idempotencyKey: "k" }));
  // @ts-expect-error A table is no queue.
  await asc.enqueue(table, {});
}

/** The payload's type comes from the schema, the handler's parameter, `decode` or the type argument. */
export function inferThePayload(): QueueConsumer<Order>[] {
  const bySchema = new asc.QueueConsumer(queue, (order) => void typeOf(order).is<Order>(), { schema: orderSchema });
  typeOf(bySchema).is<QueueConsumer<Order>>();
  const byParameter = new asc.QueueConsumer(queue, async (order: Order) => order.id);
  typeOf(byParameter).is<QueueConsumer<Order>>();
  const byArgument = new asc.QueueConsumer<Order>(queue, async ({ id }, { messageId }) => `${id}${messageId}`, { idempotencyKeyOf: ({ id }) => id });
  const unknown = new asc.QueueConsumer(queue, (payload) => void typeOf(payload).is<unknown>());
  typeOf(unknown).is<QueueConsumer>();
  const byDecode = new asc.QueueConsumer<Order>(queue, () => {}, { decode: async (text, { dequeueCount }) => ({ id: text, customer: "x", amount: dequeueCount }) });

  // @ts-expect-error The schema has another type.
  new asc.QueueConsumer<{ id: number }>(queue, () => {}, { schema: orderSchema });
  // @ts-expect-error The payload is unknown.
  new asc.QueueConsumer(queue, (payload) => payload.id);
  return [bySchema, byParameter, byArgument, byDecode];
}

export function useTheContext(context: MessageContext): void {
  // The functions do not depend on `this`.
  const { checkpoint, extend, poison, retry, signal, lastCheckpoint, attempt, insertedOn } = context;
  typeOf(signal).is<AbortSignal>();
  typeOf(lastCheckpoint).is<unknown>();
  typeOf(attempt).is<number>();
  typeOf(insertedOn).is<Date>();
  checkpoint({ page: 3 });
  retry({ delayInMs: 10 });
  poison("no such customer");
  typeOf(extend({ durationInMs: 10 })).is<Promise<void>>();
  context satisfies MessageInfo;
  // @ts-expect-error Contexts are readonly.
  context.attempt = 1;
  // @ts-expect-error A reason is needed.
  poison();
  // @ts-expect-error Misspelt option.
  retry({ delay: 10 });
  // @ts-expect-error Only with a CommitInbox.
  void context.commit;
  // @ts-expect-error An interface.
  new asc.MessageContext();
}

export function recogniseDuplicates(): BackgroundService[] {
  const claiming = new asc.QueueConsumer(queue, (_order: Order, context) => void typeOf(context).is<MessageContext>(), {
    inbox: new asc.ClaimInbox(table, { createTable: true }),
    poisonQueue,
    concurrency: 2,
    visibilityTimeoutInSeconds: 30,
    maxAttempts: 3,
    retryDelayInMs: (attempt, error) => (error === undefined ? 0 : attempt * 10),
    minPollIntervalInMs: 10,
    maxPollIntervalInMs: 20,
    maxProcessingTimeInMs: 1_000,
    drainTimeoutInMs: 10,
    encoding: "text",
    idempotencyKeyOf: ({ id }, { messageId }) => id || messageId,
  });
  const committing = new asc.QueueConsumer(
    queue,
    async (order, context) => {
      typeOf(order).is<Order>();
      typeOf(context).is<CommitMessageContext>();
      typeOf(context.partitionKey).is<string>();
      const { commit } = context;
      typeOf(await commit(actions)).is<CommitResult>();
      typeOf(await commit([["upsert", { rowKey: order.id, total: 1 }]], { tracingOptions: context.tracingOptions })).is<"committed" | "duplicate">();
      await commit(actions, { send: [{ queue, payload: { order: order.id }, delayInMs: 1_000 }] });
      // @ts-expect-error A message needs a queue.
      await commit(actions, { send: [{ payload: 1 }] });
      const committed = await context.transaction(async (tx) => {
        typeOf(tx).is<asc.CommitTransaction>();
        const entity = await tx.get<{ total: number }>(order.id);
        tx.send({ queue, payload: entity?.total ?? 0 } satisfies asc.OutgoingMessage);
        return entity?.total;
      }, { maxAttempts: 3 });
      typeOf(committed.outcome).is<CommitResult>();
      typeOf(committed.value).is<number | undefined>();
      // @ts-expect-error The message takes the place of an operation id.
      await context.transaction(() => 1, { operationId: "x" });
      // @ts-expect-error No such action.
      await commit([["insert", { rowKey: order.id }]]);
    },
    { inbox: new asc.CommitInbox(table), schema: orderSchema, partitionOf: ({ customer }, { idempotencyKey }) => customer + idempotencyKey },
  );
  typeOf(committing).is<QueueConsumer<Order>>();

  new asc.QueueConsumer(
    queue,
    async (_order: Order, context) => {
      // @ts-expect-error Only with a CommitInbox.
      await context.commit([]);
    },
    { inbox: new asc.ClaimInbox(table) },
  );
  // @ts-expect-error A CommitInbox writes to a partition: which one?
  new asc.QueueConsumer<Order>(queue, async (_order, context: CommitMessageContext) => void (await context.commit([])), { inbox: new asc.CommitInbox(table) });
  // @ts-expect-error The same for a handler that commits nothing.
  new asc.QueueConsumer<Order>(queue, (order) => order.id, { inbox: new asc.CommitInbox(table) });
  // @ts-expect-error A partition is of no use without a CommitInbox.
  new asc.QueueConsumer(queue, (order: Order) => void order.id, { inbox: new asc.ClaimInbox(table), partitionOf: () => "p" });
  // @ts-expect-error Misspelt option.
  new asc.CommitInbox(table, { createTables: true });
  // @ts-expect-error Misspelt option.
  new asc.QueueConsumer(queue, () => {}, { visibilityTimeout: 30 });
  // @ts-expect-error A blob is no inbox.
  new asc.ClaimInbox(blob);
  return [claiming, committing];
}

export async function keepTheInbox(): Promise<void> {
  for (const inbox of [new asc.ClaimInbox(table), new asc.CommitInbox(table, { createTable: true })]) {
    typeOf(await inbox.purge({ olderThanInMs: 1 })).is<PurgeResult>();
  }
  new asc.ClaimInbox(table, { shards: 4 } satisfies asc.ClaimInboxOptions) satisfies asc.Inbox;
  typeOf(await new asc.ClaimInbox(table).getGroup(queue, "g")).is<asc.InboxGroupInfo | undefined>();
  await new asc.ClaimInbox(table).forget(queue, "k", { group: "g" } satisfies asc.ClaimRecordOptions);
  typeOf(await new asc.ClaimInbox(table).get(queue, "k")).is<asc.InboxRecordInfo | undefined>();
  typeOf(await new asc.CommitInbox(table).forget(queue, "k", { partitionKey: "p" })).is<boolean>();
  // @ts-expect-error The record is in the partition of the effect: which one?
  await new asc.CommitInbox(table).get(queue, "k");
  const moved = await asc.redrive(poisonQueue, queue, { maxMessages: 10, filter: (details) => details?.reason === "no such customer" });
  typeOf(moved).is<RedriveResult>();
  // @ts-expect-error Durations end in InMs.
  await new asc.ClaimInbox(table).purge({ olderThan: 1 });
  // @ts-expect-error Results are readonly.
  moved.moved = 0;
}

export async function runAConsumer(consumer: QueueConsumer<Order>, abortSignal: AbortSignal): Promise<void> {
  consumer satisfies BackgroundService & AsyncDisposable;
  consumer
    .on("received", (message) => typeOf(message).is<MessageInfo>())
    .on("completed", ({ durationInMs, idempotencyKey }) => void [durationInMs satisfies number, idempotencyKey satisfies string])
    .on("retried", ({ delayInMs, error }) => void [delayInMs satisfies number, typeOf(error).is<unknown>()])
    .once("lost", ({ error }) => typeOf(error).is<MessageLostError>())
    .off("duplicate", () => {})
    .on("poisoned", ({ reason }) => typeOf(reason).is<string>())
    .on("error", (error) => typeOf(error).is<unknown>());
  await consumer.start();
  consumer.notify();
  const health = consumer.health();
  typeOf(health).is<QueueConsumerHealth>();
  typeOf(health.lastPollOn).is<Date | undefined>();
  typeOf(consumer.isRunning).is<boolean>();
  await consumer.stop({ drainTimeoutInMs: 10 });
  await consumer.run({ abortSignal });
  await using disposed = consumer;
  void disposed;

  // @ts-expect-error Without a signal it would run for ever.
  await consumer.run();
  // @ts-expect-error No such event.
  consumer.on("done", () => {});
  // @ts-expect-error No such detail.
  consumer.on("received", ({ durationInMs }) => durationInMs);
  // @ts-expect-error Readonly.
  health.inFlight = 0;
}
