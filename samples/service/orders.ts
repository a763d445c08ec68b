/* Orders. The order, the total of its region, the response to the client and the message to the payment worker are one transaction. */
import { randomUUID } from "node:crypto";
import { Once } from "azure-storage-concurrency";
import type { OnceResult, Outbox } from "azure-storage-concurrency";
import type { Clients } from "./clients.js";

/** Each region is a partition: a transaction cannot span two. */
export const regions = ["eu", "us", "asia"] as const;
export type Region = (typeof regions)[number];

/** What a client sends. */
export interface OrderRequest {
  readonly region: Region;
  readonly customer: string;
  /** In cents. */
  readonly amount: number;
  readonly card: string;
}

/** What it gets back, however often it sends the request. */
export interface PlacedOrder {
  readonly id: string;
  readonly region: Region;
  readonly amount: number;
}

/** A row of the table. */
export interface StoredOrder {
  readonly customer: string;
  readonly amount: number;
  readonly state: "placed" | "paid" | "declined";
}

/** The totals of a region: one row that every order and every payment changes. */
export interface Totals {
  readonly orders: number;
  readonly paid: number;
  readonly declined: number;
  readonly revenue: number;
}

/** A message to the payment worker. */
export interface PaymentRequest {
  readonly id: string;
  readonly region: Region;
  readonly amount: number;
  readonly card: string;
}

export const totalsKey = "totals";
export const noTotals: Totals = { orders: 0, paid: 0, declined: 0, revenue: 0 };
export const orderKey = (id: string): string => `order-${id}`;

/** A mistake of the client. */
export class BadRequest extends Error {
  override readonly name = "BadRequest";
}

export class Orders {
  readonly #clients: Clients;
  readonly #once: Once;
  readonly #outbox: Outbox;

  constructor(clients: Clients, outbox: Outbox) {
    this.#clients = clients;
    this.#once = new Once(clients.table);
    this.#outbox = outbox;
  }

  /**
   * Places an order once for each key, whichever instance gets the request, and its repetitions.
   * @throws a ConcurrencyError with the code IDEMPOTENCY_MISMATCH if the key belongs to another order.
   */
  place(idempotencyKey: string, request: OrderRequest, abortSignal: AbortSignal): Promise<OnceResult<PlacedOrder>> {
    const { region, customer, amount, card } = request;
    // The keys of two customers must not meet.
    return this.#once.runTransaction<PlacedOrder>(`${customer}/${idempotencyKey}`, region, async (tx) => {
      // The function may run several times; the id of the run that is committed is the one that counts.
      const id = randomUUID();
      const { orders, paid, declined, revenue } = (await tx.get<Totals>(totalsKey)) ?? noTotals;
      tx.upsert({ rowKey: totalsKey, orders: orders + 1, paid, declined, revenue });
      tx.create({ rowKey: orderKey(id), customer, amount, state: "placed" });
      this.#outbox.add(tx, this.#clients.payments, { id, region, amount, card } satisfies PaymentRequest, { idempotencyKey: id });
      return { id, region, amount };
    }, { fingerprint: request, timeoutInMs: 10_000, abortSignal });
  }

  /** Undefined: there is no such order. */
  async find(region: Region, id: string): Promise<StoredOrder | undefined> {
    try {
      const { customer, amount, state } = await this.#clients.table.getEntity<StoredOrder>(region, orderKey(id));
      return { customer, amount, state };
    } catch (error) {
      if ((error as { statusCode?: unknown }).statusCode === 404) return undefined;
      throw error;
    }
  }
}

/** Checks the body of a request. @throws {@link BadRequest} */
export function parseOrder(body: unknown): OrderRequest {
  const { region, customer, amount, card } = (body ?? {}) as Partial<Record<string, unknown>>;
  const known = regions.find((each) => each === region);
  if (!known) throw new BadRequest(`region must be one of ${regions.join(", ")}`);
  if (typeof customer !== "string" || !/^[\w-]{1,50}$/.test(customer)) throw new BadRequest("customer must be 1 to 50 letters, digits, - or _");
  if (!Number.isSafeInteger(amount) || (amount as number) < 1 || (amount as number) > 1_000_000) throw new BadRequest("amount must be a whole number of cents from 1 to 1000000");
  if (typeof card !== "string" || card.length === 0 || card.length > 50) throw new BadRequest("card must have 1 to 50 characters");
  return { region: known, customer, amount: amount as number, card };
}
