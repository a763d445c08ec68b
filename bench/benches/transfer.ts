import { setTimeout as pause } from "node:timers/promises";

import type { TableClient } from "@azure/data-tables";
import { runTransaction } from "azure-storage-concurrency";
import { delay, replaceEndpoints, startFaultProxy } from "azure-storage-concurrency/testing";

import { alternate } from "../alternate.js";
import { contest } from "../contest.js";
import type { Bench, BenchEnv, Side } from "../harness.js";
import { tableClient } from "../storage.js";
import { measureThroughput } from "../throughput.js";

interface Account {
  balance: number;
}

/** Moves one unit; false if it was told to stop before it got through. */
type Transfer = (from: string, to: string, stop: AbortSignal) => Promise<boolean>;

export const transfer: Bench = {
  name: "transfer",
  about: "transfers between two entities of a partition, against two reads and a transaction with their ETags, retried with full jitter; alone, 50 at a time that share no row, and 32 at a time over 16 accounts",
  async *run(env) {
    const table = await env.freshTable();
    yield await uncontended(table);
    yield await disjoint(env);
    const sides = { ours: await crowd(table, "ours"), baseline: await crowd(table, "baseline") };
    yield await contest("contended", sides, [{ of: "ratio", atLeast: 20 }]);
  },
};

async function uncontended(table: TableClient): ReturnType<typeof contest> {
  const never = new AbortController().signal;
  for (const side of ["lone-ours", "lone-baseline"]) await open(table, side, ["a", "b"]);
  const { microseconds, ...figures } = await alternate(
    {
      ours: () => transfers.ours(table, "lone-ours")("a", "b", never),
      baseline: () => transfers.baseline(table, "lone-baseline")("a", "b", never),
    },
    { turns: 600, opsPerTurn: 1, warmUpTurns: 600 },
  );
  return { name: "uncontended", unit: "µs/transfer", ...microseconds, ...figures, bounds: [{ of: "ratio", atMost: 1.02 }] };
}

const callers = 50;
const latencyInMs = 20;

/** Callers of one partition that share no row. What they lose by sharing requests must not be more than what the requests cost. */
async function disjoint(env: BenchEnv): ReturnType<typeof contest> {
  const { tableName } = await env.freshTable();
  const direct = tableClient(env.connectionString, tableName);
  const accounts = Array.from({ length: 2 * callers }, (_, n) => `account-${n}`);
  for (const side of ["ours", "baseline"]) await open(direct, side, accounts);
  const proxy = await startFaultProxy(direct.url, [delay(latencyInMs)], { logLimit: 0 });
  try {
    const table = tableClient(replaceEndpoints(env.connectionString, { tableUrl: proxy.url }), tableName);
    const all = (side: Side) => (): Promise<unknown> =>
      Promise.all(Array.from({ length: callers }, (_, n) => move(table, side, `account-${2 * n}`, `account-${2 * n + 1}`, side === "ours")));
    const { microseconds, ratio, spread, requestsPerOp } = await alternate({ ours: all("ours"), baseline: all("baseline") }, { turns: 12, opsPerTurn: 1, warmUpTurns: 4 });
    // The proxy sends each request once more.
    const perTransfer = (requests: number): number => requests / 2 / callers;
    return {
      name: `${callers} that share no row, ${latencyInMs} ms a request, against coalesce: false`,
      unit: "ms",
      ours: microseconds.ours / 1_000,
      baseline: microseconds.baseline / 1_000,
      ratio,
      spread,
      requestsPerOp: { ours: perTransfer(requestsPerOp.ours), baseline: perTransfer(requestsPerOp.baseline) },
      bounds: [{ of: "ratio", atMost: 1.1 }],
    };
  } finally {
    await proxy.stop();
  }
}

/** Many at a time in one process. What they moved is counted by an account that only ever gives. */
async function crowd(table: TableClient, side: Side): Promise<Parameters<typeof contest>[1][Side]> {
  const accounts = Array.from({ length: 16 }, (_, n) => `account-${n}`);
  await open(table, side, accounts);
  const once = transfers[side](table, side);
  return {
    run: () =>
      measureThroughput(
        (stop) => {
          const [from, to] = twoOf(accounts);
          return once(from, to, stop);
        },
        { updaters: 32, warmUpInMs: 1_500, measureInMs: 4_000 },
      ),
    async counter() {
      let moved = 0;
      let sum = 0;
      for await (const { balance, given } of table.listEntities<Account & { given: number }>({ queryOptions: { filter: `PartitionKey eq '${side}'` } })) {
        moved += given;
        sum += balance;
      }
      if (sum !== 0) throw new Error(`${side}: the accounts hold ${sum}, not nothing`);
      return moved;
    },
  };
}

const transfers: Readonly<Record<Side, (table: TableClient, partitionKey: string) => Transfer>> = {
  ours: (table, partitionKey) => async (from, to) => {
    await move(table, partitionKey, from, to, true);
    return true;
  },
  baseline: (table, partitionKey) => async (from, to, stop) => {
    for (let attempt = 0; !stop.aborted; attempt++) {
      const [payer, payee] = await Promise.all([from, to].map((rowKey) => table.getEntity<Account & { given: number }>(partitionKey, rowKey)));
      try {
        await table.submitTransaction([
          ["update", { partitionKey, rowKey: from, balance: payer!.balance - 1, given: payer!.given + 1 }, "Merge", { etag: payer!.etag }],
          ["update", { partitionKey, rowKey: to, balance: payee!.balance + 1 }, "Merge", { etag: payee!.etag }],
        ]);
        return true;
      } catch (error) {
        if ((error as { statusCode?: number }).statusCode !== 412) throw error;
      }
      await pause(Math.random() * Math.min(1_000, 10 * 2 ** attempt));
    }
    return false;
  },
};

async function move(table: TableClient, partitionKey: string, from: string, to: string, coalesce: boolean): Promise<void> {
  await runTransaction(
    table,
    partitionKey,
    async (tx) => {
      const [payer, payee] = await tx.getMany<Account & { given: number }>([from, to]);
      tx.update({ rowKey: from, balance: payer!.balance - 1, given: payer!.given + 1 });
      tx.update({ rowKey: to, balance: payee!.balance + 1 });
    },
    { coalesce },
  );
}

async function open(table: TableClient, partitionKey: string, accounts: readonly string[]): Promise<void> {
  for (const rowKey of accounts) await table.createEntity({ partitionKey, rowKey, balance: 0, given: 0 });
}

function twoOf(accounts: readonly string[]): [string, string] {
  const from = Math.floor(Math.random() * accounts.length);
  const to = (from + 1 + Math.floor(Math.random() * (accounts.length - 1))) % accounts.length;
  return [accounts[from]!, accounts[to]!];
}
