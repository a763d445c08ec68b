import * as asc from "azure-storage-concurrency";
import type { BackgroundService, OutboxEvents, OutboxMessage } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { container, queue, table } from "./storage.js";
import type { Order } from "./storage.js";

export async function useOutbox(): Promise<void> {
  const outbox = new asc.Outbox(table, { queues: [queue], relayAfterInMs: 1_000, pollIntervalInMs: 1_000, drainTimeoutInMs: 1 });
  const service: BackgroundService = new asc.Outbox(table, { queues: () => queue });
  await service.start();
  await asc.runTransaction(table, "p", (tx) => outbox.add(tx, queue, { id: 1 }, { idempotencyKey: "k", delayInMs: 1, group: "g", sequence: 1, overflow: container }));
  await asc.runTransaction<Order>(table, "p", (tx) => outbox.add(tx, queue, 1));
  await new asc.ConcurrentTable<Order>(table).runTransaction("p", (tx) => outbox.add(tx, queue, 1));
  await new asc.Once(table).runTransaction("k", "p", (tx) => outbox.add(tx, queue, 1));
  typeOf(await outbox.flush()).is<{ readonly sent: number; readonly failed: number }>();
  for await (const message of outbox.list()) typeOf(message).is<OutboxMessage>();
  outbox.on("sent", (detail) => void typeOf(detail).is<OutboxEvents["sent"]>()).once("error", (error) => void typeOf(error).is<unknown>());
  typeOf(new asc.ConcurrentTable(table).outbox({ queues: [] })).is<asc.Outbox>();
  // With locks, one instance relays at a time.
  const locks = new asc.BlobLocks(container);
  typeOf(new asc.Outbox(table, locks, { queues: [queue], relayAfterInMs: 1_000 })).is<asc.Outbox>();
  typeOf(new asc.ConcurrentTable(table, { locks }).outbox({ queues: () => queue })).is<asc.Outbox>();
  // @ts-expect-error The relay needs queues, also with locks.
  new asc.Outbox(table, locks);
  // @ts-expect-error The options come last.
  new asc.Outbox(table, { queues: [queue] }, locks);
  // @ts-expect-error A container is no BlobLocks.
  new asc.Outbox(table, container, { queues: [queue] });
  // @ts-expect-error Locks that may be missing: every instance would relay.
  new asc.Outbox(table, Math.random() < 1 ? locks : undefined, { queues: [queue] });
  // @ts-expect-error Misspelt option.
  new asc.Outbox(table, locks, { queues: [queue], pollInterval: 1 });
  // @ts-expect-error The relay needs queues.
  new asc.Outbox(table);
  // @ts-expect-error A container is no queue.
  new asc.Outbox(table, { queues: [container] });
  // @ts-expect-error No such event.
  outbox.on("send", () => undefined);
  // @ts-expect-error Misspelt option.
  await asc.runTransaction(table, "p", (tx) => outbox.add(tx, queue, 1, { key: "k" }));
}
