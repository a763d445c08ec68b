import * as asc from "azure-storage-concurrency";
import type { OnceContext, OnceResult, OnceState, PurgeResult } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { container, orderSchema, queue, table } from "./storage.js";
import type { Order } from "./storage.js";

declare const order: Order;

export async function runOnce(): Promise<void> {
  const once = new asc.Once(table, { resultTtlInMs: 1_000, claimDurationInMs: 1_000, createTable: true, overflow: container });
  typeOf(await once.run("k", async () => ({ id: 1 }), { fingerprint: { a: 1 } })).is<OnceResult<{ id: number }>>();
  typeOf((await once.run("k", () => "x", { whenInProgress: "throw", storeError: () => true, timeoutInMs: 1 })).value).is<string>();
  await once.run("k", (context) => void typeOf(context).is<OnceContext>());
  await once.run("k", ({ key, attempt, signal, assertHeld }) => [key, attempt, signal.aborted, assertHeld()]);
  typeOf((await once.run("k", (): Order => order, { schema: orderSchema })).value).is<Order>();
  typeOf(await once.runTransaction("k", "p", async (tx) => (await tx.get("a"))?.rowKey, { types: { n: "Int64" } })).is<OnceResult<string | undefined>>();
  typeOf(await once.get<number>("k")).is<OnceState<number> | undefined>();
  typeOf(await once.forget("k", { partitionKey: "p" })).is<boolean>();
  typeOf(await once.purge({ olderThanInMs: 1 })).is<PurgeResult>();
  typeOf(new asc.ConcurrentTable(table).once({ createTable: true })).is<asc.Once>();
  // @ts-expect-error A transaction does not wait for another one.
  await once.runTransaction("k", "p", () => 1, { whenInProgress: "wait" });
  // @ts-expect-error A queue is no table.
  new asc.Once(queue);
  // @ts-expect-error A container is no table.
  new asc.Once(container);
  // @ts-expect-error Misspelt option.
  await once.run("k", () => 1, { fingerPrint: 1 });
}
