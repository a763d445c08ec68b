/* Compares what clients were told with what is stored: orders, totals, payments, receipts and reports must agree exactly. */
import { listEntities } from "azure-storage-concurrency";
import type { Clients } from "./clients.js";
import { listReports } from "./jobs.js";
import { regions, totalsKey } from "./orders.js";
import type { OrderRequest, StoredOrder, Totals } from "./orders.js";
import { receiptsLog } from "./payments.js";

export interface Books {
  readonly orders: number;
  readonly paid: number;
  readonly declined: number;
  /** Neither: the message is still on its way, or in the poison queue. */
  readonly open: number;
  readonly receipts: number;
  readonly reports: number;
  /** In the poison queue, for a person to look at. */
  readonly poison: number;
  /** Every payment is booked, or in the poison queue, and every receipt of a paid order is written. */
  readonly isSettled: boolean;
  /** What does not agree. Empty: everything does. */
  readonly differences: readonly string[];
}

/**
 * @param placed - What clients were told. Orders of clients that gave up may be stored besides.
 * @param givenUp - How many of these there may be.
 */
export async function readBooks({ table, container, paymentsPoison }: Clients, placed: ReadonlyMap<string, OrderRequest>, givenUp = 0): Promise<Books> {
  const differences: string[] = [];
  const expect = (holds: boolean, difference: string): void => {
    if (!holds) differences.push(difference);
  };
  const orders = new Map<string, StoredOrder>();
  for (const region of regions) {
    const own: StoredOrder[] = [];
    let totals: Totals | undefined;
    for await (const row of listEntities<{ rowKey: string } & StoredOrder & Totals>(table, { filter: `PartitionKey eq '${region}'` })) {
      if (row.rowKey === totalsKey) totals = row;
      else {
        own.push(row);
        orders.set(row.rowKey.replace("order-", ""), row);
      }
    }
    const paid = own.filter(({ state }) => state === "paid");
    const revenue = paid.reduce((sum, { amount }) => sum + amount, 0);
    const found = { orders: own.length, paid: paid.length, declined: own.filter(({ state }) => state === "declined").length, revenue };
    for (const [name, count] of Object.entries(found)) expect((totals?.[name as keyof Totals] ?? 0) === count, `${region}: ${count} ${name}, but ${totals?.[name as keyof Totals] ?? "no"} in its totals`);
  }

  for (const [id, { amount }] of placed) expect(orders.get(id)?.amount === amount, `order ${id} was confirmed and is not stored as it was confirmed`);
  expect(orders.size - placed.size <= givenUp && orders.size >= placed.size, `${orders.size} orders are stored, and ${placed.size} were confirmed`);

  const lines = await readLines(container);
  const receipts = lines.map((line) => JSON.parse(line) as { id: string; amount: number });
  const receiptIds = new Set(receipts.map(({ id }) => id));
  expect(receiptIds.size === receipts.length, `${receipts.length - receiptIds.size} receipts are written twice`);
  for (const { id, amount } of receipts) expect(orders.get(id)?.state === "paid" && orders.get(id)?.amount === amount, `the receipt of ${id} does not fit its order`);
  const states = [...orders.values()].map(({ state }) => state);
  const [paid, declined] = [states.filter((state) => state === "paid").length, states.filter((state) => state === "declined").length];
  const open = orders.size - paid - declined;
  const poison = (await paymentsPoison.getProperties()).approximateMessagesCount ?? 0;
  expect(open >= poison, `${poison} payments are in the poison queue, and only ${open} orders are open`);

  const reports = await listReports(table);
  const counts = reports.map(({ orders: count }) => Number(count)).reverse();
  expect(counts.every((count, n) => n === 0 || count >= counts[n - 1]!), "a later report has fewer orders");
  return { orders: orders.size, paid, declined, open, poison, receipts: receipts.length, reports: reports.length, isSettled: open === poison && receipts.length === paid, differences };
}

async function readLines(container: Clients["container"]): Promise<string[]> {
  const log = container.getBlobClient(receiptsLog);
  if (!(await log.exists())) return [];
  return (await log.downloadToBuffer()).toString().split("\n").filter((line) => line !== "");
}
