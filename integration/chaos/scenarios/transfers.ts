import { updateFailures } from "../expected-errors.js";
import type { Scenario } from "../scenario.js";

const accounts = 8;
const start = 1_000;
const partitionKey = "bank";

export const transfers: Scenario = {
  name: "transfers",
  invariant: "no money is made or lost, every transfer happens exactly once (runTransaction)",
  tasks: 2,
  expects: updateFailures,
  prepare: async ({ table }) => {
    for (let i = 0; i < accounts; i++) await table.createEntity({ partitionKey, rowKey: `account-${i}`, balance: start });
  },
  work: async (task) => {
    const row = `task-${task.id.replaceAll("/", "-")}`;
    while (!task.finish.aborted) {
      const from = task.random.between(0, accounts - 1);
      const to = (from + task.random.between(1, accounts - 1)) % accounts;
      await task.operation(() =>
        task.library.runTransaction(
          task.storage.table,
          partitionKey,
          async (tx) => {
            const [giver, taker, done] = await Promise.all([
              tx.get<{ balance: number }>(`account-${from}`),
              tx.get<{ balance: number }>(`account-${to}`),
              tx.get<{ n: number }>(row),
            ]);
            if (!giver || !taker) throw new Error("an account is gone");
            tx.update({ rowKey: `account-${from}`, balance: giver.balance - 1 });
            tx.update({ rowKey: `account-${to}`, balance: taker.balance + 1 });
            if (done) tx.update({ rowKey: row, n: done.n + 1 });
            else tx.create({ rowKey: row, n: 1 });
          },
          { timeoutInMs: 8_000 },
        ),
      );
      await task.pause(20, 120);
    }
  },
  check: async ({ table }, operationLog) => {
    const counted = new Map<string, number>();
    let sum = 0;
    const rows = table.listEntities<{ rowKey: string; balance?: number; n?: number }>({ queryOptions: { filter: `PartitionKey eq '${partitionKey}'` } });
    for await (const { rowKey, balance, n } of rows) {
      if (rowKey.startsWith("account-")) sum += balance ?? 0;
      else if (rowKey.startsWith("task-")) counted.set(rowKey, n ?? 0);
    }
    const problems = operationLog.compare("transfers", (task) => counted.get(`task-${task.replaceAll("/", "-")}`) ?? 0);
    return sum === accounts * start ? problems : [...problems, `the balances add up to ${sum}, not ${accounts * start}`];
  },
};
