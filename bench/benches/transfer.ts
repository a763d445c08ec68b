import { setTimeout as pause } from "node:timers/promises";

import type { TableClient } from "@azure/data-tables";
import { runTransaction } from "azure-storage-concurrency";

import { alternate } from "../alternate.js";
import { contest } from "../contest.js";
import type { Bench, Side } from "../harness.js";
import { measureThroughput } from "../throughput.js";

interface Account {
  balance: number;
}

/** Moves one unit; false if it was told to stop before it got through. */
type Transfer = (from: string, to: string, stop: AbortSignal) => Promise<boolean>;

export const transfer: Bench = {
  name: "transfer",
  about: "transfers between two entities of a partition, against two reads and a transaction with their ETags, retried with full jitter; alone, and 32 at a time over 16 accounts",
  async *run(env) {
    const table = await env.freshTable();
    yield await uncontended(table);
    const sides = { ours: await crowd(table, "ours"), baseline: await crowd(table, "baseline") };
    yield await contest("contended", sides, [{ of: "ratio", atLeast: 5 }]);
  },
};

async function uncontended(table: TableClient): ReturnType<typeof contest> {
  const never = new AbortController().signal;
  for (const side of ["lone-ours", "lone-baseline"]) await open(table, side, ["a", "b"]);
  const { microseconds, ratio, requestsPerOp } = await alternate(
    {
      ours: () => transfers.ours(table, "lone-ours")("a", "b", never),
      baseline: () => transfers.baseline(table, "lone-baseline")("a", "b", never),
    },
    { turns: 600, opsPerTurn: 1, warmUpTurns: 600 },
  );
  return { name: "uncontended", unit: "µs/transfer", ...microseconds, ratio, requestsPerOp, bounds: [{ of: "ratio", atMost: 1.15 }] };
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
    await runTransaction(table, partitionKey, async (tx) => {
      const [payer, payee] = await tx.getMany<Account & { given: number }>([from, to]);
      tx.update({ rowKey: from, balance: payer!.balance - 1, given: payer!.given + 1 });
      tx.update({ rowKey: to, balance: payee!.balance + 1 });
    });
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

async function open(table: TableClient, partitionKey: string, accounts: readonly string[]): Promise<void> {
  for (const rowKey of accounts) await table.createEntity({ partitionKey, rowKey, balance: 0, given: 0 });
}

function twoOf(accounts: readonly string[]): [string, string] {
  const from = Math.floor(Math.random() * accounts.length);
  const to = (from + 1 + Math.floor(Math.random() * (accounts.length - 1))) % accounts.length;
  return [accounts[from]!, accounts[to]!];
}
