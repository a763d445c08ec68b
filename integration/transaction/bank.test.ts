import { expect, onTestFinished, test } from "vitest";

import { dropResponse, isBatch, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshTable } from "../support/clients.js";
import { startWorkers } from "../support/workers.js";
import type { TellerJob, TellerReport } from "./workers/teller.js";

const accounts = Array.from({ length: 16 }, (_, n) => `account-${n}`);
const opening = 1_000;

test("1,000 transfers of 4 processes over 16 accounts, with every fifth answer to a transaction lost, happen exactly once each", async () => {
  const table = await freshTable();
  for (const rowKey of accounts) await table.createEntity({ partitionKey: "bank", rowKey, balance: opening });
  const proxy = await startFaultProxy(azurite().tableUrl, [dropResponse({ when: isBatch, probability: 0.2 })], { seed: 4, logLimit: 0 });
  onTestFinished(() => proxy.stop());
  const jobs = [0, 1, 2, 3].map(
    (process): TellerJob => ({
      connectionString: connectionString({ tableUrl: proxy.url }),
      table: table.tableName,
      name: String(process),
      transfers: 250,
      accounts,
      total: accounts.length * opening,
    }),
  );
  const workers = startWorkers<TellerReport>(new URL("./workers/teller.ts", import.meta.url), jobs, { timeoutInMs: 110_000 });
  onTestFinished(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
  });
  const reports = await Promise.all(workers.map(({ result }) => result));

  expect(reports.flatMap(({ failed, unknown, wrongSums }) => [...failed, ...unknown, ...wrongSums])).toEqual([]);
  const balances = new Map<string, number>();
  const ledger: { rowKey: string; from: string; to: string; amount: number }[] = [];
  for await (const entity of table.listEntities<{ rowKey: string; balance: number; from: string; to: string; amount: number }>()) {
    if (entity.rowKey.startsWith("ledger-")) ledger.push(entity);
    else balances.set(entity.rowKey, entity.balance);
  }
  expect(ledger.map(({ rowKey }) => rowKey).sort()).toEqual(reports.flatMap(({ transferred }) => transferred).sort());
  expect(ledger).toHaveLength(1_000);
  const expected = new Map(accounts.map((rowKey) => [rowKey, opening]));
  for (const { from, to, amount } of ledger) {
    expected.set(from, expected.get(from)! - amount);
    expected.set(to, expected.get(to)! + amount);
  }
  expect(Object.fromEntries(balances)).toEqual(Object.fromEntries(expected));
  // The faults did strike.
  expect(proxy.faultCount()).toBeGreaterThan(20);
});
