import type { TableClient } from "@azure/data-tables";
import type { QueueClient } from "@azure/storage-queue";
import { QueueConsumer } from "../../../../queue/consumer.js";
import type { CommitMessageContext, MessageContext } from "../../../../queue/context.js";
import { enqueue } from "../../../../queue/enqueue.js";
import { ClaimInbox } from "../../../../queue/inbox/claim-inbox.js";
import { CommitInbox } from "../../../../queue/inbox/commit-inbox.js";
import type { CommitConsumerOptions, QueueConsumerOptions } from "../../../../queue/options.js";
import { redrive } from "../../../../queue/redrive.js";
import { BlobLocks } from "../../../../lock/blob-locks.js";
import { queueMetadata } from "../../../../target/queue-metadata.js";
import { leasedUpdate } from "../../../../update/leased-update.js";
import { expectDeleted } from "./blob-cases.js";
import { permissionCase } from "./case.js";
import type { PermissionCase } from "./case.js";

const payload = { n: 1 };
/** Does not fit into a message. */
const large = { text: "x".repeat(70_000) };

/** A consumer that is stopped from within its handler: it receives one message, and does not poll again. Its first error is thrown. */
async function runConsumer(create: (stop: () => void) => QueueConsumer): Promise<void> {
  const failures: unknown[] = [];
  let stopped: Promise<unknown> | undefined;
  await new Promise<void>((resolve) => {
    const stop = (): void => {
      stopped ??= consumer.stop();
      resolve();
    };
    const consumer = create(stop);
    const fail = (error: unknown): void => {
      failures.push(error);
      stop();
    };
    consumer.on("error", fail);
    consumer.start().catch(fail);
  });
  await stopped;
  if (failures.length > 0) throw failures[0];
}

const consumeOne = (queue: QueueClient, options: QueueConsumerOptions<unknown> = {}, work: (context: MessageContext) => unknown = () => undefined): Promise<void> =>
  runConsumer((stop) => new QueueConsumer(queue, async (_payload, context) => {
    stop();
    await work(context);
  }, { concurrency: 1, ...options }));

const commitOne = (queue: QueueClient, options: CommitConsumerOptions<unknown>, work: (context: CommitMessageContext) => Promise<unknown>): Promise<void> =>
  runConsumer((stop) => new QueueConsumer(queue, async (_payload, context) => {
    stop();
    await work(context);
  }, { concurrency: 1, ...options }));

const commitInto = (table: TableClient, queue: QueueClient, partitionKey: string): Promise<void> =>
  commitOne(queue, { inbox: new CommitInbox(table), partitionOf: () => partitionKey }, ({ commit }) => commit([["create", { rowKey: "row", n: 1 }]]));

/** To the poison queue, with a checkpoint or without. */
const poisonOne = (queue: QueueClient, poisonQueue: QueueClient, checkpoint?: unknown): Promise<void> =>
  consumeOne(queue, { poisonQueue }, (context) => {
    if (checkpoint !== undefined) context.checkpoint(checkpoint);
    context.poison("tried by verify");
  });

