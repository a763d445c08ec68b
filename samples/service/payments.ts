/* The payment worker, and the receipts that follow. Each payment is booked once, and each receipt is written once. */
import { setTimeout as pause } from "node:timers/promises";
import { appendExactlyOnce, ClaimInbox, CommitInbox, QueueConsumer } from "azure-storage-concurrency";
import type { Clients } from "./clients.js";
import { noTotals, orderKey, totalsKey } from "./orders.js";
import type { PaymentRequest, StoredOrder, Totals } from "./orders.js";

/** A message to the receipts. */
export interface Receipt {
  readonly id: string;
  readonly amount: number;
}

export const receiptsLog = "receipts.jsonl";

/** Books payments: order, totals and the message for the receipt are one transaction with the record of the incoming message. */
export function paymentConsumer({ table, payments, paymentsPoison, receipts }: Clients): QueueConsumer<PaymentRequest> {
  return new QueueConsumer<PaymentRequest>(
    payments,
    async ({ id, amount, card }, context) => {
      // Not a failure that a repetition could cure: it is kept in the poison queue for a person to look at.
      if (card === "unreadable") {
        context.poison("The card cannot be read.");
        return;
      }
      const isAccepted = await charge(card, context.idempotencyKey, context.signal);
      await context.transaction(async (tx) => {
        const [order, totals = noTotals] = [await tx.get<StoredOrder>(orderKey(id)), await tx.get<Totals>(totalsKey)];
        if (order?.state !== "placed") return;
        tx.update({ rowKey: orderKey(id), state: isAccepted ? "paid" : "declined" });
        if (isAccepted) tx.update({ rowKey: totalsKey, paid: totals.paid + 1, revenue: totals.revenue + amount });
        else tx.update({ rowKey: totalsKey, declined: totals.declined + 1 });
        if (isAccepted) tx.send({ queue: receipts, payload: { id, amount } satisfies Receipt });
      });
    },
    { inbox: new CommitInbox(table), partitionOf: ({ region }) => region, poisonQueue: paymentsPoison, outgoingQueues: [receipts], maxProcessingTimeInMs: 20_000, maxPollIntervalInMs: 2_000 },
  );
}

/** Writes receipts. A line of its own identifies each: an append that is repeated after a crash is recognised. */
export function receiptConsumer({ table, receipts, receiptsPoison, container }: Clients): QueueConsumer<Receipt> {
  const log = container.getAppendBlobClient(receiptsLog);
  return new QueueConsumer<Receipt>(
    receipts,
    async ({ id, amount }, { signal }) => {
      await appendExactlyOnce(log, `${JSON.stringify({ id, amount })}\n`, { operationId: id, createIfNotExists: true, abortSignal: signal });
    },
    { inbox: new ClaimInbox(table), poisonQueue: receiptsPoison, maxProcessingTimeInMs: 20_000, maxPollIntervalInMs: 2_000 },
  );
}

/** Stands for a payment provider, which takes an idempotency key as well: a repetition does not charge the card again. */
async function charge(card: string, idempotencyKey: string, signal: AbortSignal): Promise<boolean> {
  await pause(10 + (idempotencyKey.charCodeAt(0) % 20), undefined, { signal });
  return card !== "declined";
}