/** Messages, and what consumers use beside their queue. */
export const queueCases: readonly PermissionCase[] = [
  permissionCase({
    helper: "`leasedUpdate(queueMetadata)` with a lock, a SAS of the account", grants: { queue: "rw", container: "rwca" }, queueSas: "account", requests: 9,
    run: ({ queue, container }) => leasedUpdate(queueMetadata(queue), () => ({ checked: "yes" }), { lock: { locks: new BlobLocks(container), name: "metadata" } }),
  }),
  permissionCase({ helper: "`enqueue`", grants: { queue: "a" }, requests: 1, run: ({ queue }) => enqueue(queue, payload) }),
  permissionCase({ helper: "`enqueue` with `overflow`", grants: { queue: "a", container: "cw" }, requests: 2, run: ({ queue, container }) => enqueue(queue, large, { overflow: container }) }),
  permissionCase({ helper: "`QueueConsumer`", grants: { queue: "rpu" }, requests: 4, before: ({ queue }) => enqueue(queue, payload), run: ({ queue }) => consumeOne(queue) }),
  permissionCase({
    helper: "`QueueConsumer`, a handler that fails", grants: { queue: "rpu" }, requests: 4, before: ({ queue }) => enqueue(queue, payload),
    run: ({ queue }) => consumeOne(queue, {}, () => {
      throw new Error("the handler fails");
    }),
  }),
  permissionCase({
    helper: "`QueueConsumer` with a poison queue", grants: { queue: "rpu", poisonQueue: "a" }, requests: 7, before: ({ queue }) => enqueue(queue, payload),
    run: ({ queue, poisonQueue }) => poisonOne(queue, poisonQueue),
  }),
  permissionCase({
    helper: "`QueueConsumer` with `overflow`", grants: { queue: "rpu", container: "rd" }, requests: 8, before: ({ queue, container }) => enqueue(queue, large, { overflow: container }),
    run: ({ queue, container }) => consumeOne(queue, { overflow: container }),
  }),
  permissionCase({
    helper: "`QueueConsumer` with a `ClaimInbox`", grants: { queue: "rpu", table: "rau" }, requests: 8, before: ({ queue }) => enqueue(queue, payload),
    run: ({ queue, table }) => consumeOne(queue, { inbox: new ClaimInbox(table) }),
  }),
  permissionCase({
    helper: "`QueueConsumer` with a `CommitInbox`", grants: { queue: "rpu", table: "rau" }, requests: 6, before: ({ queue }) => enqueue(queue, payload),
    run: ({ queue, table, partitionKey }) => commitInto(table, queue, partitionKey),
  }),
  permissionCase({
    helper: "`ClaimInbox.get`, `ClaimInbox.forget`", grants: { queue: "r", table: "rd" }, requests: 12,
    before: async ({ queue, table, partitionKey }) => {
      await enqueue(queue, payload, { idempotencyKey: partitionKey });
      await consumeOne(queue, { inbox: new ClaimInbox(table) });
    },
    run: async ({ queue, table, partitionKey }) => {
      const inbox = new ClaimInbox(table);
      if ((await inbox.get(queue, partitionKey)) === undefined || !(await inbox.forget(queue, partitionKey))) throw new Error("nothing was recorded");
    },
  }),
  permissionCase({
    helper: "`ClaimInbox.purge`", grants: { queue: "r", ownTable: "rd" }, requests: 12, slow: true,
    before: async ({ queue, ownTable, workspace }) => {
      await enqueue(queue, payload);
      await consumeOne(queue, { inbox: new ClaimInbox(ownTable) });
      await workspace.pause(5_000);
    },
    run: async ({ ownTable }) => expectDeleted(await new ClaimInbox(ownTable).purge({ olderThanInMs: 0 })),
  }),
  permissionCase({
    helper: "`CommitInbox.purge`", grants: { queue: "r", ownTable: "rd" }, requests: 8, slow: true,
    before: async ({ queue, ownTable, partitionKey, workspace }) => {
      await enqueue(queue, payload);
      await commitInto(ownTable, queue, partitionKey);
      await workspace.pause(5_000);
    },
    run: async ({ ownTable }) => expectDeleted(await new CommitInbox(ownTable).purge({ olderThanInMs: 0 })),
  }),
  permissionCase({
    helper: "`redrive`", grants: { poisonQueue: "pu", queue: "a" }, requests: 9,
    before: async ({ queue, poisonQueue }) => {
      await enqueue(queue, payload);
      await poisonOne(queue, poisonQueue);
    },
    run: async ({ queue, poisonQueue }) => expectMoved(await redrive(poisonQueue, queue, { maxMessages: 1 })),
  }),
  permissionCase({
    helper: "`redrive` of a message with a checkpoint", grants: { poisonQueue: "pu", queue: "au" }, requests: 10,
    before: async ({ queue, poisonQueue }) => {
      await enqueue(queue, payload);
      await poisonOne(queue, poisonQueue, { at: 1 });
    },
    run: async ({ queue, poisonQueue }) => expectMoved(await redrive(poisonQueue, queue, { maxMessages: 1 })),
  }),
];

function expectMoved({ moved }: { readonly moved: number }): void {
  if (moved !== 1) throw new Error("nothing was moved");
}
